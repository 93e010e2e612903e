"""Find, keep and drop what running trials write: their checkpoints, and what they leave."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path

from analysis.record.kept_files import LostArtifact, keep, kept
from analysis.record.trial_id import TrialId
from study.config.study_config import StudyConfig
from trainables.contract import ARTIFACTS
from trainables.outputs.artifacts import OUTPUTS, STATE, epoch_of
from trainables.outputs.checkpoints import Saving, checkpoints_in

RAY = "ray"  # in a study's folder: one folder per driver, named 1, 2, ...


def _homes(folder: Path, trial: TrialId) -> list[Path]:
    """Return the folders of one trial from all drivers, the newest last."""
    found = (folder / RAY).glob(f"*/{trial.folder}")
    return sorted(found, key=lambda path: int(path.parent.name))


def checkpoints(folder: Path, trial: TrialId) -> list[Path]:
    """Return the checkpoints of one trial from all drivers, whole or not, the newest last."""
    return [path for home in _homes(folder, trial) for path in checkpoints_in(home)]


def saving(folder: Path, trial: TrialId, *, attempt: int, seconds: float, epoch: int) -> Saving:
    """Return where a driver's slots save a trial, and where it continues.

    epoch: the last one on record. A checkpoint beyond it is not used.
    """
    home = folder.absolute() / RAY / str(attempt) / trial.folder
    start = tuple(str(path.absolute()) for path in checkpoints(folder, trial))
    return Saving(str(home), seconds, start, epoch)


def newest_outputs(folder: Path, trial: TrialId) -> Path | None:
    """Return the newest folder with all that a trial leaves."""
    found = (home / OUTPUTS for home in reversed(_homes(folder, trial)))
    return next((path for path in found if epoch_of(path) is not None), None)


def drop_checkpoints(folder: Path, trial: TrialId) -> None:
    """Remove what a trial that has ended wrote while it ran.

    Its folder gets another name first: a slot that still writes there finds it no more.
    """
    for home in _homes(folder, trial):
        gone = home.with_name(f"{home.name}.gone")
        shutil.rmtree(gone, ignore_errors=True)
        with suppress(FileNotFoundError):
            shutil.rmtree(home.rename(gone), ignore_errors=True)


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
    """Keep what a trial leaves, which its slot has written. Raise LostArtifact if it has not."""
    if names := files_left(trial, config):
        keep(folder, trial, names, outputs=newest_outputs(folder, trial))


def kept_outputs(folder: Path, trial: TrialId, config: StudyConfig) -> list[Path]:
    """Return what an ended trial left.

    Raise LostArtifact if a final trial's is gone, or has changed since.
    """
    names = files_left(trial, config)
    try:
        return kept(folder, trial, names) if names else []
    except LostArtifact:
        if trial.phase == "search":  # only an audit would want it
            return []
        raise
