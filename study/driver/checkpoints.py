"""Find, keep and drop the checkpoints that Tune writes for running trials."""

from __future__ import annotations

import shutil
from pathlib import Path

from analysis.record.kept_files import keep, kept
from analysis.record.trial_id import TrialId
from study.config.study_config import StudyConfig
from trainables.contract import ARTIFACTS
from trainables.outputs.artifacts import STATE, epoch_of

RAY = "ray"  # in a study's folder: one folder per driver, named 1, 2, ...


def checkpoints(folder: Path, trial: TrialId) -> list[Path]:
    """Return the checkpoints of one trial from all drivers, the newest last."""
    found = (folder / RAY).glob(f"*/{trial.folder}/checkpoint_*")
    return sorted(found, key=lambda path: (int(path.parts[-3]), path.name))


def newest_checkpoint(folder: Path, trial: TrialId, *, epoch: int | None = None) -> Path | None:
    """Return the newest checkpoint that is whole and not beyond this epoch."""
    for path in reversed(checkpoints(folder, trial)):
        reached = epoch_of(path)
        if reached is not None and (epoch is None or reached <= epoch):
            return path
    return None


def drop_checkpoints(folder: Path, trial: TrialId) -> None:
    """Remove the checkpoints of a trial that has ended."""
    for path in checkpoints(folder, trial):
        shutil.rmtree(path, ignore_errors=True)


def next_attempt(folder: Path) -> int:
    """Return the number of a further driver."""
    numbers = (int(path.name) for path in (folder / RAY).glob("*") if path.name.isdigit())
    return 1 + max(numbers, default=0)


def files_left(trial: TrialId, config: StudyConfig) -> tuple[str, ...]:
    """Return the names of the files that a trial leaves when it ends."""
    if trial.phase == "final":
        return ARTIFACTS
    return (STATE,) if config.keep_checkpoints and trial.role == "search" else ()


def keep_outputs(folder: Path, trial: TrialId, config: StudyConfig) -> None:
    """Keep what a trial leaves, from its last checkpoint. Raise LostArtifact if that lacks it."""
    if names := files_left(trial, config):
        keep(folder, trial, names, checkpoint=newest_checkpoint(folder, trial))


def kept_outputs(folder: Path, trial: TrialId, config: StudyConfig) -> list[Path]:
    """Return what an ended trial left. Raise LostArtifact if it is gone, or has changed since."""
    names = files_left(trial, config)
    return kept(folder, trial, names) if names else []
