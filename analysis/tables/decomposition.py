"""Make the decomposition: what tuning, the choice of the epoch and fewer classes are worth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.ranking.decomposition import EPOCHS, decomposition
from analysis.ranking.measurement import metric_label
from analysis.ranking.ranking import Ranking
from analysis.tables.table import (
    COMPARISON_COLUMNS,
    Column,
    Table,
    comparison_of,
    measured,
    table,
)
from trainables.contract import PEEKING

TITLE = "{metric} by setting (tuned: with the feedback of its own setup), train classes and rule"
LONG = ("loss", "setting", "epoch", "train_classes", "metric", "value", "low", "high", "rule")


def decomposition_table(found: Sequence[Ranking], metric: str = "recall_at_1") -> Table:
    """Return a row per loss and setting, and a column per train classes and rule."""
    rows: list[dict[str, Any]] = []
    columns: dict[str, Column] = {}
    for ranking in found:
        if not (parts := decomposition(ranking)):
            continue
        names = [f"{classes}_{rule}" for classes, rule in parts.columns]
        columns |= {
            name: _column(name, classes, rule)
            for name, (classes, rule) in zip(names, parts.columns, strict=True)
        }
        for loss, setting, line in parts.lines():
            numbers = {name: each.get(metric) for name, each in zip(names, line, strict=True)}
            rows.append({**comparison_of(ranking), "loss": loss, "setting": setting, **numbers})
    epochs = ", ".join(f"{rule}: {epoch}" for rule, epoch in EPOCHS.items())
    return table(
        "decomposition",
        TITLE.format(metric=metric_label(metric)),
        [*COMPARISON_COLUMNS, Column("loss"), Column("setting"), *columns.values()],
        rows,
        notes=[f"Columns: train classes and rule; {epochs}."] if rows else [],
    )


def _column(name: str, classes: str, rule: str) -> Column:
    star = "*" if rule == PEEKING else ""
    head = f"{classes} train classes, {rule}"
    return measured(name, head, short=f"{rule}{star}", group=(f"{classes} train classes", ""))


def long_decomposition(found: Sequence[Ranking]) -> Table:
    """Return one row per number of every decomposition."""
    rows = [
        comparison_of(ranking) | line
        for ranking in found
        if (parts := decomposition(ranking))
        for line in parts.plain()
    ]
    columns = [*COMPARISON_COLUMNS, *(Column(name) for name in (*LONG, "peeks", "replicates"))]
    return table("decomposition", TITLE.format(metric="Test scores"), columns, rows)
