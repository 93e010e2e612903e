"""Compute intervals, paired tests, rank groups, and what searches and validation are worth."""

from analysis.statistics.components import QUICKSTART, Components, moments, smallest_difference
from analysis.statistics.estimate import Estimate, Variance, mean_of, unrelated
from analysis.statistics.letters import (
    EQUAL,
    ahead_of,
    all_intervals,
    in_order,
    leaves_out_zero,
    letters,
    rank_intervals,
)
from analysis.statistics.mixed import ROPE, differences, estimates, pairs, unpaired
from analysis.statistics.quantiles import LEVEL, student
from analysis.statistics.sample import Floats, Sample, average
from analysis.statistics.search import best_so_far, best_within, importance, tunability
from analysis.statistics.significance import (
    CAVEAT,
    Friedman,
    blocks_of,
    friedman,
    mean_ranks,
    nemenyi,
    wilcoxon_holm,
    without_test,
)
from analysis.statistics.transfer import Transfer, transfer

__all__ = [
    "CAVEAT",
    "EQUAL",
    "LEVEL",
    "QUICKSTART",
    "ROPE",
    "Components",
    "Estimate",
    "Floats",
    "Friedman",
    "Sample",
    "Transfer",
    "Variance",
    "ahead_of",
    "all_intervals",
    "average",
    "best_so_far",
    "best_within",
    "blocks_of",
    "differences",
    "estimates",
    "friedman",
    "importance",
    "in_order",
    "leaves_out_zero",
    "letters",
    "mean_of",
    "mean_ranks",
    "moments",
    "nemenyi",
    "pairs",
    "rank_intervals",
    "smallest_difference",
    "student",
    "transfer",
    "tunability",
    "unpaired",
    "unrelated",
    "wilcoxon_holm",
    "without_test",
]
