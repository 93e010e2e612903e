"""Make the table of both setups of each loss, and the signed difference with its interval (thesis
table 16).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from analysis.ranking.measurement import metric_label
from analysis.ranking.ranking import METRICS, Ranking
from analysis.tables.table import (
    COMPARISON_COLUMNS,
    Column,
    Form,
    Table,
    comparison_of,
    measured,
    table,
)

TITLE = "Default setup against validation setup, test classes, in percent"
SIDES = ("default", "validation", "difference")
NOTE = (
    "difference: validation minus default, {how}; it holds what peeking, tuning and fewer train "
    "classes are worth together."
)
BY_ITSELF = (
    "The interval of a difference holds for that difference by itself: among many, some leave out "
    "zero by chance."
)


def columns(metrics: Iterable[str]) -> list[Column]:
    """Return the columns of both setups and their difference for each metric."""
    forms: dict[str, Form] = {"difference": "points"}
    sides = [
        measured(f"{side}_{name}", f"{side} {metric_label(name)}", forms.get(side, "percent"))
        for name in metrics
        for side in SIDES
    ]
    return [*COMPARISON_COLUMNS, Column("loss"), *sides]


def default_vs_validation(found: Sequence[Ranking]) -> Table:
    """Return a row for each loss that has both setups."""
    rows: list[dict[str, Any]] = []
    for ranking in found:
        for row in ranking.rows:
            if row.difference:
                numbers = {
                    f"{side}_{name}": getattr(row, side).get(name)
                    for side in SIDES
                    for name in METRICS
                }
                rows.append({**comparison_of(ranking), "loss": row.loss, **numbers})
    notes = [NOTE.format(how="paired by test class and replicate"), BY_ITSELF] if rows else []
    return table("default_vs_validation", TITLE, columns(METRICS), rows, notes=notes)
