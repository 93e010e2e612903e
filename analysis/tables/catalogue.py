"""List all tables by name, each made from one study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pandas as pd

from analysis.ranking.fairness import fairness
from analysis.ranking.notes import ONE_SEARCH, interval_notes, validation_notes
from analysis.ranking.ranking import Ranking, rankings
from analysis.ranking.readings import of_closed_set, unit_of
from analysis.record.frames import StudyRows
from analysis.statistics import ROPE
from analysis.tables.beside import beside_table
from analysis.tables.compute import compute
from analysis.tables.concatenated import concatenated
from analysis.tables.convergence import convergence
from analysis.tables.cross_validation import cross_validation, folds_of
from analysis.tables.decomposition import decomposition_table
from analysis.tables.default_vs_validation import default_vs_validation
from analysis.tables.effects import effects
from analysis.tables.generalisation import generalisation, recalls_of
from analysis.tables.hyperparameters import found_by, hyperparameters
from analysis.tables.importance import importance
from analysis.tables.improvement import improvement
from analysis.tables.mean_ranks import mean_ranks
from analysis.tables.over_datasets import over_datasets
from analysis.tables.papers_versus_reality import papers_versus_reality
from analysis.tables.ranking import ranking_table
from analysis.tables.retrieval import retrieval
from analysis.tables.scores import scores
from analysis.tables.search import search
from analysis.tables.side_by_side import side_by_side
from analysis.tables.significance import significance
from analysis.tables.split_ratio import ratios_of, split_ratio
from analysis.tables.steps import steps_table
from analysis.tables.table import Table, with_closed_marks
from analysis.tables.tournament import tournament
from analysis.tables.transfer import transfer
from analysis.tables.triplet_report import triplet_report, triplets_of
from search_spaces import pick


@dataclass(frozen=True)
class Study:
    """Hold a study's rows, and what several tables need of them, made once.

    rope: losses that differ by less are equally good in practice.
    """

    rows: StudyRows
    rope: float = ROPE

    @cached_property
    def scores(self) -> pd.DataFrame:
        """Return every number of the study."""
        return scores(self.rows)

    @cached_property
    def rankings(self) -> list[Ranking]:
        """Return the study's rankings."""
        return rankings(self.rows)

    @cached_property
    def importance(self) -> Table:
        """Return the importance of every parameter, which takes a second."""
        return importance(self.rows)

    @cached_property
    def closed(self) -> bool:
        """Return whether train and test images share their classes, in all trials or in none."""
        return bool(of_closed_set(self.rows.trials).any())

    @cached_property
    def fairness(self) -> list[str]:
        """Return the sentences of the fairness check."""
        return fairness(self.rows)

    @cached_property
    def warnings(self) -> list[str]:
        """Return what makes every ranking of the study doubtful."""
        return validation_notes(self.rows.trials, self.rows.specs)

    @cached_property
    def interval_notes(self) -> list[str]:
        """Return what the study's intervals contain, and what they do not."""
        return interval_notes(self.rows.finals, unit=unit_of(self.rows.trials))


def rope_of(config: Mapping[str, Any]) -> float:
    """Return the region of practical equivalence that a config asks for, as a share."""
    return float(config["rope"]) / 100 if "rope" in config else ROPE


@dataclass(frozen=True)
class TableRecipe:
    """Say what a table shows, and make it of a study."""

    about: str
    make: Callable[[Study], Table]


TABLES: dict[str, TableRecipe] = {
    "ranking": TableRecipe(
        "losses by the validation setup, with intervals, rank intervals and groups",
        lambda study: ranking_table(study.rankings),
    ),
    "beside": TableRecipe(
        "baselines, and every other reading of a loss besides its own numbers",
        lambda study: beside_table(study.rankings),
    ),
    "retrieval": TableRecipe(
        "recall at every k of each loss (thesis tables 6 to 10 and 17 to 21)",
        lambda study: retrieval(study.scores),
    ),
    "tournament": TableRecipe(
        "each loss's rank in every cell, total, mean and deviation (thesis table 11)",
        lambda study: tournament(study.scores),
    ),
    "mean_ranks": TableRecipe(
        "mean ranks over cells, and Friedman's test if there are 12 datasets or more",
        lambda study: mean_ranks(study.scores),
    ),
    "significance": TableRecipe(
        "every pair of losses: the paired difference, with intervals for all pairs together",
        lambda study: significance(study.rows, rope=study.rope),
    ),
    "over_datasets": TableRecipe(
        "every pair of losses over all datasets: mean difference, wins and chances",
        lambda study: over_datasets(study.rows, rope=study.rope),
    ),
    "cross_validation": TableRecipe(
        "validation and test score of every fold (thesis tables 12 and 13)",
        lambda study: cross_validation(folds_of(study.rows)),
    ),
    "split_ratio": TableRecipe(
        "how many classes to hold out (thesis table 14)",
        lambda study: split_ratio(ratios_of(study.rows, study.scores)),
    ),
    "hyperparameters": TableRecipe(
        "published and found values, ranges and edges (thesis table 15)",
        lambda study: hyperparameters(found_by(study.rows)),
    ),
    "default_vs_validation": TableRecipe(
        "both setups and the signed difference with its interval (thesis table 16)",
        lambda study: default_vs_validation(study.rankings),
    ),
    "decomposition": TableRecipe(
        "what tuning, the epoch's choice and fewer train classes are worth",
        lambda study: decomposition_table(study.rankings),
    ),
    "steps": TableRecipe(
        "what doing without peeking, fewer train classes and tuning each change, with intervals",
        lambda study: steps_table(study.rankings),
    ),
    "concatenated": TableRecipe(
        "the models of all folds as one, and each alone (the reality check)",
        lambda study: concatenated(study.scores),
    ),
    "triplet_report": TableRecipe(
        "train loss, triplet accuracy, cosines and precision",
        lambda study: triplet_report(triplets_of(study.rows)),
    ),
    "generalisation": TableRecipe(
        "train and test recall of the embedding and of the features below it",
        lambda study: generalisation(recalls_of(study.rows, study.scores)),
    ),
    "effects": TableRecipe(
        "means by backbone, embedding size, dataset and kind of loss (thesis section 4.2)",
        lambda study: effects(study.scores),
    ),
    "convergence": TableRecipe(
        "peak minus last, peak minus validation-chosen, epochs to within a point",
        lambda study: convergence(study.rows, study.rankings),
    ),
    "side_by_side": TableRecipe(
        "images per update, negatives, share of tuples with gradient",
        lambda study: side_by_side(study.rows),
    ),
    "improvement": TableRecipe(
        "losses by year, relative to contrastive and to triplet",
        lambda study: improvement(study.scores),
    ),
    "papers_versus_reality": TableRecipe(
        "what each loss's authors claim beside what was measured, by year (the reality check)",
        lambda study: papers_versus_reality(study.scores),
    ),
    "search": TableRecipe(
        "best score so far by trials and by epochs, and tunability",
        lambda study: search(study.rows),
    ),
    "importance": TableRecipe(
        "which hyperparameters matter (fANOVA)", lambda study: study.importance
    ),
    "transfer": TableRecipe(
        "rank correlation of validation and test, and regret, once an audit scored the checkpoints",
        lambda study: transfer(study.rows),
    ),
    "compute": TableRecipe(
        "trials, epochs, hours and how trials ended", lambda study: compute(study.rows)
    ),
}
# Tables that do not compare losses; the fairness check is above all others.
ALONE = {"beside", "split_ratio", "hyperparameters", "importance", "transfer", "compute"}
COMPARE = TABLES.keys() - ALONE
# Tables that are computed from every embedding of the final trials, which takes a while.
OF_EMBEDDINGS = {"generalisation"}
# Tables whose notes say themselves what is in brackets.
OWN_BRACKETS = {"search", "effects"}


def make_table(name: str, study: Study) -> Table:
    """Return one of TABLES; a ValueError names the nearest table if there is none of that name."""
    made = pick(TABLES, name, "table").make(study)
    made = with_closed_marks(made) if study.closed else made
    if not made.rows:
        return made
    if name in COMPARE:
        made = replace(made, above=tuple(study.fairness))
    if name == "ranking":  # its notes are those of its rankings
        return made
    return replace(made, notes=tuple(dict.fromkeys(_notes(made, study))))


def _notes(made: Table, study: Study) -> Iterator[str]:
    """Yield warnings, the table's own notes, and what its intervals and ranks contain."""
    compares = made.name in COMPARE
    yield from study.warnings if compares else []
    yield from made.notes
    if any(each.low is not None for each in made.measurements()) and made.name not in OWN_BRACKETS:
        yield from study.interval_notes
    elif compares and ONE_SEARCH in study.interval_notes:
        yield ONE_SEARCH
