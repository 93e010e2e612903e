"""fairtrial stop, cancel, delete and reap, on studies made by hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.record import record
from analysis.record.ledger import LEDGER
from analysis.record.record import Record
from analysis.tracking import open_store, studies
from study.__main__ import app
from study.driver import lease
from study.driver.folder import studies_in
from study.driver.lease import REQUEST, Lease
from tests.conftest import MakeConfig
from tests.support.record import WrittenStudy
from tests.support.waiting import await_that


@pytest.fixture
def written(config: MakeConfig) -> WrittenStudy:
    made = WrittenStudy(config(losses=["triplet"], name="mine", reproductions=2))
    made.begin()
    made.trial(0)
    made.trial(1, epochs=2, ends=False)
    return made


def fairtrial(written: WrittenStudy, *words: str, **more: Any) -> Any:
    return CliRunner().invoke(app, [*words, "--studies", str(written.folder.parent)], **more)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """A studies folder whose study waits for nodes, and what its driver heard."""
    folder, heard = tmp_path / "mine", list[str]()
    folder.mkdir()
    (folder / LEDGER).touch()
    with Lease(folder, heard.append):
        yield tmp_path, heard


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_a_study_that_waits_for_nodes_hears_it(waiting: tuple[Path, list[str]], verb: str) -> None:
    shown = CliRunner().invoke(app, [verb, "mine", "--studies", str(waiting[0])])
    assert (shown.exit_code, waiting[1]) == (0, [verb]), shown.stderr
    assert "leaves nothing behind" in shown.stdout


@pytest.mark.parametrize(
    ("verb", "says"), [("stop", "finishes its running trials"), ("cancel", "mine ends.")]
)
def test_a_running_study_hears_it(written: WrittenStudy, verb: str, says: str) -> None:
    heard: list[str] = []
    with Lease(written.folder, heard.append):
        shown = fairtrial(written, verb, "mine")
        assert shown.exit_code == 0, shown.stderr
        await_that(lambda: heard)
    assert heard == [verb]
    assert says in shown.stdout


@pytest.mark.parametrize("verb", ["stop", "cancel"])
def test_a_study_that_does_not_run_hears_nothing(written: WrittenStudy, verb: str) -> None:
    shown = fairtrial(written, verb, "mine")
    assert (shown.exit_code, "is not running: it is interrupted" in shown.stderr) == (2, True)
    assert not (written.folder / REQUEST).exists()


def test_delete_asks_first_and_takes_the_runs_too(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    (written.folder.parent / ".mine.deleted" / LEDGER).write_text("{}\n")
    assert not studies_in(written.folder.parent)
    assert "mine" not in studies(uri)


@pytest.mark.parametrize("harm", ["first line", "later line"])
def test_an_unreadable_study_can_be_deleted(written: WrittenStudy, harm: str) -> None:
    first, rest = (written.folder / LEDGER).read_text().split("\n", 1)
    old = '{"event":"study","version":1}'
    (written.folder / LEDGER).write_text(
        f"{old}\n{rest}" if harm == "first line" else f"{first}\nbroken\n{rest}"
    )
    asked = fairtrial(written, "delete", "mine", input="n\n")
    assert (asked.exit_code, "(unreadable)" in asked.output) == (1, True), asked.output
    shown = fairtrial(written, "delete", "mine", "--yes")
    assert shown.exit_code == 0, shown.output
    assert not written.folder.exists()
    runs_left = "its runs in MLflow, if any, are still there" in shown.stdout
    assert runs_left == (harm == "first line")


def test_reap_writes_what_mlflow_lacks_and_kills_what_nobody_drives(written: WrittenStudy) -> None:
    """A driver was killed before MLflow heard of anything."""
    shown = fairtrial(written, "reap")
    assert shown.exit_code == 0, shown.stderr
    assert "1 of 1 studies needed it" in shown.stdout
    written.check(finished=False)
    client = open_store(f"sqlite:///{written.folder.parent / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("mine")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    assert "RUNNING" not in {run.info.status for run in runs}


def test_a_study_that_was_reaped_needs_no_reaping(written: WrittenStudy) -> None:
    assert "1 of 1 studies needed it" in fairtrial(written, "reap").stdout
    assert "0 of 1 studies needed it" in fairtrial(written, "reap").stdout


def test_a_study_that_was_interrupted_in_good_order_needs_no_reaping(
    written: WrittenStudy,
) -> None:
    written.mirror().close()
    assert "0 of 1 studies needed it" in fairtrial(written, "reap").stdout


def test_reap_names_a_store_that_is_away_and_no_password(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = "http://me:secret@127.0.0.1:9"
    about = {"losses": ["triplet"], "name": "away", "reproductions": 2, "tracking_uri": away}
    made = WrittenStudy(config(**about))
    made.begin()
    opened: list[Record] = []
    monkeypatch.setattr(record, "Record", lambda folder: opened.append(Record(folder)) or opened[0])
    shown = fairtrial(made, "reap")
    assert [each.ledger.file.closed for each in opened] == [True]
    assert (shown.exit_code, "0 of 1 studies needed it" in shown.stdout) == (4, True)
    assert "MLflow at http://…@127.0.0.1:9 cannot be used" in shown.stdout
    assert "secret" not in shown.output


def test_reap_leaves_running_studies_alone(written: WrittenStudy) -> None:
    with Lease(written.folder):
        assert "0 of 1 studies needed it" in fairtrial(written, "reap").stdout


def test_a_finished_study_that_mlflow_has_needs_no_reaping(config: MakeConfig) -> None:
    made = WrittenStudy(config(losses=["triplet"], name="whole", reproductions=2))
    made.begin()
    mirror = made.mirror()
    made.finish()
    mirror.close()
    assert "0 of 1 studies needed it" in fairtrial(made, "reap").stdout
