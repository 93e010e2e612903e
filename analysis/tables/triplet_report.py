"""The triplet report: train loss, triplet accuracy, cosines and precision of every run (seed 000's tables I to XX)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import curves_by_run, groups, records
from analysis.tables.table import PLACE, Cell, Column, Table, table
from analysis.tracking import StudyRows
from trainables.contract import LAST

PERCENT = ("triplet_accuracy", "precision_at_1", "precision_at_5", "precision_at_10")
COSINES = {"positive_cosine": "cosine anchor-positive", "negative_cosine": "cosine anchor-negative"}
PARTS = ("rule", "peeks")


def columns() -> list[Column]:
    first, *rest = [Column(name, name.replace("_at_", "@").replace("_", " "), "percent", parts=PARTS) for name in PERCENT]
    cosines = [Column(name, head, "number", 4, PARTS) for name, head in COSINES.items()]
    return [*PLACE, Column("loss"), Column("rule"), Column("train_loss", form="number", digits=4), first, *cosines, *rest]


def triplet_report(lines: list[dict[str, Any]]) -> Table:
    return table("triplet_report", "Triplets and precision on the test classes", columns(), lines)


def triplets_of(rows: StudyRows) -> list[dict[str, Any]]:
    """Final trials by place and loss, at the chosen epoch and, where it was read, at the last one."""
    finals = rows.finals
    if finals.empty or not any(f"test/{name}" in finals for name in (*PERCENT, *COSINES)):
        return []
    losses = curves_by_run(rows.curves, "train/loss")
    found = []
    for about, trials in groups(finals[finals["role"] == "final"], [*AXES, "protocol", "loss", "rule"]):
        feedback = bool(trials["peeks"].all())
        on_test = feedback and bool(trials.get("tuned", pd.Series(dtype=bool)).eq(True).any())  # the setting, too
        for place, rule, peeks in (("test", str(about["rule"]), feedback), ("last", LAST, on_test)):
            means = dict(_means(trials, place, rule, peeks=peeks))
            if means:
                trained = {"train_loss": _train_loss(losses, trials, chosen=place == "test")}
                found.append({**about, "rule": rule, **trained, **means})
    return found


def _train_loss(losses: dict[str, pd.Series[float]], trials: pd.DataFrame, *, chosen: bool) -> float | None:
    """The mean over seeds at their last epoch, or at their chosen one; of folds at each one's chosen epoch."""
    values: list[float] = []
    for trial in records(trials):
        known = losses.get(str(trial["run_id"]), pd.Series(dtype=float))
        curve: dict[Any, float] = dict(zip(known.index, known, strict=True))
        folds = [trial.get(f"fold{fold}/chosen_epoch") for fold in range(int(trial["folds"]))] if trial["folds"] > 1 else []
        epochs = (folds or [trial.get("chosen_epoch")]) if chosen else [max(curve, default=None)]
        values += [float(np.mean(there))] if (there := [curve[epoch] for epoch in epochs if epoch in curve]) else []
    return float(np.mean(values)) if values else None


def _means(trials: pd.DataFrame, place: str, rule: str, *, peeks: bool) -> Iterator[tuple[str, Cell]]:
    for name in (*PERCENT, *COSINES):
        values = trials.get(f"{place}/{name}", pd.Series(dtype=float)).dropna().astype(float)
        if len(values):
            yield name, Cell(float(values.mean()), rule=rule, peeks=peeks)
