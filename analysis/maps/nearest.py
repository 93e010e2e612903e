"""How near every image is to its own class and to the others, and who its neighbours are: exact, in blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.maps.kept import Floats

BLOCK = 1024  # queries at a time

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Nearest:
    """Of every image whose class has a second one: the cosine to the nearest of its class and to the nearest of another."""

    same: Floats
    different: Floats

    @property
    def right(self) -> NDArray[np.bool_]:
        """Whether the nearest of all has the same class: the image counts for Recall@1."""
        return self.same > self.different

    @property
    def share(self) -> float:
        """Recall@1 of these images among themselves; NaN without any."""
        return float(self.right.mean()) if len(self.same) else float("nan")


def nearest(units: Floats, labels: Ints) -> Nearest:
    """A class of one image has no second one, and a single class no other: such images are left out."""
    same, different = (np.full(len(units), -np.inf, dtype=np.float32) for _ in range(2))
    for start in range(0, len(units), BLOCK):
        rows = slice(start, start + BLOCK)
        cosines, own = _cosines(units, rows), labels[rows, None] == labels[None, :]
        different[rows] = np.where(own, -np.inf, cosines).max(axis=1)
        same[rows] = np.where(own, cosines, -np.inf).max(axis=1)
    there = np.isfinite(same) & np.isfinite(different)
    return Nearest(same[there], different[there])


def neighbours(units: Floats, queries: Ints, count: int) -> Ints:
    """The rows of the nearest others of each query, nearest first; of equals the earlier row."""
    count = min(count, len(units) - 1)
    found = [np.argsort(-_cosines(units, np.array([query]))[0], kind="stable")[:count] for query in queries]
    return np.array(found, dtype=np.int64).reshape(len(queries), count)


def _cosines(units: Floats, rows: slice | Ints) -> Floats:
    """Of these rows to all; to itself: minus infinity."""
    cosines: Floats = units[rows] @ units.T
    cosines[np.arange(len(cosines)), np.arange(len(units))[rows]] = -np.inf
    return cosines
