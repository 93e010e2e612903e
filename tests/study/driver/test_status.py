"""How far a study is, from its record and its lease alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analysis.record.events import StudyFinished, StudyStopping
from analysis.record.ledger import LEDGER, Ledger, LedgerReader
from analysis.record.trial_id import TrialId
from analysis.tracking.cursor import Cursor, save_cursor
from study.driver.lease import REQUEST, Lease
from study.driver.status import FolderWatch, StudyWatch, status_of
from tests.conftest import MakeConfig
from tests.support.events import (
    CELL,
    PEEKS,
    epoch_done,
    study_resumed,
    study_started,
    trial_ended,
    trial_started,
)
from tests.support.record import WrittenStudy


@pytest.fixture
def written(config: MakeConfig) -> WrittenStudy:
    """A study of three trials: one has ended, one was left by its driver."""
    made = WrittenStudy(config(losses=["triplet"], name="mine", reproductions=2))
    made.begin()
    made.trial(0)
    made.trial(1, epochs=2, ends=False)
    return made


def test_an_interrupted_study_says_how_far_it_is(written: WrittenStudy) -> None:
    found = status_of(written.folder)
    assert (found.name, found.folder, found.driver) == ("mine", written.folder, "")
    assert (found.state, found.ended, found.total) == ("interrupted", 1, 3)
    assert (found.failed, found.epochs, found.drivers) == (0, 5, 1)
    assert found.outcomes == {"finished": 1}
    past = written.record.state
    assert (found.began, found.updated) == (past.began / 1000, past.updated / 1000)
    (cell,) = found.cells
    assert cell["cell"] == str(written.trials[0].trial.cell)
    counts = [cell[name] for name in ("started", "ended", "failed", "running")]
    assert counts == [2, 1, 0, 0], "nobody runs what its driver left"
    assert round(cell["best"], 6) == 0.3


def test_trials_run_while_their_driver_lives(written: WrittenStudy) -> None:
    with Lease(written.folder):
        assert status_of(written.folder).cells[0]["running"] == 1


def test_a_cell_whose_score_is_of_the_test_classes_says_so(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.append(study_started())
    for cell in (CELL, PEEKS):
        trial = TrialId(cell, "final", 1)
        ledger.append(trial_started(trial))
        ledger.append(epoch_done(trial, 1))
    cells = {each["cell"]: each["peeks"] for each in status_of(tmp_path).cells}
    assert cells == {str(CELL): False, str(PEEKS): True}


def test_a_running_study_names_its_driver_and_a_stopping_one_says_so(
    written: WrittenStudy,
) -> None:
    with Lease(written.folder):
        found = status_of(written.folder)
        assert (found.state, found.driver.startswith(f"process {os.getpid()} on ")) == (
            "running",
            True,
        )
        written.record.note(StudyStopping())
        assert status_of(written.folder).state == "stopping"
        written.record.note(study_resumed())
        assert status_of(written.folder).state == "running"


def test_a_study_that_was_asked_to_stop_is_stopping_before_its_driver_says_so(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("study.driver.lease.POLL", 60.0)
    lease = Lease(written.folder)
    lease._take()
    (written.folder / REQUEST).write_text("stop")
    assert status_of(written.folder).state == "stopping"


def test_a_finished_study_is_finished_until_it_grows(written: WrittenStudy) -> None:
    written.epoch(1, 3)
    written.end(1, 3)
    written.trial(2)
    written.record.note(StudyFinished())
    found = status_of(written.folder)
    assert (found.state, found.ended, found.total) == ("finished", 3, 3)
    written.record.note(study_resumed(grows={"reproductions": 5}, total=6))
    found = status_of(written.folder)
    assert (found.state, found.total, found.drivers) == ("interrupted", 6, 2)


def test_failures_and_the_pace_are_counted(tmp_path: Path) -> None:
    ledger, trial = Ledger(tmp_path), TrialId(CELL, "search", 0)
    ledger.append(study_started(at=0))
    ledger.append(trial_started(trial, at=0))
    for number in range(7):
        ledger.append(epoch_done(trial, number + 1, at=number * 10_000))
    ledger.append(trial_ended(trial, at=60_000, outcome="failed"))
    found = status_of(tmp_path)
    assert (found.failed, found.outcomes, found.epochs) == (1, {"failed": 1}, 7)
    assert found.epochs_per_minute == 6


def test_it_says_what_mlflow_lacks(written: WrittenStudy) -> None:
    size = (written.folder / LEDGER).stat().st_size
    assert status_of(written.folder).behind == size
    reader = LedgerReader(written.folder)
    reader.read(limit=3)
    save_cursor(written.folder, Cursor(reader.offset, 3))
    assert status_of(written.folder).behind == size - reader.offset


def test_a_study_whose_driver_waits_for_nodes_waits(tmp_path: Path) -> None:
    (tmp_path / LEDGER).touch()
    with Lease(tmp_path):
        found = status_of(tmp_path)
        assert (found.state, found.total) == ("waiting", 0)
        assert found.driver.startswith("process ")
    with pytest.raises(ValueError, match="holds no study that has begun"):
        status_of(tmp_path)


def test_a_broken_ledger_is_a_sentence(written: WrittenStudy) -> None:
    path = written.folder / LEDGER
    path.write_bytes(path.read_bytes().replace(b'"epoch"', b'"epoch', 1))
    with pytest.raises(ValueError, match="cannot be read at byte"):
        status_of(written.folder)


def test_a_watch_reads_only_what_is_new_and_says_the_same(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = StudyWatch(written.folder)
    assert watch.look() == status_of(written.folder)
    read: list[int] = []
    real = LedgerReader.read

    def counted(reader: LedgerReader, **how: int | None) -> list[object]:
        found = real(reader, **how)
        read.append(len(found))
        return list(found)

    with monkeypatch.context() as patch:
        patch.setattr(LedgerReader, "read", counted)
        assert watch.look().epochs == 5
        written.epoch(1, 3)
        assert watch.look().epochs == 6
    assert read == [0, 1]
    assert watch.look() == status_of(written.folder)


def test_a_watch_of_a_folder_keeps_one_reader_for_each_study(written: WrittenStudy) -> None:
    watch = FolderWatch(written.folder.parent)
    assert watch.look() == [status_of(written.folder)]
    (first,) = watch.watches.values()
    written.epoch(1, 3)
    assert watch.look() == [status_of(written.folder)]
    assert list(watch.watches.values()) == [first]


def test_a_folder_whose_study_was_mended_shows_all_of_it(written: WrittenStudy) -> None:
    path, watch = written.folder / LEDGER, FolderWatch(written.folder.parent)
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"epoch"', b'"epoch', 1))
    assert [each.state for each in watch.look()] == ["unreadable"]
    path.write_bytes(whole)
    assert watch.look() == [status_of(written.folder)]
