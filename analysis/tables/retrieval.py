"""Retrieval: recall at every k, R-Precision and MAP@R of each loss (thesis tables 6 to 10 and 17 to 21)."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from analysis.tables.frames import groups
from analysis.tables.number import metric_label
from analysis.tables.scores import KEYS, SETUPS
from analysis.tables.table import PLACE, Cell, Column, Row, Table, measured, table

SHOWN = re.compile(r"(recall_at_\d+|r_precision|map_at_r)")


def retrieval(found: pd.DataFrame) -> Table:
    """found: scores. Setups stand apart, each best first; a recall that falls with k cannot be right and is marked."""
    mine = found[(found["what"] == "") & found["metric"].map(lambda name: bool(SHOWN.fullmatch(name)))]
    metrics = sorted(mine["metric"].unique(), key=_order)
    rows = [about | doubted(dict(zip(part["metric"], part["cell"], strict=True))) for about, part in groups(mine, KEYS)]
    columns = [*PLACE, Column("setup"), Column("loss"), *(measured(name, metric_label(name)) for name in metrics)]
    return table("retrieval", "Retrieval on the test classes, in percent", columns, sorted(rows, key=_best_first))


def doubted(cells: dict[str, Cell]) -> dict[str, Cell]:
    """A larger k can only find more: what falls is marked."""
    found, highest, at = dict(cells), -1.0, ""
    for name in sorted((name for name in cells if name.startswith("recall_at_")), key=_order):
        cell = cells[name]
        if cell.value < highest:
            why = f"{metric_label(name)} of {100 * cell.value:.2f} is below {metric_label(at)} of {100 * highest:.2f}"
            found[name] = Cell(**{**vars(cell), "doubt": why})
        else:
            highest, at = cell.value, name
    return found


def _order(metric: str) -> tuple[int, int]:
    number = re.search(r"\d+$", metric)
    return (0, int(number[0])) if number else (1, ["r_precision", "map_at_r"].index(metric))


def _best_first(row: Row) -> tuple[Any, ...]:
    place = [str(row[key]) if key != "embedding_size" else int(row[key]) for key in ("dataset", "backbone", "embedding_size")]
    cell = row.get("recall_at_1")
    return (*place, SETUPS[row["setup"]], row["protocol"], -cell.value if cell else 0.0)
