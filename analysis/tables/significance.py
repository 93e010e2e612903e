"""Significance: the paired difference of every two losses with an interval for all of them together, and Friedman with mean ranks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pandas as pd

from analysis.places import Place, places
from analysis.readings import DEFAULT, VALIDATION, Parts, readings, split_queries
from analysis.statistics import CAVEAT, LEVEL, differences, friedman, leaves_out_zero, wilcoxon_holm
from analysis.tables.draws import draw
from analysis.tables.number import metric_label
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import PLACE, Cell, Column, Table, measured, table
from analysis.tables.tournament import matches
from analysis.tracking import StudyRows

KEYS = [*(column.name for column in PLACE), "setup", "loss", "other"]
NOTES = [
    f"[low, high]: {LEVEL:.0%} interval of the difference, paired, by bootstrap over test classes and seeds, widened so that those of"
    " all pairs of a setup hold together (max-|t|); told apart: it leaves out zero.",
    "p: two-sided Wilcoxon signed-rank test over test classes with Holm's correction. It knows no seeds: it is about these trained models,"
    " not about the losses.",
]


def significance(rows: StudyRows, metric: str = "recall_at_1") -> Table:
    """Setups are never mixed."""
    columns = [
        *PLACE,
        Column("setup"),
        Column("loss"),
        Column("other"),
        measured("difference", form="points", digits=1),
        Column("apart", "told apart"),
        Column("classes", form="count"),
        Column("p_value", "p, Wilcoxon and Holm", "number"),
    ]
    parts = split_queries(rows.queries)
    found = (line for place in places(rows.trials) for line in _of_place(rows, place, parts, metric=metric))
    lines = {tuple(line[key] for key in KEYS): line for line in found}.values()  # the default setup is met in every place
    return table("significance", "Pairs of losses", columns, lines, notes=NOTES if lines else [])


def _of_place(rows: StudyRows, place: Place, parts: Parts, *, metric: str) -> Iterator[dict[str, Any]]:
    finals = place.trained(rows.finals) if len(rows.finals) else rows.finals
    if finals.empty:
        return
    where = {"dataset": place.dataset, "backbone": place.backbone, "embedding_size": place.embedding_size}
    drawn = draw([one for one in readings(finals, finals.iloc[:0], parts) if not one.what], parts, [metric])
    for setup, protocol in ((DEFAULT, "default"), (VALIDATION, place.protocol)):
        mine = [one for one in drawn if one.reading.setup == setup and metric in one.numbers]
        mine.sort(key=lambda one: -one.numbers[metric].value)
        ends = differences({one.reading.loss: one.worlds[metric] for one in mine})
        classes = pd.DataFrame({one.reading.loss: one.reading.sums(parts, metric).by_class() for one in mine})
        p_values = wilcoxon_holm(classes).to_numpy()
        for (i, one), (j, other) in combinations(enumerate(mine), 2):
            pair, number, less = (one.reading.loss, other.reading.loss), one.numbers[metric], other.numbers[metric]
            gap = Cell(number.value - less.value, *ends[pair], rule=number.rule, peeks=number.peeks or less.peeks)
            told = {"difference": gap, "apart": "yes" if leaves_out_zero(ends[pair]) else "no"}
            about = {**where, "protocol": protocol, "setup": setup, "loss": pair[0], "other": pair[1]}
            yield {**about, **told, "classes": len(classes), "p_value": float(p_values[i, j])}


def mean_ranks(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """found: scores. What a critical-difference diagram shows, as a table."""
    mine = own(found)
    rows: list[dict[str, Any]] = []
    notes = []
    for setup, part in sorted(mine[mine["metric"] == metric].groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]):
        cells = matches(part).T
        result = friedman(cells)
        if not result:
            continue
        cliques, peeks = result.cliques(), setup == "default"
        for loss, rank in result.mean_ranks.items():
            groups = "".join(chr(ord("a") + i) for i, clique in enumerate(cliques) if loss in clique)
            rows.append({"setup": str(setup), "loss": str(loss), "mean_rank": Cell(float(rank), peeks=peeks), "groups": groups})
        over = (
            f"{result.blocks} cells" if result.blocks == len(cells) else f"the {result.blocks} of {len(cells)} cells that have every loss"
        )
        without = f", without {', '.join(result.left_out)} (missing in too many cells)" if result.left_out else ""
        notes.append(
            f"{setup}: Friedman chi-square {result.statistic:.2f} on {len(result.mean_ranks) - 1} degrees of freedom over {over}{without}, "
            f"p = {result.p_value:.2g}; Nemenyi's critical difference {result.critical_difference:.2f}."
        )
    rank = Column("mean_rank", form="number", digits=2, parts=("peeks",))
    columns = [Column("setup", place=True), Column("loss"), rank, Column("groups", "cannot be told apart")]
    return table("mean_ranks", f"Mean ranks by {metric_label(metric)} over cells", columns, rows, notes=[*notes, CAVEAT] if rows else [])
