"""Make the table of effects: the mean by backbone, embedding size, dataset and share of the labels,
over the cells that all levels have, and by kind of loss.
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
from search_spaces import find_card
from search_spaces.own import split_labels

REST = LOSS_KEYS
KIND = "kind of loss"
SHARE = "share of the labels"
KINDS = {"pair": "embedding", "triplet": "embedding"}  # all others: classification
CELL = [name for name in LOSS_KEYS if name != "loss"]


def effects(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """Return a row per setup, axis and level. found: scores."""
    mine = own(found)
    mine = mine[mine["metric"] == metric]
    mine = mine.assign(value=[number.value for number in mine["measurement"]])
    rows: list[dict[str, Any]] = []
    for setup, part in sorted(mine.groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]):
        for axis in COMPARISON_KEYS:
            rest = [name for name in REST if name != axis]
            rows += _levels(part, axis, str(setup), rest=rest)
        rows += _levels(_with_shares(part), SHARE, str(setup), rest=REST)
        rows += _levels(part.assign(**{KIND: part["loss"].map(_kind)}), KIND, str(setup), rest=CELL)
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
        "left out. Kinds of loss are compared by the mean over each kind's losses in a cell: "
        "embedding losses compare images, classification losses compare them with learned proxies "
        "or class weights (thesis section 4.2.4.1).",
        f"[low, high]: {LEVEL:.0%} interval of the mean difference, Student's t over those cells "
        "as pairs; it contains how cells differ, not how test classes and replicates do, and cells "
        "that share losses or datasets are not independent.",
    ]
    return table(
        "effects",
        "Effects of backbone, embedding size, dataset, labels and kind of loss",
        columns,
        rows,
        notes=notes if rows else [],
    )


def _with_shares(part: pd.DataFrame) -> pd.DataFrame:
    """Return the scores with the share of the labels that each loss saw, told by its name."""
    found = [split_labels(loss) for loss in part["loss"]]
    return part.assign(loss=[loss for loss, _ in found], **{SHARE: [share for _, share in found]})


def _kind(loss: str) -> str | None:
    """Return whether a loss compares images or classifies; None if it is not installed here."""
    try:
        return KINDS.get(find_card(loss).kind, "classification")
    except ValueError:
        return None


def _levels(
    part: pd.DataFrame, axis: str, setup: str, *, rest: list[str]
) -> Iterator[dict[str, Any]]:
    """Yield the levels of an axis, over the cells (values of `rest`) that have all of them."""
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
