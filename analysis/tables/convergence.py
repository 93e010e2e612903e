"""Convergence: what the best epoch is ahead of the last and of the validation-chosen one, and how soon a loss is near its best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import curves_by_run, groups
from analysis.tables.number import metric_label
from analysis.tables.ranking import Ranking
from analysis.tables.table import PLACE, Cell, Column, Table, measured, table
from analysis.tracking import StudyRows

NEAR = 0.01  # one point
KEYS = [*AXES, "protocol", "loss"]
PARTS = ("rule", "peeks")
NOTES = [
    "peak minus last: on the classes that choose the epoch, which under the default setup are the test classes (*).",
    "peak minus validation-chosen: best-on-test* of the default setup minus the loss's own honest test number;"
    " it holds the other setting and fewer train classes, too. Its interval is that of the ranking: paired, over test classes and seeds.",
    "All else is a mean over seeds without an interval: epochs leave no rows per query, so the variation of classes is not known.",
    "near: first epoch within one point of the trial's best.",
]


def convergence(rows: StudyRows, found: Sequence[Ranking], metric: str = "recall_at_1") -> Table:
    """found: the rankings of the same study."""
    columns = [
        *PLACE,
        Column("loss"),
        Column("seeds", form="count"),
        Column("epochs", form="count"),
        Column("peak", f"peak {metric_label(metric)}", "percent", 1, PARTS),
        Column("peak_minus_last", form="points", digits=1, parts=PARTS),
        measured("peak_minus_chosen", "peak minus validation-chosen", "points", digits=1),
        Column("near", "epochs to within a point", "number", 1),
        Column("best_epoch", form="number", digits=1),
    ]
    lines = list(_lines(rows, found, metric))
    return table("convergence", "Convergence of final trials", columns, lines, notes=NOTES if lines else [])


def _lines(rows: StudyRows, found: Sequence[Ranking], metric: str) -> Iterator[dict[str, Any]]:
    finals = rows.finals
    if finals.empty or rows.curves.empty:
        return
    curves = curves_by_run(rows.curves, f"select/{metric}")
    mine = finals[(finals["role"] == "final") & finals["run_id"].isin(curves)]
    for about, trials in groups(mine, KEYS):
        shapes = pd.DataFrame([_shape(curves[run]) for run in trials["run_id"]]).mean()
        peeks, rule = bool(trials["peeks"].iloc[0]), str(trials["rule"].iloc[0])
        peaks = {"peak": shapes["peak"], "peak_minus_last": shapes["peak"] - shapes["last"]}
        yield {
            **about,
            "seeds": len(trials),
            "epochs": float(shapes["epochs"]),
            **{name: Cell(value, rule=rule, peeks=peeks) for name, value in peaks.items()},
            "peak_minus_chosen": None if peeks else _against(about, found, metric),
            "near": float(shapes["near"]),
            "best_epoch": float(shapes["best_epoch"]),
        }


def _shape(curve: pd.Series[float]) -> dict[str, float]:
    """curve: values by epoch, in order."""
    best = curve.max()
    near, at = curve.index[curve >= best - NEAR - 1e-12][0], curve.index[curve == best][0]
    return {"peak": best, "last": curve.iloc[-1], "near": near, "best_epoch": at, "epochs": curve.index.max()}


def _against(about: dict[str, Any], found: Sequence[Ranking], metric: str) -> Cell | None:
    """The default setup's best epoch minus the honest number of the same loss and place: the ranking's difference the other way."""
    here = [ranking for ranking in found if all(getattr(ranking, column.name) == about[column.name] for column in PLACE)]
    gaps = [row.difference[metric] for ranking in here for row in ranking.rows if row.loss == about["loss"] and metric in row.difference]
    return Cell(-gaps[0].value, -gaps[0].high, -gaps[0].low, gaps[0].rule, gaps[0].peeks) if gaps else None
