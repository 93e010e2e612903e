"""Make the table of what holding out more or fewer train classes does to validation and test scores
(thesis table 14).
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS
from analysis.record.frames import StudyRows
from analysis.tables.frames import LOSS_KEYS, records, replicate_mean
from analysis.tables.scores import own
from analysis.tables.table import BACKBONE, DATASET, SIZE, Column, Table, measured, table

NOTE = "Validation scores come from fewer classes than test scores, so they are higher."
CONFIGURED = "The ratio is configured, never chosen by the test scores."
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


def split_ratio(lines: list[dict[str, Any]], chosen: str = CONFIGURED) -> Table:
    """Return a row per loss and ratio. chosen: how the ratio was chosen."""
    return table(
        "split_ratio",
        "Classes held out for validation",
        COLUMNS,
        lines,
        notes=[f"{NOTE} {chosen}"] if lines else [],
    )


def ratios_of(rows: StudyRows, found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return every fixed_validation cell of a study with its class counts. found: its scores."""
    mine = own(found)
    mine = mine[
        (mine["metric"] == "recall_at_1") & mine["protocol"].str.startswith("fixed_validation")
    ]
    lines = []
    for line in records(mine):
        trials = rows.finals[
            (rows.finals[LOSS_KEYS] == [line[key] for key in LOSS_KEYS]).all(axis=1)
            & (rows.finals["role"] == "final")
        ]
        about = {key: line[key] for key in [*COMPARISON_KEYS, "loss"]}
        counts = _classes(rows.specs.get(str(trials["cell"].iloc[0]), {}))
        lines.append(
            {
                **about,
                **counts,
                "validation": _validation(rows, trials),
                "test": line["measurement"],
            }
        )
    return sorted(lines, key=lambda one: (one["loss"], one.get("train_classes") or 0))


def _classes(spec: dict[str, Any]) -> dict[str, int]:
    splits = spec.get("splits") or []
    return (
        {"train_classes": len(splits[0]["train"]), "validation_classes": len(splits[0]["select"])}
        if splits
        else {}
    )


def _validation(rows: StudyRows, trials: pd.DataFrame) -> float | None:
    """Return the mean over replicates of the selection Recall@1 at each chosen epoch."""
    mine = rows.curves[rows.curves["metric"] == "select/recall_at_1"].merge(
        trials.reindex(columns=["run_id", "chosen_epoch"]), on="run_id"
    )
    at = mine[mine["epoch"] == mine["chosen_epoch"]]
    return replicate_mean(trials, dict(zip(at["run_id"], at["value"], strict=True)))
