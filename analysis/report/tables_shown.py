"""Choose the tables that say something about a study; of the others, say why they do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from analysis.ranking.ranking import METRICS
from analysis.tables.catalogue import OF_EMBEDDINGS, TABLES, Study
from analysis.tables.table import Table

# What a table that stays empty needs.
NEEDS = {
    "mean_ranks": "it takes several cells with three losses or more",
    "over_datasets": "it takes several datasets",
    "cross_validation": "it takes folds (protocols=k_fold)",
    "concatenated": "it takes folds (protocols=k_fold)",
    "split_ratio": "it takes several shares of held-out classes",
    "transfer": "it takes checkpoints and `fairtrial audit`",
    "hyperparameters": "nothing was searched",
    "search": "nothing was searched",
    "importance": "nothing was searched",
    "default_vs_validation": "it takes both setups",
    "improvement": "it takes contrastive or triplet, and another published loss",
    "papers_versus_reality": "no paper claims numbers for these losses and datasets",
}
OF_SEVERAL_CELLS = ("tournament", "mean_ranks")  # of one cell, both repeat its ranking


@dataclass(frozen=True)
class LeftOut:
    """Hold a table that a page only names: what it shows, and why it is not there."""

    name: str
    about: str
    why: str


def left_out(made: Mapping[str, Table], study: Study, *, maps: bool) -> list[LeftOut]:
    """Return the tables that say nothing about this study.

    made: every table that was made. maps: whether those of embeddings were made, too.
    """
    found = []
    for name, recipe in TABLES.items():
        if name in OF_EMBEDDINGS and not maps:
            why = "it reads every embedding, which takes a while"
        elif name not in made or not made[name].rows:
            why = NEEDS.get(name, "this study has nothing for it yet")
        else:
            why = _repeats(name, made[name], study)
        if why:
            found.append(LeftOut(name, recipe.about, why))
    return found


def _repeats(name: str, made: Table, study: Study) -> str:
    """Return why a table with rows says nothing new; empty if it does."""
    if name in OF_SEVERAL_CELLS and len(study.rankings) < 2:
        return "with one cell it repeats the ranking"
    if name == "retrieval" and {each.name for each in made.columns if each.parts} <= {*METRICS}:
        return "it would repeat Recall@1 and MAP@R of the ranking"
    if name == "split_ratio" and len({row.get("validation_classes") for row in made.rows}) < 2:
        return NEEDS[name]
    if name == "importance" and len({(row["loss"], row["parameter"]) for row in made.rows}) == len(
        {row["loss"] for row in made.rows}
    ):
        return "each loss has one searched parameter, whose share is always 100 %"
    if name == "effects" and all(row["cells"] < 2 for row in made.rows):
        return "each of its means would be over one cell"
    return ""
