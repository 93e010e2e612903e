"""Make the table of effects: the mean by backbone, by embedding size and by dataset, over the cells
that all levels share.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS
from analysis.ranking.measurement import Measurement, metric_label
from analysis.statistics import LEVEL, student
from analysis.tables.frames import LOSS_KEYS
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import Column, Table, measured, table

REST = LOSS_KEYS


def effects(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """Return a row per setup, axis and level. found: scores."""
    mine = own(found)
    mine = mine[mine["metric"] == metric]
    mine = mine.assign(value=[number.value for number in mine["measurement"]])
    rows: list[dict[str, Any]] = []
    for setup, part in sorted(mine.groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]):
        rows += [line for axis in COMPARISON_KEYS for line in _levels(part, axis, str(setup))]
    columns = [
        Column("setup", in_title=True),
        Column("axis"),
        Column("level"),
        Column("cells", form="count"),
        Column("rule"),
        Column("mean", f"mean {metric_label(metric)}", "percent", parts=("rule", "peeks")),
        measured("difference", "minus the first level", "points"),
    ]
    notes = [
        "Means over the cells that every level of an axis has; an axis whose levels share none is "
        "left out.",
        f"[low, high]: {LEVEL:.0%} interval of the mean difference, Student's t over those cells "
        "as pairs; it contains how cells differ, not how test classes and replicates do, and cells "
        "that share losses or datasets are not independent.",
    ]
    return table(
        "effects",
        "Effects of backbone, embedding size and dataset",
        columns,
        rows,
        notes=notes if rows else [],
    )


def _levels(part: pd.DataFrame, axis: str, setup: str) -> Iterator[dict[str, Any]]:
    rest = [name for name in REST if name != axis]
    grid = part.pivot_table(index=rest, columns=axis, values="value").dropna()
    if grid.empty or grid.shape[1] < 2:
        return
    shared = part[part.set_index(rest).index.isin(grid.index)]
    rules = ", ".join(dict.fromkeys(number.rule for number in shared["measurement"] if number.rule))
    peeks = setup == "default"
    for level in grid.columns:
        gaps = (grid[level] - grid.iloc[:, 0]).to_numpy(float)
        low, high = (level != grid.columns[0] and student(gaps)) or (None, None)
        numbers = {
            "mean": Measurement(grid[level].mean(), rule=rules, peeks=peeks),
            "difference": Measurement(float(gaps.mean()), low, high, rule=rules, peeks=peeks),
        }
        yield {
            "setup": setup,
            "axis": axis,
            "level": str(level),
            "cells": len(grid),
            "rule": rules,
            **numbers,
        }
