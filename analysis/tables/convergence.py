"""Convergence: what the best epoch is ahead of the last and of the validation-chosen one, and how soon a loss is near its best."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import curves_by_run, groups
from analysis.tables.scores import own
from analysis.tables.table import PLACE, Cell, Column, Table, table
from analysis.tracking import StudyRows

NEAR = 0.01  # one point
KEYS = [*AXES, "protocol", "loss"]
NOTES = [
    "peak minus last: on the classes that choose the epoch, which under the default setup are the test classes (*).",
    "peak minus validation-chosen: best-on-test* of the default setup minus the loss's own honest test number;"
    " it holds the other setting and fewer train classes, too.",
    "near: first epoch within one point of the trial's best; mean over seeds.",
]


def convergence(rows: StudyRows, found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """found: the scores of the same study."""
    columns = [
        *PLACE,
        Column("loss"),
        Column("seeds", form="count"),
        Column("epochs", form="count"),
        Column("peak", f"peak {metric}", "percent", 1, ("peeks",)),
        Column("peak_minus_last", form="points", digits=1, parts=("peeks",)),
        Column("peak_minus_chosen", "peak minus validation-chosen", "points", 1, ("peeks",)),
        Column("near", "epochs to within a point", "number", 1),
        Column("best_epoch", form="number", digits=1),
    ]
    lines = list(_lines(rows, own(found), metric))
    return table("convergence", "Convergence of final trials", columns, lines, notes=NOTES if lines else [])


def _lines(rows: StudyRows, numbers: pd.DataFrame, metric: str) -> Iterator[dict[str, Any]]:
    finals = rows.finals
    if finals.empty or rows.curves.empty:
        return
    curves = curves_by_run(rows.curves, f"select/{metric}")
    mine = finals[(finals["role"] == "final") & finals["run_id"].isin(curves)]
    for about, trials in groups(mine, KEYS):
        shapes = pd.DataFrame([_shape(curves[run]) for run in trials["run_id"]]).mean()
        peeks = bool(trials["peeks"].iloc[0])
        cells = {"peak": Cell(shapes["peak"], peeks=peeks), "peak_minus_last": Cell(shapes["peak"] - shapes["last"], peeks=peeks)}
        yield {
            **about,
            "seeds": len(trials),
            "epochs": float(shapes["epochs"]),
            **cells,
            "peak_minus_chosen": None if peeks else _against(about, numbers, metric),
            "near": float(shapes["near"]),
            "best_epoch": float(shapes["best_epoch"]),
        }


def _shape(curve: pd.Series[float]) -> dict[str, float]:
    """curve: values by epoch, in order."""
    best = curve.max()
    near, at = curve.index[curve >= best - NEAR - 1e-12][0], curve.index[curve == best][0]
    return {"peak": best, "last": curve.iloc[-1], "near": near, "best_epoch": at, "epochs": curve.index.max()}


def _against(about: dict[str, Any], numbers: pd.DataFrame, metric: str) -> Cell | None:
    """The default setup's best epoch minus the honest number of the same loss and place."""
    here = numbers[(numbers[[*AXES, "loss"]] == [about[key] for key in [*AXES, "loss"]]).all(axis=1) & (numbers["metric"] == metric)]
    default = here.loc[here["setup"] == "default", "cell"]
    honest = here.loc[(here["setup"] == "validation") & (here["protocol"] == about["protocol"]), "cell"]
    return Cell(default.iloc[0].value - honest.iloc[0].value, peeks=True) if len(default) and len(honest) else None
