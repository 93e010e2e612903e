"""Significance: every pair of losses by Wilcoxon with Holm over test classes, and Friedman with mean ranks over the cells of a study."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pandas as pd

from analysis.places import Place, places
from analysis.statistics import CAVEAT, friedman, wilcoxon_holm
from analysis.statistics.significance import ALPHA
from analysis.tables.ranking import HONEST
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import PLACE, Cell, Column, Table, table
from analysis.tables.tournament import matches
from analysis.tracking import StudyRows
from trainables.contract import CONCATENATED, PEEKING

KEYS = [*(column.name for column in PLACE), "setup", "loss", "other"]
RULES = {PEEKING: "default", HONEST: "validation"}


def significance(rows: StudyRows, metric: str = "recall_at_1") -> Table:
    """A class's score is its mean over queries, models and seeds; setups are never mixed."""
    columns = [
        *PLACE,
        Column("setup"),
        Column("loss"),
        Column("other"),
        Column("difference", form="points", digits=1, parts=("peeks",)),
        Column("classes", form="count"),
        Column("p_value", "p, Holm", "number"),
        Column("apart", "told apart"),
    ]
    found = (line for place in places(rows.trials) for line in _of_place(rows, place, metric))
    lines = {tuple(line[key] for key in KEYS): line for line in found}.values()  # the default setup is met in every place
    notes = [f"Two-sided Wilcoxon signed-rank tests over test classes, Holm's correction within a setup; told apart: p < {ALPHA}."]
    return table("significance", "Pairs of losses", columns, lines, notes=notes if lines else [])


def _of_place(rows: StudyRows, place: Place, metric: str) -> Iterator[dict[str, Any]]:
    finals = place.trained(rows.finals) if len(rows.finals) else rows.finals
    if finals.empty:
        return
    mine = finals[(finals["role"] == "final") & finals["rule"].isin(RULES)]
    for rule, trials in mine.groupby("rule"):
        values = by_class(rows.queries, trials, metric)
        setup = RULES[str(rule)]
        where = {"dataset": place.dataset, "backbone": place.backbone, "embedding_size": place.embedding_size}
        about = {**where, "protocol": "default" if setup == "default" else place.protocol, "setup": setup}
        p_values = wilcoxon_holm(values).to_numpy()
        for (i, one), (j, other) in combinations(enumerate(values.columns), 2):
            gap = Cell(float((values[one] - values[other]).mean()), peeks=rule == PEEKING)
            p = float(p_values[i, j])
            told: dict[str, Any] = {"difference": gap, "classes": len(values), "p_value": p, "apart": "yes" if p < ALPHA else "no"}
            yield {**about, "loss": one, "other": other, **told}


def by_class(queries: pd.DataFrame, trials: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Test classes down, losses across, best first."""
    mine = queries[queries["fold"] != CONCATENATED].merge(trials[["run_id", "rule", "loss"]], on=["run_id", "rule"])
    values = mine.pivot_table(index="class", columns="loss", values=metric)
    return values[values.mean().sort_values(ascending=False, kind="stable").index]


def mean_ranks(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """found: scores. What a critical-difference diagram shows, as a table."""
    mine = own(found)
    rows: list[dict[str, Any]] = []
    notes = []
    for setup, part in sorted(mine[mine["metric"] == metric].groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]):
        result = friedman(matches(part).T)
        if not result:
            continue
        cliques, peeks = result.cliques(), setup == "default"
        for loss, rank in result.mean_ranks.items():
            groups = "".join(chr(ord("a") + i) for i, clique in enumerate(cliques) if loss in clique)
            rows.append({"setup": str(setup), "loss": str(loss), "mean_rank": Cell(float(rank), peeks=peeks), "groups": groups})
        notes.append(
            f"{setup}: Friedman chi-square {result.statistic:.2f} on {len(result.mean_ranks) - 1} degrees of freedom over {result.blocks} "
            f"cells, p = {result.p_value:.2g}; Nemenyi's critical difference {result.critical_difference:.2f}."
        )
    rank = Column("mean_rank", form="number", digits=2, parts=("peeks",))
    columns = [Column("setup", place=True), Column("loss"), rank, Column("groups", "cannot be told apart")]
    return table("mean_ranks", f"Mean ranks by {metric} over cells", columns, rows, notes=[*notes, CAVEAT] if rows else [])
