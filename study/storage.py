"""The study's folder: its config, its splits, its trials' checkpoints, and what trials that have ended leave."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

import yaml

from study.config import StudyConfig
from study.splits import split_file_name, splits_text
from trainables.artifacts import SEAL, STATE, epoch_of, whole
from trainables.contract import ARTIFACTS
from trainables.disk import link, settle

RAY = "ray"  # holds one folder per driver: 1, 2, ...
KEPT = "kept"  # holds one folder per trial that has ended and leaves something


class Lost(ValueError):
    """What an ended trial left is not there any more."""


def config_yaml(config: StudyConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def write_splits(config: StudyConfig, folder: Path) -> None:
    """The class lists of every dataset and protocol, as they are used; with resplit also those of each final seed."""
    folder.mkdir(exist_ok=True)
    for dataset, name, splits in config.all_splits():
        (folder / split_file_name(dataset, name)).write_text(splits_text(dataset, name.partition("-seed")[0], splits))


def trial_folder(key: str) -> str:
    """A trial's folder below that of each driver that ran it."""
    return re.sub(r"[^\w.@-]+", "-", key)


def checkpoints(folder: Path, key: str) -> list[Path]:
    """Of one trial, from all drivers; the newest last."""
    return sorted((folder / RAY).glob(f"*/{trial_folder(key)}/checkpoint_*"), key=lambda path: (int(path.parts[-3]), path.name))


def newest(folder: Path, key: str, *, epoch: int | None = None) -> Path | None:
    """A checkpoint that is all there, not beyond this epoch."""
    for path in reversed(checkpoints(folder, key)):
        reached = epoch_of(path)
        if reached is not None and (epoch is None or reached <= epoch):
            return path
    return None


def leaves(name: str, config: StudyConfig) -> tuple[str, ...]:
    """The files that a trial of this name leaves."""
    if not name.startswith("search-"):
        return ARTIFACTS
    return (STATE,) if config.keep_checkpoints else ()


def keep(folder: Path, key: str, names: Sequence[str]) -> None:
    """What a trial leaves, from its last checkpoint into a folder that stays; on the disk when this returns, so that the trial may end.

    Lost: the last whole checkpoint has none of it.
    """
    home, last = folder / KEPT / trial_folder(key), newest(folder, key)
    files = whole(last, names) if last else []
    if not last or not files:
        raise Lost(f"no whole checkpoint of {key} has {names[0]}")
    draft = home.with_name(f"{home.name}.new")
    for old in (draft, home):
        shutil.rmtree(old, ignore_errors=True)
    draft.mkdir(parents=True)
    for file in (*files, last / SEAL):
        link(file, draft / file.name)
    settle(draft)
    draft.rename(home)
    settle(home.parent)
    settle(folder)


def kept(folder: Path, key: str, names: Sequence[str]) -> list[Path]:
    """What an ended trial left. Lost: it is not there as it was written."""
    home = folder / KEPT / trial_folder(key)
    try:
        if names and not home.exists():  # it ended late, on the word of its rows
            keep(folder, key, names)
        return whole(home, names) if names else []
    except ValueError as error:
        raise Lost(f"What an ended trial left stays as it was written, but {error}; put back a copy of {home}.") from None


def drop_checkpoints(folder: Path, key: str) -> None:
    """Of a trial that has ended."""
    for path in checkpoints(folder, key):
        shutil.rmtree(path, ignore_errors=True)


def next_attempt(folder: Path) -> int:
    """The number of a further driver."""
    return 1 + max((int(path.name) for path in (folder / RAY).glob("*") if path.name.isdigit()), default=0)
