"""Make the table of recall at every k, R-Precision and MAP@R of each loss (thesis tables 6 to 10
and 17 to 21).
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.ranking.measurement import Measurement, metric_label
from analysis.tables.frames import groups
from analysis.tables.scores import KEYS, SETUPS
from analysis.tables.table import COMPARISON_COLUMNS, Column, Row, Table, measured, table

SHOWN = re.compile(r"(recall_at_\d+|r_precision|map_at_r)")


def retrieval(found: pd.DataFrame) -> Table:
    """Return each setup's losses best first; a recall that falls with k is marked as wrong.

    found: scores.
    """
    mine = found[
        (found["what"] == "") & found["metric"].map(lambda name: bool(SHOWN.fullmatch(name)))
    ]
    metrics = sorted(mine["metric"].unique(), key=_order)
    rows = [
        about | doubted(dict(zip(part["metric"], part["measurement"], strict=True)))
        for about, part in groups(mine, KEYS)
    ]
    columns = [
        *COMPARISON_COLUMNS,
        Column("setup"),
        Column("loss"),
        *(measured(name, metric_label(name)) for name in metrics),
    ]
    return table(
        "retrieval",
        "Retrieval on the test classes, in percent",
        columns,
        sorted(rows, key=_best_first),
    )


def doubted(numbers: dict[str, Measurement]) -> dict[str, Measurement]:
    """Mark every recall that falls with k: a larger k can only find more."""
    found, highest, at = dict(numbers), -1.0, ""
    for name in sorted((name for name in numbers if name.startswith("recall_at_")), key=_order):
        number = numbers[name]
        if number.value < highest:
            doubt = (
                f"{metric_label(name)} of {100 * number.value:.2f} is below {metric_label(at)} of "
                f"{100 * highest:.2f}"
            )
            found[name] = replace(number, doubt=doubt)
        else:
            highest, at = number.value, name
    return found


def _order(metric: str) -> tuple[int, int]:
    number = re.search(r"\d+$", metric)
    return (0, int(number[0])) if number else (1, ["r_precision", "map_at_r"].index(metric))


def _best_first(row: Row) -> tuple[Any, ...]:
    keys = (str(row["dataset"]), str(row["backbone"]), int(row["embedding_size"]))
    recall = row.get("recall_at_1")
    return (*keys, SETUPS[row["setup"]], row["protocol"], -recall.value if recall else 0.0)
