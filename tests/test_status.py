"""status, stop, cancel, delete and reap, on studies made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.tracking import open_store, studies
from study import lease
from study.__main__ import app
from study.commands import config_of
from study.commands import status as commands
from study.lease import REQUEST, Lease
from study.ledger import LEDGER
from study.status import status_of, studies_in
from tests.conftest import MakeConfig
from tests.support.waiting import await_that
from tests.support.written import Written, everything


@pytest.fixture
def written(config: MakeConfig) -> Written:
    made = Written(config(losses=["triplet"], name="mine", reproductions=2))
    made.begin()
    made.trial(0)
    made.trial(1, epochs=2, ends=False)
    return made


def fairtrial(written: Written, *words: str, **more: Any) -> Any:
    return CliRunner().invoke(app, [*words, "--studies", str(written.folder.parent)], **more)


def test_an_interrupted_study_says_how_far_it_is_and_how_to_go_on(written: Written) -> None:
    found = status_of(written.folder)
    assert (found.state, found.ended, found.total, found.failed, found.epochs) == ("interrupted", 1, 3, 0, 5)
    assert found.outcomes == {"finished": 1}
    assert [(cell.given, cell.ended, cell.running, round(cell.best or 0, 6)) for cell in found.cells] == [(2, 1, 1, 0.3)]
    shown = fairtrial(written, "status", "mine")
    assert shown.exit_code == 0
    assert "run mine --resume" in shown.stdout
    assert "1 of 3 trials ended" in shown.stdout


def test_a_score_of_the_test_classes_is_marked(written: Written) -> None:
    assert [cell.peeks for cell in status_of(written.folder).cells] == [False]
    assert "on the test classes" not in fairtrial(written, "status", "mine").stdout
    text = (written.folder / LEDGER).read_text().replace('"fixed_validation"', '"default"')
    (written.folder / LEDGER).write_text(text)
    shown = fairtrial(written, "status", "mine").stdout
    assert "0.300*" in shown
    assert "* on the test classes" in shown


def test_a_running_study_names_its_driver_and_a_stopping_one_says_so(written: Written) -> None:
    with Lease(written.folder):
        assert status_of(written.folder).state == "running"
        assert "driven by process" in fairtrial(written, "status", "mine").stdout
        written.ledger.note("stopping")
        assert status_of(written.folder).state == "stopping"


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """A study whose driver waits for nodes: it has a lease, and nothing in its ledger. What its driver heard."""
    folder, heard = tmp_path / "mine", list[str]()
    folder.mkdir()
    (folder / LEDGER).touch()
    with Lease(folder, heard.append):
        yield tmp_path, heard


def test_a_study_that_waits_for_room_is_shown(waiting: tuple[Path, list[str]]) -> None:
    at = ["--studies", str(waiting[0])]
    shown = CliRunner().invoke(app, ["status", "mine", *at])
    assert (shown.exit_code, "mine: waiting for room" in shown.stdout) == (0, True)
    assert CliRunner().invoke(app, ["status", *at]).stdout.split("\n")[1].split()[:2] == ["mine", "waiting"]
    assert json.loads(CliRunner().invoke(app, ["status", "mine", "--json", *at]).stdout)["state"] == "waiting"


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_a_study_that_waits_for_room_is_told(waiting: tuple[Path, list[str]], verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "mine", "--studies", str(waiting[0])])
    assert (shown.exit_code, waiting[1]) == (0, [verb]), shown.stderr
    assert "leaves nothing behind" in shown.stdout


def test_watching_a_study_that_gave_up_waiting_ends_with_a_sentence(
    waiting: tuple[Path, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(seconds: float) -> None:
        (waiting[0] / "mine" / LEDGER).unlink()

    monkeypatch.setattr(commands.time, "sleep", give_up)
    shown = CliRunner().invoke(app, ["status", "mine", "--watch", "--studies", str(waiting[0])])
    assert (shown.exit_code, "holds no study 'mine'" in shown.stderr) == (2, True)


def test_a_finished_study_is_finished_and_all_are_listed(written: Written) -> None:
    written.end(1, 2)
    written.trial(2)
    written.ledger.note("finished")
    shown = fairtrial(written, "status")
    assert shown.stdout.split("\n")[1].split()[:3] == ["mine", "finished", "3/3"]


def test_status_for_programs(written: Written) -> None:
    one = json.loads(fairtrial(written, "status", "mine", "--json").stdout)
    assert (one["name"], one["state"], one["cells"][0]["given"]) == ("mine", "interrupted", 2)
    assert [each["name"] for each in json.loads(fairtrial(written, "status", "--json").stdout)] == ["mine"]


def test_what_is_for_programs_is_not_watched(written: Written) -> None:
    shown = fairtrial(written, "status", "mine", "--json", "--watch")
    assert (shown.exit_code, "leave one of them out" in shown.stderr) == (2, True)


def test_a_config_that_the_power_cut_short_is_made_again_from_the_ledger(written: Written) -> None:
    path = written.folder / "config.yaml"
    whole = path.read_text()
    for kept in (0, len(whole) // 2, len(whole) - 1):
        path.write_text(whole[:kept])
        written.ledger.note("resumed", grows={"reproductions": 3})
        assert config_of(written.folder).model_copy(update={"reproductions": 2, "slots": written.config.slots}) == written.config
        assert config_of(written.folder).reproductions == 3
    path.write_text(whole)
    config_of(written.folder)
    assert path.read_text() == whole, "one that is whole is left alone"


def test_without_studies_there_is_a_sentence(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["status", "--studies", str(tmp_path)])
    assert shown.exit_code == 2
    assert "holds no study" in shown.stderr


@pytest.mark.parametrize(("verb", "says"), [("stop", "finishes its running trials"), ("cancel", "mine ends.")])
def test_a_running_study_is_told(written: Written, verb: str, says: str) -> None:
    heard: list[str] = []
    with Lease(written.folder, heard.append):
        shown = fairtrial(written, verb, "mine")
        assert shown.exit_code == 0, shown.stderr
        await_that(lambda: heard)
    assert heard == [verb]
    assert says in shown.stdout


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_a_study_that_does_not_run_cannot_be_told(written: Written, verb: str) -> None:
    shown = fairtrial(written, verb, "mine")
    assert (shown.exit_code, "is not running: it is interrupted" in shown.stderr) == (2, True)
    assert not (written.folder / REQUEST).exists()


def test_delete_asks_first_and_takes_the_runs_too(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.mirror().close()
    uri = f"sqlite:///{written.folder.parent / 'mlflow.db'}"
    assert fairtrial(written, "delete", "mine", input="n\n").exit_code == 1
    assert fairtrial(written, "delete", "mine", input="").exit_code == 2
    assert written.folder.exists()
    with Lease(written.folder):
        shown = fairtrial(written, "delete", "mine", "--yes")
        assert (shown.exit_code, "is being run by" in shown.stderr) == (2, True)
    monkeypatch.setattr(lease, "BEAT", 0.0)
    monkeypatch.setattr(lease, "POLL", 0.001)
    for number in range(3000):
        (written.folder / f"large-{number}").touch()
    assert fairtrial(written, "delete", "mine", input="y\n").exit_code == 0
    assert not list(written.folder.parent.glob("*mine*"))
    (written.folder.parent / ".mine.deleted").mkdir()  # a deletion that was cut off
    (written.folder.parent / ".mine.deleted" / LEDGER).write_text("{}")
    assert not studies_in(written.folder.parent)
    assert "mine" not in studies(uri)


def test_reap_writes_what_mlflow_lacks_and_kills_what_nobody_drives(written: Written) -> None:
    """A driver was killed before it could say anything to MLflow beyond the first trial."""
    shown = fairtrial(written, "reap")
    assert shown.exit_code == 0, shown.stderr
    assert "1 of 1 studies needed it" in shown.stdout
    written.check(finished=False)
    client = open_store(f"sqlite:///{written.folder.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine")
    assert experiment is not None
    assert "RUNNING" not in {run.info.status for run in client.search_runs([experiment.experiment_id])}


def test_a_study_that_was_reaped_or_interrupted_in_good_order_needs_no_reaping(written: Written) -> None:
    assert "1 of 1 studies needed it" in fairtrial(written, "reap").stdout
    assert "0 of 1 studies needed it" in fairtrial(written, "reap").stdout


def test_reap_tells_of_a_store_that_is_away_and_of_no_password(config: MakeConfig) -> None:
    made = Written(config(losses=["triplet"], name="away", reproductions=2, tracking_uri="http://me:secret@127.0.0.1:9"))
    made.begin()
    shown = fairtrial(made, "reap")
    assert (shown.exit_code, "0 of 1 studies needed it" in shown.stdout) == (4, True)
    assert "away: MLflow at http://…@127.0.0.1:9 cannot be used" in shown.stdout


def test_reap_leaves_running_and_finished_studies_alone(written: Written) -> None:
    with Lease(written.folder):
        assert "0 of 1 studies needed it" in fairtrial(written, "reap").stdout


def test_a_finished_study_that_mlflow_has_needs_no_reaping(config: MakeConfig) -> None:
    made = Written(config(losses=["triplet"], name="whole", reproductions=2))
    made.begin()
    mirror = made.mirror()
    everything(made)
    mirror.close()
    assert "0 of 1 studies needed it" in fairtrial(made, "reap").stdout
