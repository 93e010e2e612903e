"""Intervals by bootstrap over test classes and seeds, paired between setups and losses."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.statistics.significance import runs

Key = TypeVar("Key", bound=Hashable)
Floats = NDArray[np.float64]

DRAWS = 4000
LEVEL = 0.95
BLOCK = 500  # worlds at a time
EQUAL = 1e-12  # shares that differ by less differ by rounding


@dataclass(frozen=True)
class ClassSums:
    """Sums of a metric per seed and test class: all that a bootstrap over both needs."""

    sums: Floats  # (seeds, classes)
    counts: Floats  # (classes,) queries per class

    @classmethod
    def of(cls, queries: pd.DataFrame, metric: str, runs: Sequence[str]) -> ClassSums:
        """queries: one row per final trial (run_id), model and test query; runs: the trials in the order of their seeds."""
        run = pd.Index(runs).get_indexer(pd.Index(queries["run_id"]))
        names, label = np.unique(queries["class"], return_inverse=True)
        sums = np.bincount(run * len(names) + label, weights=queries[metric].to_numpy(float), minlength=len(runs) * len(names))
        return cls(sums.reshape(len(runs), len(names)).astype(float), np.bincount(label[run == 0], minlength=len(names)).astype(float))

    def mean(self) -> float:
        return float(self.sums.sum() / (self.counts.sum() * len(self.sums)))

    def by_class(self) -> Floats:
        """Every class's mean over its queries, models and seeds."""
        return np.asarray(self.sums.mean(axis=0) / self.counts)


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
    by_seed = _by_seed(rng, list(groups.values()), draws)
    means, drawn = {}, dict[Hashable, Floats]()
    for (key, group), (sums, counts) in zip(groups.items(), by_seed, strict=True):
        tie = (ties or {}).get(key, key)
        if tie not in drawn:
            drawn[tie] = _multiplicities(rng, len(group.sums), draws)
        seeds = max(1, len(group.sums) - 1)
        means[key] = (drawn[tie] * sums).sum(axis=1) / (counts * seeds)
    return means


def _by_seed(rng: np.random.Generator, groups: Sequence[ClassSums], draws: int) -> list[tuple[Floats, Floats]]:
    """Of each group the sums by seed and the queries in every world, a block of worlds at a time: a dataset may have 11,316 classes."""
    if not groups:
        return []
    found: list[list[tuple[Floats, Floats]]] = []
    for start in range(0, draws, BLOCK):
        weights = _multiplicities(rng, len(groups[0].counts), min(BLOCK, draws - start))
        found.append([(weights @ group.sums.T, weights @ group.counts) for group in groups])
    return [
        (np.concatenate([block[i][0] for block in found]), np.concatenate([block[i][1] for block in found])) for i in range(len(groups))
    ]


def _multiplicities(rng: np.random.Generator, items: int, draws: int) -> Floats:
    """How often each item comes up when items - 1 are drawn with replacement (a lone item always once)."""
    size = max(1, items - 1)
    return rng.multinomial(size, np.full(items, 1 / items), size=draws).astype(float) if items else np.empty((draws, 0))


def interval(values: Floats, level: float = LEVEL) -> tuple[float, float]:
    """The middle `level` of the drawn values."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def student(values: Floats, level: float = LEVEL) -> tuple[float, float] | None:
    """Of the mean of a few values, by Student's t; None if there is one."""
    from scipy.stats import t

    if len(values) < 2:
        return None
    reach = t.ppf((1 + level) / 2, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - reach), float(values.mean() + reach)


def differences(means: Mapping[Key, Floats], level: float = LEVEL) -> dict[tuple[Key, Key], tuple[float, float]]:
    """Of every pair in order the interval of the first minus the second; `level` of the worlds lie in all of them at once (max-|t|).

    So many intervals by themselves would leave zero out somewhere by chance: of ten equal losses more often than not.
    A pair counts with the lower quartile of all pairs' spreads at least: of few seeds some pairs agree by chance.
    """
    pairs = list(combinations(means, 2))
    if not pairs:
        return {}
    drawn = np.stack([means[one] - means[other] for one, other in pairs])
    centres, spreads = drawn.mean(axis=1), drawn.std(axis=1)
    spreads = np.maximum(spreads, max(float(np.quantile(spreads, 0.25, method="lower")), EQUAL))
    farthest = (np.abs(drawn - centres[:, None]) / spreads[:, None]).max(axis=0)
    reaches = np.quantile(farthest, level) * spreads
    return {pair: (float(centre - reach), float(centre + reach)) for pair, centre, reach in zip(pairs, centres, reaches, strict=True)}


def leaves_out_zero(ends: tuple[float, float]) -> bool:
    low, high = ends
    return low > EQUAL or high < -EQUAL


def rank_intervals(means: Mapping[Key, Floats]) -> dict[Key, tuple[int, int]]:
    """The ranks (1 is best) that each group may hold: behind all that can be told to be ahead of it, before all that are behind."""
    low, high = dict.fromkeys(means, 1), dict.fromkeys(means, len(means))
    for (one, other), ends in differences(means).items():
        if leaves_out_zero(ends):
            ahead, behind = (one, other) if ends[0] > 0 else (other, one)
            low[behind] += 1
            high[ahead] -= 1
    return {key: (low[key], high[key]) for key in means}


def rank_groups(means: Mapping[str, Floats], level: float = LEVEL) -> dict[str, str]:
    """Letters by group, best first in `means`: groups that share one cannot be told apart, all pairs taken together.

    A letter stands for a largest run of neighbours of whom no two can be told apart.
    """
    names = list(means)
    joined = runs(names, {pair for pair, ends in differences(means, level).items() if leaves_out_zero(ends)})
    shown = [[name] if not any(name in run for run in joined) else [] for name in names]
    every = sorted([*joined, *(one for one in shown if one)], key=lambda run: names.index(run[0]))
    return {name: "".join(_letter(k) for k, run in enumerate(every) if name in run) for name in names}


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number})"
