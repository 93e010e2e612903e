"""Make the table of baselines and of every reading besides a loss's own numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from analysis.ranking.measurement import Measurement, metric_label
from analysis.ranking.ranking import METRICS, Ranking
from analysis.ranking.readings import BASELINE
from analysis.tables.table import (
    COMPARISON_COLUMNS,
    Column,
    Form,
    Table,
    comparison_of,
    measured,
    table,
)

TITLE = "Beside the losses' own numbers, never ranked; in percent"
COLUMNS = [
    *COMPARISON_COLUMNS,
    *(Column(name) for name in ("loss", "setup", "what", "metric", "rule", "setting")),
    Column("value", form="percent", parts=("low", "high", "peeks", "replicates")),
    Column("difference", "minus its own", "points", parts=("low", "high", "rule", "peeks")),
]


def beside_table(found: Sequence[Ranking]) -> Table:
    """Return one row per metric of each baseline and of each other reading of a loss."""
    rows = [comparison_of(ranking) | line for ranking in found for line in _lines(ranking)]
    return table("beside", TITLE, COLUMNS, rows)


def _lines(ranking: Ranking) -> Iterator[dict[str, Any]]:
    for name, numbers in ranking.baselines.items():
        for metric, number in numbers.items():
            about = {"loss": name, "setup": BASELINE, "what": "baseline", "metric": metric}
            yield {**about, "rule": number.rule, "value": number}
    for row in ranking.rows:
        for one in row.beside:
            for metric, number in one.numbers.items():
                about = {"loss": row.loss, "setup": one.setup, "what": one.what, "metric": metric}
                about |= {"rule": number.rule, "setting": number.setting}
                yield {**about, "value": number, "difference": one.difference.get(metric)}


def baselines_of(ranking: Ranking) -> Table:
    """Return the baselines of one ranking, with a column for each metric."""
    rows = [
        {"baseline": name, "rule": numbers[METRICS[0]].rule, **_by_metric("value", numbers)}
        for name, numbers in ranking.baselines.items()
    ]
    columns = [Column("baseline"), Column("rule"), *_columns("value")]
    return table("baselines", "Baselines on the test classes, in percent", columns, rows)


def others_of(ranking: Ranking) -> Table:
    """Return the other readings of one ranking's losses, with a column for each metric."""
    rows = [
        {
            "loss": row.loss,
            "setup": one.setup,
            "what": one.what,
            "rule": one.numbers[METRICS[0]].rule,
        }
        | _by_metric("value", one.numbers)
        | _by_metric("difference", one.difference)
        for row in ranking.rows
        for one in row.beside
    ]
    columns = [
        Column("loss"),
        Column("setup"),
        Column("what", below=True),
        Column("rule"),
        *_columns("value", group="its score"),
        *_columns("difference", "points", group="minus its own"),
    ]
    return table("beside", TITLE, columns, rows)


def _columns(name: str, form: Form = "percent", *, group: str = "") -> list[Column]:
    """Return a column per metric; a terminal stacks those of a group."""
    return [
        measured(
            f"{name}_{metric}",
            metric_label(metric),
            form,
            short=metric_label(metric),
            group=(group, ""),
            below=bool(group) and metric != METRICS[0],
        )
        for metric in METRICS
    ]


def _by_metric(name: str, numbers: Mapping[str, Measurement]) -> dict[str, Any]:
    return {f"{name}_{metric}": number for metric, number in numbers.items()}
