"""The study's folder: its config, its splits, and where its trials keep their checkpoints."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from study.config import StudyConfig
from study.splits import split_file_name, splits_text
from trainables.artifacts import epoch_of

RAY = "ray"  # holds one folder per driver: 1, 2, ...


def replace_text(path: Path, text: str) -> None:
    """The old file or the new one, whatever happens in between."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text)
    draft.replace(path)


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


def next_attempt(folder: Path) -> int:
    """The number of a further driver."""
    return 1 + max((int(path.name) for path in (folder / RAY).glob("*") if path.name.isdigit()), default=0)
