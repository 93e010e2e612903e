"""Split ratio: what holding out more or fewer train classes does to validation and test scores (thesis table 14)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import records
from analysis.tables.scores import own
from analysis.tables.table import BACKBONE, DATASET, SIZE, Column, Table, measured, table
from analysis.tracking import StudyRows

NOTE = "Validation scores come from fewer classes than test scores, so they are higher."
ASKED = "The ratio is asked, never chosen by the test scores."
COLUMNS = [
    DATASET,
    BACKBONE,
    SIZE,
    Column("loss"),
    Column("train_classes", form="count"),
    Column("validation_classes", form="count"),
    Column("validation", "validation Recall@1", "percent"),
    measured("test", "test Recall@1"),
]


def split_ratio(lines: list[dict[str, Any]], chosen: str = ASKED) -> Table:
    """chosen: how the ratio was."""
    return table("split_ratio", "Classes held out for validation", COLUMNS, lines, notes=[f"{NOTE} {chosen}"] if lines else [])


def ratios_of(rows: StudyRows, found: pd.DataFrame) -> list[dict[str, Any]]:
    """Every fixed_validation cell of a study with its class counts; found: its scores."""
    mine = own(found)
    mine = mine[(mine["metric"] == "recall_at_1") & mine["protocol"].str.startswith("fixed_validation")]
    keys = [*AXES, "protocol", "loss"]
    lines = []
    for line in records(mine):
        trials = rows.finals[(rows.finals[keys] == [line[key] for key in keys]).all(axis=1) & (rows.finals["role"] == "final")]
        about = {key: line[key] for key in [*AXES, "loss"]}
        counts = _classes(rows.specs.get(str(trials["cell"].iloc[0]), {}))
        lines.append({**about, **counts, "validation": _validation(rows, trials), "test": line["cell"]})
    return sorted(lines, key=lambda one: (one["loss"], one.get("train_classes") or 0))


def _classes(spec: dict[str, Any]) -> dict[str, int]:
    splits = spec.get("splits") or []
    return {"train_classes": len(splits[0]["train"]), "validation_classes": len(splits[0]["select"])} if splits else {}


def _validation(rows: StudyRows, trials: pd.DataFrame) -> float | None:
    """The mean over seeds of the selection Recall@1 at each chosen epoch."""
    mine = rows.curves[rows.curves["metric"] == "select/recall_at_1"].merge(trials.reindex(columns=["run_id", "chosen_epoch"]), on="run_id")
    at = mine.loc[mine["epoch"] == mine["chosen_epoch"], "value"]
    return float(at.mean()) if len(at) else None
