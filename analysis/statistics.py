"""Intervals by bootstrap over test classes and seeds, paired between setups and losses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Key = TypeVar("Key", bound=Hashable)
Floats = NDArray[np.float64]

DRAWS = 4000
LEVEL = 0.95
EQUAL = 1e-12  # shares that differ by less differ by rounding


@dataclass(frozen=True)
class ClassSums:
    """Sums of a metric per seed and test class: all that a bootstrap over both needs."""

    sums: Floats  # (seeds, classes)
    counts: Floats  # (classes,) queries per class

    @classmethod
    def of(cls, queries: pd.DataFrame, metric: str, runs: Sequence[str]) -> ClassSums:
        """queries: one row per final trial (run_id), model and test query; runs: the trials in the order of their seeds."""
        table = queries.pivot_table(index="run_id", columns="class", values=metric, aggfunc=["sum", "count"]).loc[list(runs)]
        return cls(table["sum"].to_numpy(float), table["count"].to_numpy(float)[0])

    def mean(self) -> float:
        return float(self.sums.sum() / (self.counts.sum() * len(self.sums)))


def bootstrap(
    groups: Mapping[Key, ClassSums], *, ties: Mapping[Key, Hashable] | None = None, draws: int = DRAWS, seed: int = 0
) -> dict[Key, Floats]:
    """Means of each group in `draws` resampled worlds.

    A world draws test classes once for all groups (they share them, so differences are paired) and seeds for each group
    on its own; groups with the same tie have the same seeds in the same order, which are drawn once for all of them.
    n - 1 of n are drawn, which makes the variance unbiased (Rao and Wu 1988): with three seeds it matters.
    Images are never resampled: those of one class are not independent.
    """
    rng = np.random.default_rng(seed)
    classes = {len(group.counts) for group in groups.values()}
    assert len(classes) <= 1, "paired groups share their test classes"
    weights = _multiplicities(rng, classes.pop() if classes else 0, draws)
    means, drawn = {}, dict[Hashable, Floats]()
    for key, group in groups.items():
        tie = (ties or {}).get(key, key)
        if tie not in drawn:
            drawn[tie] = _multiplicities(rng, len(group.sums), draws)
        by_class = drawn[tie] @ group.sums
        seeds = max(1, len(group.sums) - 1)
        means[key] = (weights * by_class).sum(axis=1) / ((weights @ group.counts) * seeds)
    return means


def _multiplicities(rng: np.random.Generator, items: int, draws: int) -> Floats:
    """How often each item comes up when items - 1 are drawn with replacement (a lone item always once)."""
    size = max(1, items - 1)
    return rng.multinomial(size, np.full(items, 1 / items), size=draws).astype(float) if items else np.empty((draws, 0))


def interval(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The middle `level` of the drawn values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def rank_intervals(means: Mapping[Key, Floats]) -> dict[Key, tuple[int, int]]:
    """The ranks (1 is best) that each group holds in the middle 95 % of the worlds; equal groups share the ranks that they fill."""
    stacked = np.stack(list(means.values()))
    best = np.stack([1 + (stacked > own + EQUAL).sum(axis=0) for own in stacked])
    worst = np.stack([(stacked >= own - EQUAL).sum(axis=0) for own in stacked])
    low = np.quantile(best, (1 - LEVEL) / 2, axis=1, method="nearest")
    high = np.quantile(worst, (1 + LEVEL) / 2, axis=1, method="nearest")
    return {key: (int(low[i]), int(high[i])) for i, key in enumerate(means)}
