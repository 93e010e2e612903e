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
from analysis.tables.ranked import beside_table, decomposition_table, ranking_table
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


TABLES: dict[str, Callable[[Study], Table]] = {
    "ranking": lambda study: ranking_table(study.rankings),
    "beside": lambda study: beside_table(study.rankings),
    "retrieval": lambda study: retrieval(study.scores),
    "tournament": lambda study: tournament(study.scores),
    "mean_ranks": lambda study: mean_ranks(study.scores),
    "significance": lambda study: significance(study.rows),
    "cross_validation": lambda study: cross_validation(folds_of(study.rows)),
    "split_ratio": lambda study: split_ratio(ratios_of(study.rows, study.scores)),
    "hyperparameters": lambda study: hyperparameters(found_by(study.rows)),
    "default_vs_validation": lambda study: default_vs_validation(study.rankings),
    "decomposition": lambda study: decomposition_table(study.rankings),
    "concatenated": lambda study: concatenated(study.scores),
    "triplet_report": lambda study: triplet_report(triplets_of(study.rows)),
    "generalisation": lambda study: generalisation(recalls_of(study.rows)),
    "effects": lambda study: effects(study.scores),
    "convergence": lambda study: convergence(study.rows, study.scores),
    "side_by_side": lambda study: side_by_side(study.rows),
    "improvement": lambda study: improvement(study.scores),
    "search": lambda study: search(study.rows),
    "importance": lambda study: importances(study.rows),
    "transfer": lambda study: transferred(study.rows),
    "compute": lambda study: compute(study.rows),
}
# Tables that hold losses against each other: what is not equal between them is said above.
COMPARE = {"ranking", "retrieval", "tournament", "mean_ranks", "significance", "default_vs_validation", "concatenated", "improvement"}


def make_table(name: str, study: Study) -> Table:
    """One of TABLES; a ValueError with the near name if it is none."""
    made = pick(TABLES, name, "table")(study)
    return replace(made, above=tuple(study.fairness)) if name in COMPARE and made.rows else made
