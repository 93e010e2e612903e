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
    next_attempt,
    saving,
)
from tests.conftest import MakeConfig
from tests.support.record import leave_outputs, write_checkpoint
from trainables.contract import ARTIFACTS, Cell
from trainables.outputs.artifacts import SEAL, STATE
from trainables.outputs.checkpoints import newest_whole

CELL = Cell("sketches", "tiny", 16, "margin@mine", "fixed_validation:0.2")
TRIAL = TrialId(CELL, "search", 3)
FOLD = {"weights": {}, "queries": {"refit": {"image": [1], "class": [1]}}, "embeddings": None}


def checkpoint(folder: Path, driver: int, number: int, epoch: int, trial: TrialId = TRIAL) -> Path:
    return write_checkpoint(folder / RAY / str(driver) / trial.folder, number, epoch)


def outputs(folder: Path, driver: int, epoch: int, trial: TrialId = TRIAL) -> Path:
    folds = {0: FOLD} if trial.phase == "final" else {}
    return leave_outputs(folder / RAY / str(driver) / trial.folder, epoch, folds)


def start(folder: Path, trial: TrialId, epoch: int) -> Path | None:
    """The checkpoint from which a slot continues."""
    found = saving(folder, trial, attempt=11, seconds=60, epoch=epoch)
    assert found.folder == str(folder.absolute() / RAY / "11" / trial.folder)
    return newest_whole(map(Path, found.start), epoch=found.epoch)


def test_a_trial_goes_on_from_its_newest_checkpoint_whichever_driver_made_it(
    tmp_path: Path,
) -> None:
    assert next_attempt(tmp_path) == 1
    for driver, number, epoch in ((1, 9, 9), (2, 1, 10), (10, 1, 11)):
        checkpoint(tmp_path, driver, number, epoch)
    assert next_attempt(tmp_path) == 11
    found = checkpoints(tmp_path, TRIAL)
    assert [path.parts[-3] for path in found] == ["1", "2", "10"]
    assert start(tmp_path, TRIAL, 11) == found[-1]
    assert start(tmp_path, TRIAL, 10) == found[-2]
    assert start(tmp_path, TRIAL, 3) is None
    assert start(tmp_path, TrialId(CELL, "search", 30), 11) is None


def test_the_checkpoints_of_one_trial_go_and_no_others(tmp_path: Path) -> None:
    for driver in (1, 2):
        checkpoint(tmp_path, driver, 1, 1)
    other = TrialId(CELL, "search", 33)
    left = checkpoint(tmp_path, 1, 1, 1, other)
    drop_checkpoints(tmp_path, TRIAL)
    assert checkpoints(tmp_path, TRIAL) == []
    assert checkpoints(tmp_path, other) == [left]
    assert [path.name for path in (tmp_path / RAY / "1").iterdir()] == [other.folder]


def test_final_trials_leave_their_files_and_search_trials_their_state_if_asked(
    config: MakeConfig,
) -> None:
    final = TrialId(CELL, "refit", 1)
    for kept in (True, False):
        study = config(keep_checkpoints=kept)
        assert files_left(final, study) == ARTIFACTS
        assert files_left(TRIAL, study) == ((STATE,) if kept else ())


def test_what_a_trial_leaves_is_taken_from_the_last_driver_whose_slot_wrote_all_of_it(
    config: MakeConfig, tmp_path: Path
) -> None:
    final = TrialId(CELL, "final", 1)
    outputs(tmp_path, 1, 2, final)
    torn = outputs(tmp_path, 2, 3, final)
    (torn / SEAL).unlink()
    keep_outputs(tmp_path, final, config())
    names = [path.name for path in kept_outputs(tmp_path, final, config())]
    assert names == ["best.pt", "queries.csv"]


def test_a_trial_leaves_its_state_if_asked_and_one_that_was_not_written_is_lost(
    config: MakeConfig, tmp_path: Path
) -> None:
    study = config(keep_checkpoints=True)
    with pytest.raises(LostArtifact, match=r"/search-3 has not left a whole state\.pt"):
        keep_outputs(tmp_path, TRIAL, study)
    checkpoint(tmp_path, 1, 1, 2)
    with pytest.raises(LostArtifact):
        keep_outputs(tmp_path, TRIAL, study)
    outputs(tmp_path, 1, 2)
    keep_outputs(tmp_path, TRIAL, study)
    drop_checkpoints(tmp_path, TRIAL)
    assert [path.name for path in kept_outputs(tmp_path, TRIAL, study)] == [STATE]


def test_a_search_trial_that_leaves_nothing_needs_no_checkpoint(
    config: MakeConfig, tmp_path: Path
) -> None:
    keep_outputs(tmp_path, TRIAL, config())
    assert not (tmp_path / KEPT).exists()
    assert kept_outputs(tmp_path, TRIAL, config()) == []
