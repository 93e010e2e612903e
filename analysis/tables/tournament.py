"""Make the tournament: each loss's rank in every cell, their total, mean and sample standard
deviation (thesis table 11).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.ranking.measurement import Measurement, metric_label
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import Column, Table, table

PARTS = ("peeks",)


def tournament(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """Return the ranks of every loss; the default setup, which peeks, has a tournament of its own.

    found: scores.
    """
    mine = own(found)
    mine = mine[mine["metric"] == metric]
    grids = {str(setup): ranks(part) for setup, part in mine.groupby("setup")}
    names = list(dict.fromkeys(name for grid in grids.values() for name in grid.columns))
    rows = [
        line
        for setup in sorted(grids, key=SETUPS.__getitem__)
        for line in _standings(setup, grids[setup])
    ]
    columns = [
        Column("setup", in_title=True),
        Column("loss"),
        *(Column(name, name, "count", parts=PARTS) for name in names),
        Column("total", form="count", parts=PARTS),
        Column("mean", "mean rank", "number", 2, PARTS),
        Column("deviation", "sample deviation", "number", 2, PARTS),
    ]
    return table(
        "tournament",
        f"Tournament of losses, ranks by {metric_label(metric)}",
        columns,
        rows,
        notes=_notes(grids),
    )


def ranks(scores: pd.DataFrame) -> pd.DataFrame:
    """Return ranks, losses down, cells across; 1 is best, equal losses share their mean rank."""
    return matches(scores).rank(ascending=False)


def matches(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the scores of one setup, losses down, cells across, without cells of a single loss."""
    if scores.empty:
        return pd.DataFrame()
    values = scores.assign(value=[number.value for number in scores["measurement"]])
    values = values.assign(match=[_match(row, values) for _, row in values.iterrows()])
    grid = values.pivot_table(index="loss", columns="match", values="value", sort=False)
    return grid.loc[:, grid.notna().sum() > 1]


def _match(row: pd.Series[Any], every: pd.DataFrame) -> str:
    """Name a cell dataset/backbone-size, with the protocol where there are several."""
    name = f"{row['dataset']}/{row['backbone']}-{row['embedding_size']}"
    return f"{name}/{row['protocol']}" if every["protocol"].nunique() > 1 else name


def _standings(setup: str, grid: pd.DataFrame) -> list[dict[str, Any]]:
    peeks = setup == "default"
    found: list[dict[str, Any]] = []
    for loss, mine in grid.iterrows():
        there = mine.dropna()
        if there.empty:
            continue
        sums: dict[Any, float] = {
            "total": there.sum(),
            "mean": there.mean(),
            "deviation": there.std(ddof=1),
        }
        numbers = {
            str(name): Measurement(float(value), peeks=peeks)
            for name, value in {**there.to_dict(), **sums}.items()
        }
        found.append({"setup": setup, "loss": str(loss), **numbers})
    return sorted(found, key=_mean)


def _mean(row: dict[str, Any]) -> float:
    mean = row["mean"]
    assert isinstance(mean, Measurement)
    return mean.value


def _notes(grids: dict[str, pd.DataFrame]) -> list[str]:
    notes = []
    if any(grid.isna().any(axis=None) for grid in grids.values()):
        notes.append(
            "Not every loss was in every cell: totals are not comparable, and means only with care."
        )
    if any(
        grid.shape[1] > len({name.partition("/")[0] for name in grid.columns})
        for grid in grids.values()
    ):
        notes.append(
            "Cells that share a dataset are not independent: ranks over them describe, they do not "
            "prove."
        )
    return notes
