"""fairtrial status, on studies made by hand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.record.events import StudyFinished
from analysis.record.ledger import LEDGER
from study.__main__ import app
from study.cli import status as commands
from study.driver.lease import Lease
from tests.conftest import MakeConfig
from tests.support.ledgers import rewrite
from tests.support.record import WrittenStudy


@pytest.fixture
def written(config: MakeConfig) -> WrittenStudy:
    made = WrittenStudy(config(losses=["triplet"], name="mine", reproductions=2))
    made.begin()
    made.trial(0)
    made.trial(1, epochs=2, ends=False)
    return made


def fairtrial(root: Path, *words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--studies", str(root)])


def status(written: WrittenStudy, *words: str) -> Any:
    return fairtrial(written.folder.parent, "status", *words)


def test_an_interrupted_study_says_how_far_it_is_and_how_to_go_on(written: WrittenStudy) -> None:
    shown = status(written, "mine")
    assert shown.exit_code == 0
    assert "run mine --resume" in shown.stdout
    assert "1 of 3 trials ended" in shown.stdout
    assert "5 epochs" in shown.stdout
    assert "0.300" in shown.stdout


def test_a_score_of_the_test_classes_is_marked(written: WrittenStudy) -> None:
    assert "on the test classes" not in status(written, "mine").stdout
    chosen = '"rule":"selected-on-validation"', '"rule":"best-on-test"'
    rewrite(written.folder, lambda text: text.replace(*chosen))
    shown = status(written, "mine").stdout
    assert "0.300*" in shown
    assert "* on the test classes" in shown


def test_a_running_study_names_its_driver(written: WrittenStudy) -> None:
    with Lease(written.folder):
        shown = status(written, "mine").stdout
    assert "driven by process" in shown
    assert "--resume" not in shown


def test_what_mlflow_lacks_is_shown(written: WrittenStudy) -> None:
    behind = "MLflow is behind the record"
    shown = status(written, "mine").stdout
    assert f"{behind};" in shown
    here = written.folder.parent
    assert f"run mine --resume --set studies={here}` brings it up to date" in shown
    with Lease(written.folder):
        assert f"{behind} and catches up" in status(written, "mine").stdout
    written.mirror().close()
    assert behind not in status(written, "mine").stdout


def test_cells_have_the_names_of_the_log_whole_or_broken_after_a_slash(
    written: WrittenStudy,
) -> None:
    label = written.plan.label(written.trials[0].trial.cell)
    rows = [line.split() for line in status(written, "mine").stdout.splitlines() if line]
    assert label in [row[0] for row in rows]
    parts = ["sketches", "small_network", "512", "multi_similarity", "fixed_validation:0.25"]
    rewrite(written.folder, lambda text: text.replace(f'"{label}"', f'"{"/".join(parts)}"'))
    runner = CliRunner(env={"COLUMNS": "80"})
    root = ["--studies", str(written.folder.parent)]
    shown = runner.invoke(app, ["status", "mine", *root]).stdout
    assert all(part in shown for part in parts)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Path]:
    """A studies folder whose study waits for nodes: it has a lease, and nothing in its ledger."""
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / LEDGER).touch()
    with Lease(folder):
        yield tmp_path


def test_a_study_that_waits_for_nodes_is_shown(waiting: Path) -> None:
    shown = fairtrial(waiting, "status", "mine")
    assert shown.exit_code == 0
    assert "mine: waiting until its first trial fits the cluster, driven by process" in " ".join(
        shown.stdout.split()
    )
    row = fairtrial(waiting, "status").stdout.split("\n")[1].split()
    assert row[:2] == ["mine", "waiting"]
    assert json.loads(fairtrial(waiting, "status", "mine", "--json").stdout)["state"] == "waiting"


def test_watching_a_study_that_gave_up_waiting_ends_with_a_sentence(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(seconds: float) -> None:
        shutil.rmtree(waiting / "mine")

    monkeypatch.setattr(commands.time, "sleep", give_up)
    shown = fairtrial(waiting, "status", "mine", "--watch")
    assert (shown.exit_code, "mine holds no study that has begun" in shown.stderr) == (2, True)


def test_watching_ends_with_the_study(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds: list[float] = []
    with Lease(written.folder) as lease:

        def end(pause: float) -> None:
            seconds.append(pause)
            lease.__exit__(None, None, None)

        monkeypatch.setattr(commands.time, "sleep", end)
        shown = status(written, "mine", "--watch")
    assert (shown.exit_code, seconds) == (0, [commands.EVERY])
    assert "mine: interrupted" in shown.stdout


def unreadable(root: Path, line: str) -> Path:
    """Write a study that this version cannot read."""
    folder = root / "other"
    folder.mkdir()
    (folder / LEDGER).write_text(f"{line}\n")
    return folder


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"event":"study","version":1}', "it was written by Fair Trial 0.5 or earlier"),
        ("broken", "cannot be read at byte 0"),
        (
            '{"event":"epoch_done","at":1,"trial":"a","epoch":1,"score":0.1,"metrics":{}}',
            "lacks the start of trial 'a'",
        ),
    ],
)
def test_a_study_that_cannot_be_read_has_a_row_that_says_why(
    written: WrittenStudy, line: str, why: str
) -> None:
    unreadable(written.folder.parent, line)
    shown = status(written)
    assert shown.exit_code == 0, shown.output
    assert {
        row.split()[0]: row.split()[1] for row in shown.stdout.split("\n")[1:] if row[:1] > " "
    } == {
        "mine": "interrupted",
        "other": "unreadable",
    }
    plain = {each["name"]: each["error"] for each in json.loads(status(written, "--json").stdout)}
    assert plain["mine"] == ""
    assert why in plain["other"]
    assert plain["other"].split()[-1] in shown.stdout
    assert status(written, "other").exit_code == 2


def test_watching_a_folder_shows_studies_that_come_and_forgets_those_that_go(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, seen = written.folder.parent, list[list[str]]()
    ticks = iter(
        [
            lambda: unreadable(root, "broken"),
            lambda: shutil.rmtree(root / "other"),
            lambda: lease.__exit__(None, None, None),
        ]
    )
    show = commands._all
    monkeypatch.setattr(
        commands, "_all", lambda found: seen.append([each.name for each in found]) or show(found)
    )
    monkeypatch.setattr(commands.time, "sleep", lambda seconds: next(ticks)())
    with Lease(written.folder) as lease:
        shown = status(written, "--watch")
    assert shown.exit_code == 0, shown.output
    assert [sorted(names) for names in seen] == [["mine"], ["mine", "other"], ["mine"], ["mine"]]


def test_a_finished_study_is_finished_and_all_are_listed(written: WrittenStudy) -> None:
    written.epoch(1, 3)
    written.end(1, 3)
    written.trial(2)
    written.record.note(StudyFinished())
    shown = status(written)
    assert shown.stdout.split("\n")[1].split()[:3] == ["mine", "finished", "3/3"]


def test_status_for_programs(written: WrittenStudy) -> None:
    one = json.loads(status(written, "mine", "--json").stdout)
    assert (one["name"], one["state"], one["folder"]) == (
        "mine",
        "interrupted",
        str(written.folder),
    )
    assert (one["cells"][0]["started"], one["cells"][0]["ended"]) == (2, 1)
    assert [each["name"] for each in json.loads(status(written, "--json").stdout)] == ["mine"]


def test_what_is_for_programs_is_not_watched(written: WrittenStudy) -> None:
    shown = status(written, "mine", "--json", "--watch")
    assert (shown.exit_code, "leave one out" in shown.stderr) == (2, True)


def test_without_studies_there_is_a_sentence(tmp_path: Path) -> None:
    shown = fairtrial(tmp_path, "status")
    assert shown.exit_code == 2
    assert "holds no study" in shown.stderr
