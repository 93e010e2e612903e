"""Make the table of the models of all folds as one, and each alone (the reality check)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS
from analysis.ranking.measurement import metric_label
from analysis.tables.frames import groups
from analysis.tables.scores import SETUPS
from analysis.tables.table import (
    COMPARISON_COLUMNS,
    Column,
    Row,
    Table,
    as_reality_prints,
    measured,
    table,
)
from trainables.contract import CONCATENATED

SHOWN = ("recall_at_1", "r_precision", "map_at_r")
KEYS = [*COMPARISON_KEYS, "protocol", "setup", "loss"]


def concatenated(found: pd.DataFrame) -> Table:
    """Return a row per loss with folds. found: scores."""
    mine = found[found["metric"].isin(SHOWN) & found["what"].isin(["", CONCATENATED])]
    rows: list[dict[str, Any]] = []
    for about, part in groups(mine, KEYS):
        if not part["what"].eq(CONCATENATED).any():
            continue
        names = [
            f"{what or 'separated'}_{metric}"
            for what, metric in zip(part["what"], part["metric"], strict=True)
        ]
        rows.append({**about, **dict(zip(names, part["measurement"], strict=True))})
    sides = [(side, name) for side in (CONCATENATED, "separated") for name in SHOWN]
    columns = [
        *COMPARISON_COLUMNS,
        Column("loss"),
        *(measured(f"{side}_{name}", f"{side} {metric_label(name)}") for side, name in sides),
    ]
    title = "Models of all folds as one, and each alone; test classes, in percent"
    return as_reality_prints(table("concatenated", title, columns, sorted(rows, key=_order)))


def _order(row: Row) -> tuple[str, int]:
    """Sort the untrained network first, and leave the rest in order."""
    return str(row["dataset"]), SETUPS.get(str(row["setup"]), 3) % 2
