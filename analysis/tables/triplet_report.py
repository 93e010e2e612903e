"""Make the triplet report: train loss, triplet accuracy, cosines and precision of every run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS
from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.tables.frames import curves_by_run, groups, records, replicate_mean
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table
from trainables.contract import LAST
from trainables.metrics.retrieval import LOSS_VALUE

PERCENT = ("triplet_accuracy", "precision_at_1", "precision_at_5", "precision_at_10")
COSINES = {"positive_cosine": "cosine anchor-positive", "negative_cosine": "cosine anchor-negative"}
PARTS = ("rule", "peeks")


def columns() -> list[Column]:
    """Return the columns of a triplet report."""
    first, *rest = [
        Column(name, name.replace("_at_", "@").replace("_", " "), "percent", parts=PARTS)
        for name in PERCENT
    ]
    cosines = [Column(name, head, "number", 4, PARTS) for name, head in COSINES.items()]
    return [
        *COMPARISON_COLUMNS,
        Column("loss"),
        Column("rule"),
        Column("train_loss", form="number", digits=4),
        Column("loss_value", "test loss", "number", 4, PARTS),
        first,
        *cosines,
        *rest,
    ]


def triplet_report(lines: list[dict[str, Any]], *notes: str) -> Table:
    """Return a row per loss and rule."""
    title = "Triplets and precision on the test classes"
    return table("triplet_report", title, columns(), lines, notes=notes)


def triplets_of(rows: StudyRows) -> list[dict[str, Any]]:
    """Return final trials by loss, at the chosen epoch and, where it was read, at the last one."""
    finals = rows.finals
    if finals.empty or not any(f"test/{name}" in finals for name in (*PERCENT, *COSINES)):
        return []
    losses = curves_by_run(rows.curves, "train/loss")
    found = []
    for about, trials in groups(
        finals[finals["role"] == "final"], [*COMPARISON_KEYS, "protocol", "loss", "rule"]
    ):
        feedback = bool(trials["peeks"].all())
        tuned = bool(trials.get("tuned", pd.Series(dtype=bool)).eq(True).any())
        # At the last epoch only a setting that was tuned on the test classes peeks.
        epochs = (("test", str(about["rule"]), feedback), ("last", LAST, feedback and tuned))
        for prefix, rule, peeks in epochs:
            means = dict(_means(trials, prefix, rule, peeks=peeks))
            if means:
                trained = {"train_loss": _train_loss(losses, trials, chosen=prefix == "test")}
                found.append({**about, "rule": rule, **trained, **means})
    return found


def _train_loss(
    losses: dict[str, pd.Series[float]], trials: pd.DataFrame, *, chosen: bool
) -> float | None:
    """Return the mean over replicates at the last epoch or at the chosen one, of each fold."""
    values: dict[str, float] = {}
    for trial in records(trials):
        known = losses.get(str(trial["run_id"]), pd.Series(dtype=float))
        curve: dict[Any, float] = dict(zip(known.index, known, strict=True))
        folds = (
            [trial.get(f"fold{fold}/chosen_epoch") for fold in range(int(trial["folds"]))]
            if trial["folds"] > 1
            else []
        )
        epochs = (folds or [trial.get("chosen_epoch")]) if chosen else [max(curve, default=None)]
        if there := [curve[epoch] for epoch in epochs if epoch in curve]:
            values[str(trial["run_id"])] = float(np.mean(there))
    return replicate_mean(trials, values)


def _means(
    trials: pd.DataFrame, prefix: str, rule: str, *, peeks: bool
) -> Iterator[tuple[str, Measurement]]:
    for name in (*PERCENT, *COSINES, LOSS_VALUE):
        known = trials.reindex(columns=[f"{prefix}/{name}"]).iloc[:, 0]
        mean = replicate_mean(trials, dict(zip(trials["run_id"], known, strict=True)))
        if mean is not None:
            yield name, Measurement(mean, rule=rule, peeks=peeks)
