"""How sure we are: intervals, paired tests, rank groups, and what a search and a validation set were worth."""

from analysis.statistics.bootstrap import DRAWS, EQUAL, LEVEL, ClassSums, Floats, bootstrap, interval, rank_groups, rank_intervals

__all__ = ["DRAWS", "EQUAL", "LEVEL", "ClassSums", "Floats", "bootstrap", "interval", "rank_groups", "rank_intervals"]
