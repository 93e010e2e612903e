"""A trial goes on from its newest whole checkpoint, and leaves what it must."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.record.kept_files import KEPT, LostArtifact
from analysis.record.trial_id import TrialId
from study.driver.checkpoints import (
    RAY,
    checkpoints,
    drop_checkpoints,
    files_left,
    keep_outputs,
    kept_outputs,
    newest_checkpoint,
    next_attempt,
)
from tests.conftest import MakeConfig
from tests.support.record import write_checkpoint
from trainables.contract import ARTIFACTS, Cell
from trainables.outputs.artifacts import SEAL, STATE

CELL = Cell("sketches", "tiny", 16, "margin@mine", "fixed_validation:0.2")
TRIAL = TrialId(CELL, "search", 3)
FOLD = {"weights": {}, "queries": {"refit": {"image": [1], "class": [1]}}, "embeddings": None}


def checkpoint(folder: Path, driver: int, number: int, epoch: int, trial: TrialId = TRIAL) -> Path:
    path = folder / RAY / str(driver) / trial.folder / f"checkpoint_{number:06}"
    return write_checkpoint(path, epoch, {0: FOLD} if trial.phase == "final" else {})


def test_a_trial_goes_on_from_its_newest_checkpoint_whichever_driver_made_it(
    tmp_path: Path,
) -> None:
    assert next_attempt(tmp_path) == 1
    for driver, number, epoch in ((1, 9, 9), (2, 0, 10), (10, 0, 11)):
        checkpoint(tmp_path, driver, number, epoch)
    assert next_attempt(tmp_path) == 11
    found = checkpoints(tmp_path, TRIAL)
    assert [path.parts[-3] for path in found] == ["1", "2", "10"]
    assert newest_checkpoint(tmp_path, TRIAL) == found[-1]
    assert newest_checkpoint(tmp_path, TRIAL, epoch=10) == found[-2]
    assert newest_checkpoint(tmp_path, TRIAL, epoch=3) is None
    assert newest_checkpoint(tmp_path, TrialId(CELL, "search", 30)) is None


def test_a_checkpoint_that_is_not_all_there_is_passed_over(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 1, 1, 1)
    torn, unsealed, empty = (checkpoint(tmp_path, 1, number, number) for number in (2, 3, 4))
    (torn / STATE).write_bytes((torn / STATE).read_bytes()[:-10])
    (unsealed / SEAL).unlink()
    (empty / SEAL).write_text("")
    assert newest_checkpoint(tmp_path, TRIAL) == whole


def test_the_checkpoints_of_one_trial_go_and_no_others(tmp_path: Path) -> None:
    for driver in (1, 2):
        checkpoint(tmp_path, driver, 0, 1)
    other = TrialId(CELL, "search", 33)
    left = checkpoint(tmp_path, 1, 0, 1, other)
    drop_checkpoints(tmp_path, TRIAL)
    assert checkpoints(tmp_path, TRIAL) == []
    assert checkpoints(tmp_path, other) == [left]


def test_final_trials_leave_their_files_and_search_trials_their_state_if_asked(
    config: MakeConfig,
) -> None:
    final = TrialId(CELL, "refit", 1)
    for kept in (True, False):
        study = config(keep_checkpoints=kept)
        assert files_left(final, study) == ARTIFACTS
        assert files_left(TRIAL, study) == ((STATE,) if kept else ())


def test_what_a_trial_leaves_is_taken_from_its_last_whole_checkpoint(
    config: MakeConfig, tmp_path: Path
) -> None:
    final = TrialId(CELL, "final", 1)
    checkpoint(tmp_path, 1, 0, 2, final)
    torn = checkpoint(tmp_path, 1, 1, 3, final)
    (torn / SEAL).unlink()
    keep_outputs(tmp_path, final, config())
    names = [path.name for path in kept_outputs(tmp_path, final, config())]
    assert names == ["best.pt", "queries.csv"]


def test_a_trial_leaves_the_files_of_its_last_checkpoint_and_one_without_any_is_lost(
    config: MakeConfig, tmp_path: Path
) -> None:
    study = config(keep_checkpoints=True)
    with pytest.raises(LostArtifact, match=r"no whole checkpoint of .*/search-3 has state\.pt"):
        keep_outputs(tmp_path, TRIAL, study)
    checkpoint(tmp_path, 1, 0, 2)
    keep_outputs(tmp_path, TRIAL, study)
    drop_checkpoints(tmp_path, TRIAL)
    assert [path.name for path in kept_outputs(tmp_path, TRIAL, study)] == [STATE]


def test_a_search_trial_that_leaves_nothing_needs_no_checkpoint(
    config: MakeConfig, tmp_path: Path
) -> None:
    keep_outputs(tmp_path, TRIAL, config())
    assert not (tmp_path / KEPT).exists()
    assert kept_outputs(tmp_path, TRIAL, config()) == []
