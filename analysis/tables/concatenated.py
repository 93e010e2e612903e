"""Concatenated and separated: the models of all folds as one, beside the mean of each alone, with 95 % intervals (the reality check)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.tables.frames import groups
from analysis.tables.number import metric_label
from analysis.tables.scores import SETUPS
from analysis.tables.table import PLACE, Column, Row, Table, measured, table
from trainables.contract import CONCATENATED

SHOWN = ("recall_at_1", "r_precision", "map_at_r")
KEYS = ["dataset", "backbone", "embedding_size", "protocol", "setup", "loss"]


def concatenated(found: pd.DataFrame) -> Table:
    """found: scores."""
    mine = found[found["metric"].isin(SHOWN) & found["what"].isin(["", CONCATENATED])]
    rows: list[dict[str, Any]] = []
    for about, part in groups(mine, KEYS):
        if not part["what"].eq(CONCATENATED).any():
            continue
        names = [f"{what or 'separated'}_{metric}" for what, metric in zip(part["what"], part["metric"], strict=True)]
        rows.append({**about, **dict(zip(names, part["cell"], strict=True))})
    sides = [(side, name) for side in (CONCATENATED, "separated") for name in SHOWN]
    columns = [*PLACE, Column("loss"), *(measured(f"{side}_{name}", f"{side} {metric_label(name)}") for side, name in sides)]
    return table("concatenated", "Models of all folds as one, and each alone; test classes, in percent", columns, sorted(rows, key=_order))


def _order(row: Row) -> tuple[str, int]:
    return str(row["dataset"]), SETUPS.get(str(row["setup"]), 3) % 2  # the untrained network first, then as they came
