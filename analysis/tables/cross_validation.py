"""Cross validation: validation and test score of every fold, their mean and sample standard deviation (thesis tables 12 and 13)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import groups, records
from analysis.tables.table import PLACE, Cell, Column, Table, table
from analysis.tracking import StudyRows
from trainables.contract import CONCATENATED

KEYS = [*AXES, "protocol", "loss"]
COLUMNS = [*KEYS, "fold", "validation", "test"]
ALL = "all"


def cross_validation(folds: pd.DataFrame, *, peeks: bool = False) -> Table:
    """folds: one row per loss and fold, shares from 0 to 1. A loss with a single fold has no deviation."""
    rows: list[dict[str, Any]] = []
    notes = []
    for about, part in groups(folds, KEYS):
        rows += [{**about, "fold": str(one["fold"]), **_cells(one, peeks)} for one in records(part)]
        means = {name: part[name].mean() for name in ("validation", "test")}
        rows.append({**about, "fold": ALL, **_cells(means, peeks), "deviation": part["test"].std(ddof=1)})
        paired = part[["validation", "test"]].dropna()
        if len(paired) > 2 and (paired.nunique() > 1).all():
            agree = paired["validation"].corr(paired["test"], method="spearman")
            notes.append(f"{about['loss']}: rank correlation of validation and test over {len(paired)} folds {agree:+.2f}.")
    columns = [
        *PLACE,
        Column("loss"),
        Column("fold"),
        Column("validation", "validation R@1", "percent"),
        Column("test", "test R@1", "percent", parts=("peeks",)),
        Column("deviation", "sample deviation", "percent"),
    ]
    return table("cross_validation", "Recall@1 by fold, in percent", columns, rows, notes=notes)


def _cells(line: dict[str, Any], peeks: bool) -> dict[str, Any]:
    return {"validation": float(line["validation"]), "test": Cell(float(line["test"]), peeks=peeks)}


def folds_of(rows: StudyRows, metric: str = "recall_at_1") -> pd.DataFrame:
    """Of every loss's own final trials with several folds, the mean over seeds: fold i has the same classes in all of them."""
    finals = rows.finals
    if finals.empty or rows.queries.empty:
        return pd.DataFrame(columns=COLUMNS)
    mine = finals[(finals["role"] == "final") & (finals["folds"] > 1)]
    read = rows.queries[rows.queries["fold"] != CONCATENATED].merge(mine[["run_id", "rule"]], on=["run_id", "rule"])
    test = read.groupby(["run_id", "fold"])[metric].mean().rename("test").reset_index()
    test["validation"] = [_chosen(rows, str(run), str(fold), metric) for run, fold in zip(test["run_id"], test["fold"], strict=True)]
    joined = test.merge(mine[["run_id", *KEYS]], on="run_id")
    return joined.groupby([*KEYS, "fold"], sort=False)[["validation", "test"]].mean().reset_index()[COLUMNS]


def _chosen(rows: StudyRows, run: str, fold: str, metric: str) -> float | None:
    """The fold's own selection score at its own chosen epoch, if its curve was kept."""
    trial = rows.trials[rows.trials["run_id"] == run].iloc[0]
    curves = rows.curves
    mine = curves[(curves["run_id"] == run) & (curves["metric"] == f"fold{fold}/select/{metric}")]
    at = mine.loc[mine["epoch"] == trial.get(f"fold{fold}/chosen_epoch"), "value"]
    return float(at.iloc[0]) if len(at) else None
