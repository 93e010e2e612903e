"""Make the table of steps: what no peeking, fewer train classes and tuning each change."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.ranking.measurement import metric_label
from analysis.ranking.ranking import Ranking
from analysis.ranking.steps import NEEDS
from analysis.statistics import LEVEL
from analysis.tables.default_vs_validation import BY_ITSELF
from analysis.tables.table import (
    COMPARISON_COLUMNS,
    Column,
    Table,
    comparison_of,
    measured,
    table,
)

TITLE = "What each step changes in {metric}, test classes, in points"


def steps_table(found: Sequence[Ranking], metric: str = "recall_at_1") -> Table:
    """Return a row per loss and step; a note names each step that no loss has and what it needs."""
    rows = [
        comparison_of(ranking)
        | {"loss": row.loss, "step": step.name, "what": step.what, "why_not": step.why_not}
        | {"difference": step.difference.get(metric)}
        for ranking in found
        for row in ranking.rows
        for step in row.steps
    ]
    columns = [
        *COMPARISON_COLUMNS,
        *(Column(name) for name in ("loss", "step", "what")),
        measured("difference", form="points", digits=1),
        Column("why_not"),
    ]
    notes = list(dict.fromkeys(note for ranking in found for note in _notes(ranking)))
    title = TITLE.format(metric=metric_label(metric))
    return table("steps", title, columns, rows, notes=notes if rows else [])


def steps_of(ranking: Ranking, metric: str = "recall_at_1") -> Table:
    """Return the steps of one ranking, a row per loss and a column per step."""
    stepped = [row for row in ranking.rows if row.steps]
    rows = [
        {"loss": row.loss} | {step.name: step.difference.get(metric) for step in row.steps}
        for row in stepped
    ]
    columns = [
        measured(step.name, form="points", digits=1, short=step.what, group=(step.name, ""))
        for step in (stepped[0].steps if stepped else [])
    ]
    missing = [
        f"{row.loss}, {step.name}: {step.why_not}."
        for row in stepped
        for step in row.steps
        if step.why_not
    ]
    title = TITLE.format(metric=metric_label(metric))
    return table(
        "steps", title, [Column("loss"), *columns], rows, notes=[*_notes(ranking), *missing]
    )


def _notes(ranking: Ranking) -> list[str]:
    measured_steps = {step.name for row in ranking.rows for step in row.steps}
    if not measured_steps:
        return []
    where = f" under {ranking.protocol}" if ranking.several else ""
    return [
        f"Difference with its {LEVEL:.0%} interval, paired by test class and replicate. Tuned: "
        "with the feedback of its own setup.",
        BY_ITSELF,
        *(
            f"{name}{where}: no number, because that takes {needs}."
            for name, needs in NEEDS.items()
            if name not in measured_steps
        ),
    ]
