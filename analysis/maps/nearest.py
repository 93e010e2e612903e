"""Find how near every image is to its own class and to others, and its neighbours: exactly."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.maps.embeddings import Float32Array

BLOCK = 1024  # queries at a time

IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Nearest:
    """Hold, per image, its cosine to the nearest of its class and to the nearest of another.

    Images that are alone in their class are left out.
    """

    same: Float32Array
    different: Float32Array

    @property
    def right(self) -> NDArray[np.bool_]:
        """Return whether the nearest of all has the same class: a hit for Recall@1."""
        return self.same > self.different

    @property
    def share(self) -> float:
        """Return Recall@1 of these images among themselves; NaN without any."""
        return float(self.right.mean()) if len(self.same) else float("nan")


def nearest(units: Float32Array, labels: IntArray) -> Nearest:
    """Return the nearest cosines of every image that has both another of its class and a rival."""
    same, different = (np.full(len(units), -np.inf, dtype=np.float32) for _ in range(2))
    for start in range(0, len(units), BLOCK):
        rows = slice(start, start + BLOCK)
        cosines, own = _cosines(units, rows), labels[rows, None] == labels[None, :]
        different[rows] = np.where(own, -np.inf, cosines).max(axis=1)
        same[rows] = np.where(own, cosines, -np.inf).max(axis=1)
    known = np.isfinite(same) & np.isfinite(different)
    return Nearest(same[known], different[known])


def neighbours(units: Float32Array, queries: IntArray, count: int) -> IntArray:
    """Return the rows nearest to each query, nearest first; among equals the earlier row."""
    count = min(count, len(units) - 1)
    nearest_rows = [
        np.argsort(-_cosines(units, np.array([query]))[0], kind="stable")[:count]
        for query in queries
    ]
    return np.array(nearest_rows, dtype=np.int64).reshape(len(queries), count)


def _cosines(units: Float32Array, rows: slice | IntArray) -> Float32Array:
    """Return the cosines of these rows to all; that of a row to itself is minus infinity."""
    cosines: Float32Array = units[rows] @ units.T
    cosines[np.arange(len(cosines)), np.arange(len(units))[rows]] = -np.inf
    return cosines
