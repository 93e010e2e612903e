"""How sure we are: intervals, paired tests, rank groups, and what a search and a validation set were worth."""

from analysis.statistics.bootstrap import (
    DRAWS,
    EQUAL,
    LEVEL,
    ClassSums,
    Floats,
    bootstrap,
    differences,
    interval,
    leaves_out_zero,
    rank_groups,
    rank_intervals,
    student,
)
from analysis.statistics.search import expected_best, importance, tunability
from analysis.statistics.significance import CAVEAT, Friedman, friedman, nemenyi, wilcoxon_holm
from analysis.statistics.transfer import Transfer, transfer

__all__ = [
    "CAVEAT",
    "DRAWS",
    "EQUAL",
    "LEVEL",
    "ClassSums",
    "Floats",
    "Friedman",
    "Transfer",
    "bootstrap",
    "differences",
    "expected_best",
    "friedman",
    "importance",
    "interval",
    "leaves_out_zero",
    "nemenyi",
    "rank_groups",
    "rank_intervals",
    "student",
    "transfer",
    "tunability",
    "wilcoxon_holm",
]
