"""Cross validation: validation and test score of every fold, their mean and sample standard deviation (thesis tables 12 and 13)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import curves_by_run, groups, records
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
        Column("validation", "validation Recall@1", "percent"),
        Column("test", "test Recall@1", "percent", parts=("peeks",)),
        Column("deviation", "sample deviation", "percent"),
    ]
    return table("cross_validation", "Recall@1 by fold, in percent", columns, rows, notes=notes)


def _cells(line: dict[str, Any], peeks: bool) -> dict[str, Any]:
    return {"validation": float(line["validation"]), "test": Cell(float(line["test"]), peeks=peeks)}


def folds_of(rows: StudyRows, metric: str = "recall_at_1") -> pd.DataFrame:
    """Of every loss's own final trials with several folds, the mean over seeds; where each seed has a split of its own, fold by fold."""
    finals = rows.finals
    if finals.empty or rows.queries.empty:
        return pd.DataFrame(columns=COLUMNS)
    mine = finals[(finals["role"] == "final") & (finals["folds"] > 1)]
    read = rows.queries[rows.queries["fold"] != CONCATENATED].merge(mine[["run_id", "rule"]], on=["run_id", "rule"])
    test = read.groupby(["run_id", "fold"])[metric].mean().rename("test").reset_index()
    test["validation"] = _chosen(rows, mine, test, metric)
    joined = test.merge(mine[["run_id", "seed", *KEYS]].assign(split=mine.get("split", "")), on="run_id")
    own = joined.groupby(KEYS)["split"].transform("nunique") > 1  # fold i has other classes in every seed
    joined["fold"] = joined["fold"].where(~own, "seed " + joined["seed"].astype(str) + ", fold " + joined["fold"])
    return joined.groupby([*KEYS, "fold"], sort=False)[["validation", "test"]].mean().reset_index()[COLUMNS]


def _chosen(rows: StudyRows, mine: pd.DataFrame, test: pd.DataFrame, metric: str) -> list[float | None]:
    """Every fold's own selection score at its own chosen epoch, if its curve was kept. test: runs and folds."""
    curves = {fold: curves_by_run(rows.curves, f"fold{fold}/select/{metric}") for fold in test["fold"].unique()}
    epochs = {fold: dict(zip(mine["run_id"], mine.get(f"fold{fold}/chosen_epoch", []), strict=False)) for fold in curves}
    pairs = zip(test["run_id"], test["fold"], strict=True)
    return [curves[fold][run].get(epochs[fold].get(run)) if run in curves[fold] else None for run, fold in pairs]
