"""Make the table of every fold's validation and test score, their mean and sample standard
deviation (thesis tables 12 and 13).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.tables.frames import LOSS_KEYS, curves_by_run, groups, records
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table
from trainables.contract import CONCATENATED

COLUMNS = [*LOSS_KEYS, "fold", "validation", "test"]
ALL = "all"


def cross_validation(folds: pd.DataFrame, *, peeks: bool = False) -> Table:
    """Return a row per loss and fold, and one for all folds of a loss.

    folds: one row per loss and fold, shares from 0 to 1. A single fold has no deviation.
    """
    rows: list[dict[str, Any]] = []
    notes = []
    for about, part in groups(folds, LOSS_KEYS):
        rows += [
            {**about, "fold": str(one["fold"]), **_scores(one, peeks)} for one in records(part)
        ]
        means = {name: part[name].mean() for name in ("validation", "test")}
        rows.append(
            {**about, "fold": ALL, **_scores(means, peeks), "deviation": part["test"].std(ddof=1)}
        )
        paired = part[["validation", "test"]].dropna()
        if len(paired) > 2 and (paired.nunique() > 1).all():
            agree = paired["validation"].corr(paired["test"], method="spearman")
            notes.append(
                f"{about['loss']}: rank correlation of validation and test over {len(paired)} "
                f"folds {agree:+.2f}."
            )
    columns = [
        *COMPARISON_COLUMNS,
        Column("loss"),
        Column("fold"),
        Column("validation", "validation Recall@1", "percent"),
        Column("test", "test Recall@1", "percent", parts=("peeks",)),
        Column("deviation", "sample deviation", "percent"),
    ]
    return table("cross_validation", "Recall@1 by fold, in percent", columns, rows, notes=notes)


def _scores(line: dict[str, Any], peeks: bool) -> dict[str, Any]:
    return {
        "validation": float(line["validation"]),
        "test": Measurement(float(line["test"]), peeks=peeks),
    }


def folds_of(rows: StudyRows, metric: str = "recall_at_1") -> pd.DataFrame:
    """Return the mean over replicates of each fold of a loss's own final trials; where each
    replicate has a split of its own, every replicate's folds.
    """
    finals = rows.finals
    if finals.empty or rows.queries.empty:
        return pd.DataFrame(columns=COLUMNS)
    mine = finals[(finals["role"] == "final") & (finals["folds"] > 1)]
    read = rows.queries[rows.queries["fold"] != CONCATENATED].merge(
        mine[["run_id", "rule"]], on=["run_id", "rule"]
    )
    test = read.groupby(["run_id", "fold"])[metric].mean().rename("test").reset_index()
    test["validation"] = _chosen(rows, mine, test, metric)
    joined = test.merge(
        mine[["run_id", "replicate", *LOSS_KEYS]].assign(split=mine.get("split", "")), on="run_id"
    )
    # Where splits differ, fold i has other classes in every replicate.
    own = joined.groupby(LOSS_KEYS)["split"].transform("nunique") > 1
    joined["fold"] = joined["fold"].where(
        ~own, "replicate " + joined["replicate"].astype(str) + ", fold " + joined["fold"]
    )
    scores, keys = ["validation", "test"], [*LOSS_KEYS, "fold"]
    averaged = joined.groupby([*keys, "replicate"], sort=False)[scores].mean()
    return averaged.groupby(keys, sort=False).mean().reset_index()[COLUMNS]


def _chosen(
    rows: StudyRows, mine: pd.DataFrame, test: pd.DataFrame, metric: str
) -> list[float | None]:
    """Return every fold's own selection score at its own chosen epoch, if its curve was kept.

    test: runs and folds.
    """
    curves = {
        fold: curves_by_run(rows.curves, f"fold{fold}/select/{metric}")
        for fold in test["fold"].unique()
    }
    epochs = {
        fold: dict(zip(mine["run_id"], mine.get(f"fold{fold}/chosen_epoch", []), strict=False))
        for fold in curves
    }
    pairs = zip(test["run_id"], test["fold"], strict=True)
    return [
        curves[fold][run].get(epochs[fold].get(run)) if run in curves[fold] else None
        for run, fold in pairs
    ]
