"""Datasets: files, labels, class names and the official halves, checked by their counts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Dataset:
    """Decoded images with their labels, and which classes are for training and which for testing."""

    images: NDArray[np.uint8]  # (n, channels, height, width)
    labels: NDArray[np.int64]
    names: tuple[str, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]

    def ids(self, classes: Sequence[int]) -> NDArray[np.int64]:
        """The images of these classes, in file order."""
        return np.flatnonzero(np.isin(self.labels, classes))


@dataclass(frozen=True)
class Source:
    """What is known of a dataset before any file is opened, and how to open it."""

    about: str
    licence: str
    classes: int
    images: int
    load: Callable[[], Dataset]

    @property
    def train(self) -> tuple[int, ...]:
        return tuple(range(self.classes // 2))

    @property
    def test(self) -> tuple[int, ...]:
        return tuple(range(self.classes // 2, self.classes))


def _sketches() -> Dataset:
    with (files("trainables") / "data" / "sketches.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images, labels, names = arrays["images"], arrays["labels"], arrays["names"]
    source = DATASETS["sketches"]
    return Dataset(images[:, None], labels.astype(np.int64), tuple(map(str, names)), source.train, source.test)


@cache
def load(name: str) -> Dataset:
    """The dataset, read once per process and checked against its counts."""
    source = DATASETS[name]
    data = source.load()
    found = (len(data.names), len(data.images))
    if found != (source.classes, source.images):
        raise ValueError(f"{name} has {source.classes} classes and {source.images} images, but {found[0]} and {found[1]} were found.")
    return data


DATASETS: dict[str, Source] = {
    "sketches": Source(
        about="200 classes of 60 drawings that people made in twenty seconds each, 28 x 28; ships with Fair Trial",
        licence="CC BY 4.0: the Quick, Draw! dataset, made available by Google, Inc.",
        classes=200,
        images=12_000,
        load=_sketches,
    ),
}
