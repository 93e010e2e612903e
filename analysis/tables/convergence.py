"""Make the table of convergence: how far the best epoch is ahead of the last and of the chosen one,
and how soon it comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.ranking.measurement import Measurement, metric_label
from analysis.ranking.ranking import Ranking
from analysis.record.frames import StudyRows
from analysis.tables.frames import LOSS_KEYS, curves_by_run, groups
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, comparison_of, measured, table

POINT = 0.01
PARTS = ("rule", "peeks")
NOTES = [
    "peak minus last: on the classes that choose the epoch, which under the default setup are the "
    "test classes (*).",
    "peak minus validation-chosen: best-on-test* of the default setup minus the loss's own honest "
    "test number; it includes the other setting and fewer train classes. Its interval is that of "
    "the ranking: paired by test class and replicate.",
    "All else is a mean over replicates without an interval: epochs leave no rows per query, so "
    "the variation of classes is unknown.",
    "near: first epoch within one point of the trial's best.",
]


def convergence(rows: StudyRows, found: Sequence[Ranking], metric: str = "recall_at_1") -> Table:
    """Return a row per loss and protocol. found: the rankings of the same study."""
    columns = [
        *COMPARISON_COLUMNS,
        Column("loss"),
        Column("replicates", form="count"),
        Column("trials", form="count"),
        Column("epochs", form="count"),
        Column("peak", f"peak {metric_label(metric)}", "percent", 1, PARTS),
        Column("peak_minus_last", form="points", digits=1, parts=PARTS),
        measured("peak_minus_chosen", "peak minus validation-chosen", "points", digits=1),
        Column("near", "epochs to within a point", "number", 1),
        Column("best_epoch", form="number", digits=1),
    ]
    lines = list(_lines(rows, found, metric))
    return table(
        "convergence", "Convergence of final trials", columns, lines, notes=NOTES if lines else []
    )


def _lines(rows: StudyRows, found: Sequence[Ranking], metric: str) -> Iterator[dict[str, Any]]:
    finals = rows.finals
    if finals.empty or rows.curves.empty:
        return
    curves = curves_by_run(rows.curves, f"select/{metric}")
    mine = finals[(finals["role"] == "final") & finals["run_id"].isin(curves)]
    for about, trials in groups(mine, LOSS_KEYS):
        each = pd.DataFrame([_shape(curves[run]) for run in trials["run_id"]])
        shapes = each.groupby(trials["replicate"].to_numpy()).mean().mean()
        peeks, rule = bool(trials["peeks"].iloc[0]), str(trials["rule"].iloc[0])
        peaks = {"peak": shapes["peak"], "peak_minus_last": shapes["peak"] - shapes["last"]}
        yield {
            **about,
            "replicates": trials["replicate"].nunique(),
            "trials": len(trials),
            "epochs": float(shapes["epochs"]),
            **{name: Measurement(value, rule=rule, peeks=peeks) for name, value in peaks.items()},
            "peak_minus_chosen": None if peeks else _against(about, found, metric),
            "near": float(shapes["near"]),
            "best_epoch": float(shapes["best_epoch"]),
        }


def _shape(curve: pd.Series[float]) -> dict[str, float]:
    """Measure one curve. curve: values by epoch, in order."""
    best = curve.max()
    near, at = curve.index[curve >= best - POINT - 1e-12][0], curve.index[curve == best][0]
    return {
        "peak": best,
        "last": curve.iloc[-1],
        "near": near,
        "best_epoch": at,
        "epochs": curve.index.max(),
    }


def _against(about: dict[str, Any], found: Sequence[Ranking], metric: str) -> Measurement | None:
    """Return the default setup's best epoch minus the honest number of the same loss: the
    ranking's difference with the other sign.
    """
    gaps = (
        row.difference[metric]
        for ranking in found
        if comparison_of(ranking).items() <= about.items()
        for row in ranking.rows
        if row.loss == about["loss"] and metric in row.difference
    )
    if not (gap := next(gaps, None)):
        return None
    low, high = gap.interval
    return replace(gap, value=-gap.value, low=-high, high=-low)
