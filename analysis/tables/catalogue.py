"""All tables by name, each made from one study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import pandas as pd

from analysis.fairness import fairness
from analysis.tables.compute import compute
from analysis.tables.concatenated import concatenated
from analysis.tables.convergence import convergence
from analysis.tables.cross_validation import cross_validation, folds_of
from analysis.tables.effects import effects
from analysis.tables.generalisation import generalisation, recalls_of
from analysis.tables.hyperparameters import found_by, hyperparameters
from analysis.tables.improvement import improvement
from analysis.tables.ranked import beside_table, decomposition_table, ranking_table, steps_table
from analysis.tables.ranking import Ranking, rankings
from analysis.tables.retrieval import retrieval
from analysis.tables.scores import scores
from analysis.tables.searches import importances, search, transferred
from analysis.tables.setups import default_vs_validation
from analysis.tables.side_by_side import side_by_side
from analysis.tables.significance import mean_ranks, significance
from analysis.tables.split_ratio import ratios_of, split_ratio
from analysis.tables.table import Table
from analysis.tables.tournament import tournament
from analysis.tables.triplet_report import triplet_report, triplets_of
from analysis.tracking import StudyRows
from search_spaces import pick


@dataclass(frozen=True)
class Study:
    """A study's rows, and what several tables need of them, made once."""

    rows: StudyRows

    @cached_property
    def scores(self) -> pd.DataFrame:
        return scores(self.rows)

    @cached_property
    def rankings(self) -> list[Ranking]:
        return rankings(self.rows)

    @cached_property
    def fairness(self) -> list[str]:
        return fairness(self.rows)


@dataclass(frozen=True)
class Kind:
    about: str
    make: Callable[[Study], Table]


TABLES: dict[str, Kind] = {
    "ranking": Kind(
        "losses by the validation setup, with intervals, rank intervals and groups", lambda study: ranking_table(study.rankings)
    ),
    "beside": Kind("baselines, and what stands beside a loss's own numbers", lambda study: beside_table(study.rankings)),
    "retrieval": Kind("recall at every k of each loss (thesis tables 6 to 10)", lambda study: retrieval(study.scores)),
    "tournament": Kind(
        "each loss's rank in every cell, total, mean and deviation (thesis table 11)", lambda study: tournament(study.scores)
    ),
    "mean_ranks": Kind("Friedman over cells, mean ranks and who cannot be told apart", lambda study: mean_ranks(study.scores)),
    "significance": Kind(
        "every pair of losses: the paired difference, with intervals for all pairs together", lambda study: significance(study.rows)
    ),
    "cross_validation": Kind(
        "validation and test score of every fold (thesis tables 12 and 13)", lambda study: cross_validation(folds_of(study.rows))
    ),
    "split_ratio": Kind("how many classes to hold out (thesis table 14)", lambda study: split_ratio(ratios_of(study.rows, study.scores))),
    "hyperparameters": Kind(
        "published and found values, ranges and edges (thesis table 15)", lambda study: hyperparameters(found_by(study.rows))
    ),
    "default_vs_validation": Kind(
        "both setups and the signed difference with its interval (thesis table 16)", lambda study: default_vs_validation(study.rankings)
    ),
    "decomposition": Kind(
        "what tuning, the epoch's choice and fewer train classes are worth", lambda study: decomposition_table(study.rankings)
    ),
    "steps": Kind(
        "what doing without peeking, fewer train classes and tuning each change, with intervals", lambda study: steps_table(study.rankings)
    ),
    "concatenated": Kind("the models of all folds as one, and each alone (the reality check)", lambda study: concatenated(study.scores)),
    "triplet_report": Kind("train loss, triplet accuracy, cosines and precision", lambda study: triplet_report(triplets_of(study.rows))),
    "generalisation": Kind(
        "train and test recall of the embedding and of the features below it",
        lambda study: generalisation(recalls_of(study.rows, study.scores)),
    ),
    "effects": Kind("means by backbone, embedding size and dataset", lambda study: effects(study.scores)),
    "convergence": Kind(
        "peak minus last, peak minus validation-chosen, epochs to within a point", lambda study: convergence(study.rows, study.rankings)
    ),
    "side_by_side": Kind("images per update, negatives, share of tuples with gradient", lambda study: side_by_side(study.rows)),
    "improvement": Kind("losses by year, relative to contrastive and to triplet", lambda study: improvement(study.scores)),
    "search": Kind("expected best score by number of trials, and tunability", lambda study: search(study.rows)),
    "importance": Kind("which hyperparameters matter (fANOVA)", lambda study: importances(study.rows)),
    "transfer": Kind(
        "rank correlation of validation and test, and regret, once an audit scored the checkpoints", lambda study: transferred(study.rows)
    ),
    "compute": Kind("trials, epochs, hours and how trials ended", lambda study: compute(study.rows)),
}
# Tables that do not hold losses against each other; above all others it is said what is not equal between them.
ALONE = {"beside", "split_ratio", "hyperparameters", "importance", "transfer", "compute"}
COMPARE = TABLES.keys() - ALONE


def make_table(name: str, study: Study) -> Table:
    """One of TABLES; a ValueError with the near name if it is none."""
    made = pick(TABLES, name, "table").make(study)
    return replace(made, above=tuple(study.fairness)) if name in COMPARE and made.rows else made
