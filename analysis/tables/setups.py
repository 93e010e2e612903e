"""Default against validation: both setups of each loss, and the signed difference with its interval (thesis table 16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from analysis.tables.number import metric_label
from analysis.tables.ranking import METRICS, Ranking
from analysis.tables.table import PLACE, Cell, Column, Table, measured, table

TITLE = "Default setup against validation setup, test classes, in percent"
SIDES = ("default", "validation", "difference")
NOTE = "difference: validation minus default, {how}; it holds what peeking, tuning and fewer train classes are worth together."


def columns(metrics: Iterable[str]) -> list[Column]:
    forms = {side: "points" if side == "difference" else "percent" for side in SIDES}
    sides = [measured(f"{side}_{name}", f"{side} {metric_label(name)}", forms[side]) for name in metrics for side in SIDES]  # type: ignore[arg-type]
    return [*PLACE, Column("loss"), *sides]


def default_vs_validation(found: Sequence[Ranking]) -> Table:
    """Only losses that have both."""
    rows: list[dict[str, Any]] = []
    for ranking in found:
        place = {column.name: getattr(ranking, column.name) for column in PLACE}
        for row in ranking.rows:
            if row.difference:
                sides = {side: getattr(row, side) for side in SIDES}
                cells = {f"{side}_{name}": Cell.of(sides[side].get(name)) for side in SIDES for name in METRICS}
                rows.append({**place, "loss": row.loss, **cells})
    return table("default_vs_validation", TITLE, columns(METRICS), rows, notes=[NOTE.format(how="paired")] if rows else [])
