"""Paired tests between losses: Wilcoxon with Holm, Friedman, and what a critical-difference diagram needs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd

ALPHA = 0.05
# Benavoli et al. 2016: a test on mean ranks depends on who else is in the pool.
CAVEAT = (
    "Mean ranks depend on which losses are compared, and cells that share a dataset are not independent: the test describes. "
    "Bars join losses that pairwise Wilcoxon tests with Holm's correction cannot tell apart."
)


@dataclass(frozen=True)
class Friedman:
    """Whether some loss differs from another over blocks, and which pairs do."""

    blocks: int
    statistic: float
    p_value: float
    mean_ranks: pd.Series  # best first
    pairs: pd.DataFrame  # p values of Wilcoxon with Holm, losses by losses, in the order of the mean ranks
    critical_difference: float  # Nemenyi: mean ranks nearer than this cannot be told apart
    left_out: tuple[str, ...] = ()  # losses that are missing in too many blocks

    def cliques(self, alpha: float = ALPHA) -> list[list[str]]:
        """Largest runs of neighbours in mean rank of whom no two can be told apart; a loss alone is none."""
        return runs(list(self.mean_ranks.index), {pair for pair in combinations(self.mean_ranks.index, 2) if self.pairs.loc[pair] < alpha})


def runs(names: list[str], apart: set[tuple[str, str]]) -> list[list[str]]:
    """names in order; apart: pairs in that order."""
    found: list[list[str]] = []
    for start, name in enumerate(names):
        end = start + 1
        while end < len(names) and not any((names[i], names[end]) in apart for i in range(start, end)):
            end += 1
        if end - start > 1 and not (found and set(names[start:end]) <= set(found[-1])):
            found.append([name, *names[start + 1 : end]])
    return found


def friedman(values: pd.DataFrame) -> Friedman | None:
    """values: a row per block (cell, or test class), a column per loss, higher is better. None: fewer than three losses or two blocks."""
    from scipy.stats import friedmanchisquare

    whole = complete(values)
    blocks, losses = whole.shape
    if blocks < 2 or losses < 3:
        return None
    left_out, values = tuple(str(name) for name in values if name not in whole), whole
    ranks = values.rank(axis=1, ascending=False).mean().sort_values(kind="stable")
    statistic, p_value = friedmanchisquare(*(values[name] for name in values))
    ordered = values[list(ranks.index)]
    return Friedman(blocks, float(statistic), float(p_value), ranks, wilcoxon_holm(ordered), nemenyi(blocks, losses), left_out)


def complete(values: pd.DataFrame) -> pd.DataFrame:
    """The largest part in which every block has every loss: losses go in the order of how many blocks they are missing in."""
    often = values.isna().sum().sort_values(kind="stable", ascending=False).index
    parts = [values.drop(columns=often[:count]).dropna() for count in range(max(1, len(often) - 2))]
    return max((part for part in parts if len(part) > 1), key=lambda part: part.size, default=values.iloc[:0])


def wilcoxon_holm(values: pd.DataFrame) -> pd.DataFrame:
    """Two-sided p values of every pair of columns, corrected by Holm; 1 where two never differ. Blocks are paired."""
    from scikit_posthocs import posthoc_wilcoxon

    names = list(values.columns)
    if len(names) < 2 or len(values) < 2:
        return pd.DataFrame(np.ones((len(names), len(names))), names, names)
    with np.errstate(invalid="ignore", divide="ignore"):
        found = posthoc_wilcoxon(values.to_numpy(float).T, p_adjust="holm", zero_method="zsplit")
    return pd.DataFrame(found.to_numpy(), names, names).fillna(1.0)


def nemenyi(blocks: int, losses: int, alpha: float = ALPHA) -> float:
    """The critical difference of mean ranks."""
    from scipy.stats import studentized_range

    q = studentized_range.ppf(1 - alpha, losses, np.inf) / np.sqrt(2)
    return float(q * np.sqrt(losses * (losses + 1) / (6 * blocks)))
