"""Test losses in pairs: Wilcoxon with Holm, Friedman, and Nemenyi's critical difference."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

from analysis.statistics.letters import letters

ALPHA = 0.05
MIN_BLOCKS = 12  # datasets; with fewer a rank test can hardly reject anything
# Benavoli et al. 2016: a test on mean ranks depends on who else is in the pool.
CAVEAT = "Mean ranks depend on which losses are compared; they say nothing about how far apart."
BARS = (
    "Bars join neighbours in mean rank between which Wilcoxon tests with Holm's correction show no "
    "difference; pairs that are no neighbours are in the letters of the table mean_ranks."
)


@dataclass(frozen=True)
class Friedman:
    """Hold whether some loss differs from another over blocks, and which pairs do."""

    blocks: int
    statistic: float
    p_value: float
    mean_ranks: pd.Series  # best first
    pairs: pd.DataFrame  # p values of Wilcoxon with Holm, losses by losses, best first
    critical_difference: float  # Nemenyi: no difference is shown between nearer mean ranks
    left_out: tuple[str, ...] = ()  # losses that are missing in too many blocks

    def cliques(self, alpha: float = ALPHA) -> list[list[str]]:
        """Return the largest runs of neighbours in mean rank without a pair that differs."""
        return maximal_runs(list(self.mean_ranks.index), set(self._apart(alpha)))

    def letters(self, alpha: float = ALPHA) -> dict[str, str]:
        """Return letters by loss; two losses share one exactly if no difference is shown."""
        return letters(list(self.mean_ranks.index), self._apart(alpha))

    def _apart(self, alpha: float) -> list[tuple[str, str]]:
        """Return the pairs that differ, in the order of the mean ranks."""
        pairs = combinations(self.mean_ranks.index, 2)
        return [pair for pair in pairs if self.pairs.loc[pair] < alpha]


def maximal_runs(names: list[str], apart: set[tuple[str, str]]) -> list[list[str]]:
    """Return the largest runs of two or more names without a pair that is apart.

    apart: pairs in the order of the names.
    """
    found: list[list[str]] = []
    for start, name in enumerate(names):
        end = start + 1
        while end < len(names) and not any(
            (names[i], names[end]) in apart for i in range(start, end)
        ):
            end += 1
        if end - start > 1 and not (found and set(names[start:end]) <= set(found[-1])):
            found.append([name, *names[start + 1 : end]])
    return found


def friedman(values: pd.DataFrame) -> Friedman | None:
    """Return the test over independent blocks; None with fewer than three losses or 12 blocks.

    values: a row per block, a column per loss; higher is better.
    """
    from scipy.stats import friedmanchisquare

    whole = complete(values)
    blocks, losses = whole.shape
    if blocks < MIN_BLOCKS or losses < 3:
        return None
    left_out, values = tuple(str(name) for name in values if name not in whole), whole
    ranks = mean_ranks(values)
    statistic, p_value = friedmanchisquare(*(values[name] for name in values))
    ordered = values[list(ranks.index)]
    return Friedman(
        blocks,
        float(statistic),
        float(p_value),
        ranks,
        wilcoxon_holm(ordered),
        nemenyi(blocks, losses),
        left_out,
    )


def mean_ranks(values: pd.DataFrame) -> pd.Series:
    """Return the mean rank of every loss over the blocks that have all of them, best first.

    It is empty with fewer than two such blocks: the ranks of one block are no means.
    """
    ranks = complete(values).rank(axis=1, ascending=False)
    return ranks.mean().dropna().sort_values(kind="stable")


def blocks_of(cells: pd.DataFrame) -> pd.DataFrame:
    """Return a row per dataset, the mean over its cells of minus each loss's rank.

    Cells that share a dataset share its test classes: they are one block, not several. cells: a row
    per cell, named dataset/..., a column per loss.
    """
    datasets = [_dataset(name) for name in cells.index]
    return (
        (-complete(cells).rank(axis=1, ascending=False))
        .groupby(pd.Series(datasets, cells.index))
        .mean()
    )


def _dataset(cell: Hashable) -> str:
    return str(cell).partition("/")[0]


def without_test(cells: pd.DataFrame) -> str:
    """Return why there is no rank test over these cells."""
    blocks = len({_dataset(name) for name in cells.index})
    return (
        f"No rank test: {len(cells)} cells of {blocks} dataset{'s' * (blocks != 1)} are {blocks} "
        f"independent block{'s' * (blocks != 1)}, because cells of one dataset share its test "
        f"classes, and a test takes {MIN_BLOCKS}."
    )


def complete(values: pd.DataFrame) -> pd.DataFrame:
    """Return the largest part in which every block has every loss.

    Losses are dropped in the order of how many blocks they are missing in.
    """
    often = values.isna().sum().sort_values(kind="stable", ascending=False).index
    parts = [values.drop(columns=often[:count]).dropna() for count in range(max(1, len(often) - 2))]
    return max(
        (part for part in parts if len(part) > 1),
        key=lambda part: part.size,
        default=values.iloc[:0],
    )


def wilcoxon_holm(values: pd.DataFrame) -> pd.DataFrame:
    """Return two-sided p values of every pair of columns, corrected by Holm.

    Rows are paired blocks; the p value is 1 where two columns never differ.
    """
    from scikit_posthocs import posthoc_wilcoxon

    names = list(values.columns)
    if len(names) < 2 or len(values) < 2:
        return pd.DataFrame(np.ones((len(names), len(names))), names, names)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = posthoc_wilcoxon(values.to_numpy(float).T, p_adjust="holm", zero_method="zsplit")
    return pd.DataFrame(found.to_numpy(), names, names).fillna(1.0)


def nemenyi(blocks: int, losses: int, alpha: float = ALPHA) -> float:
    """Return the critical difference of mean ranks."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - alpha, losses, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(losses * (losses + 1) / (6 * blocks)))
