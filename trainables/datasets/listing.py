"""Define the listing of a dataset: its folder, its images by class, and its classes by half."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Listing:
    """Hold the files, labels and halves of a dataset; no image has been opened."""

    root: Path
    files: tuple[str, ...]  # below root
    labels: tuple[int, ...]  # 0 .. len(names) - 1
    names: tuple[str, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    ignored: tuple[str, ...] = ()  # files that belong to no class or are not images

    @classmethod
    def in_order(
        cls,
        root: Path,
        *,
        files: Iterable[str],
        labels: Iterable[int],
        names: Iterable[str],
        train_classes: int,
        ignored: Iterable[str] = (),
    ) -> Listing:
        """Return the listing whose first `train_classes` classes are for training."""
        names = tuple(names)
        classes = tuple(range(len(names)))
        train, test = classes[:train_classes], classes[train_classes:]
        return cls(root, tuple(files), tuple(labels), names, train, test, tuple(ignored))

    def images(self, classes: Iterable[int]) -> int:
        """Return how many images these classes have."""
        return int(np.isin(self.labels, list(classes)).sum())


def find_holding(folder: Path, *names: str) -> Path | None:
    """Return the first candidate folder that holds all of these names, or None."""
    return next(
        (found for found in candidates(folder) if all((found / name).exists() for name in names)),
        None,
    )


def candidates(folder: Path) -> Iterator[Path]:
    """Return the folder, its subfolders and theirs."""
    children = subfolders(folder)
    return chain([folder], children, chain.from_iterable(map(subfolders, children)))


def subfolders(folder: Path) -> list[Path]:
    """Return the folders in this folder that are not hidden, sorted."""
    if not folder.is_dir():
        return []
    return sorted(
        child
        for child in folder.iterdir()
        if not child.name.startswith((".", "__MACOSX")) and child.is_dir()
    )
