"""Keep what ended trials leave in the study's folder: weights, test queries, embeddings,
checkpoints.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from analysis.record.trial_id import TrialId, folder_of
from trainables.outputs.artifacts import SEAL, sealed_files
from trainables.outputs.disk import link, sync_to_disk

KEPT = "kept"  # in a study's folder: one folder per trial that has ended and left something


class LostArtifact(ValueError):
    """Report that a file that the record needs is missing, or has changed since it was written."""


def keep(folder: Path, trial: TrialId, names: Sequence[str], *, outputs: Path | None) -> None:
    """Move what a trial leaves from where its slot wrote it into a folder that stays.

    The files are on the disk when this returns, so that the trial may end. Raise LostArtifact if
    there are none, or if they are not whole.
    """
    files = sealed_files(outputs, names) if outputs else []
    if not outputs or not files:
        raise LostArtifact(f"{trial} has not left a whole {names[0]}")
    home = folder / KEPT / trial.folder
    draft = home.with_name(f"{home.name}.new")
    for old in (draft, home):
        shutil.rmtree(old, ignore_errors=True)
    draft.mkdir(parents=True)
    for file in (*files, outputs / SEAL):
        link(file, draft / file.name)
    sync_to_disk(draft)
    draft.rename(home)
    sync_to_disk(home.parent)
    sync_to_disk(folder)


def kept(folder: Path, trial: TrialId, names: Sequence[str]) -> list[Path]:
    """Return those of these files that an ended trial left.

    Raise LostArtifact if one of them has changed since it was written.
    """
    home = folder / KEPT / trial.folder
    try:
        return sealed_files(home, names)
    except ValueError as error:
        raise LostArtifact(
            f"What an ended trial left stays as it was written, but {error}; put back a copy of "
            f"{home}."
        ) from None


def kept_file(folder: Path, trial: str, name: str) -> Path | None:
    """Return one file of an ended trial without checking its content; None if it left none."""
    path = folder / KEPT / folder_of(trial) / name
    return path if path.exists() else None
