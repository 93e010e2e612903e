"""Make the table of compute spent: trials, epochs, hours and how trials ended, by loss and role."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.record.frames import StudyRows
from analysis.tables.frames import records
from analysis.tables.table import Column, Table, table
from trainables.contract import UNTRAINED

COLUMNS = [
    Column("loss"),
    Column("role"),
    Column("replicates", form="count"),
    Column("trials", form="count"),
    Column("epochs", form="count"),
    Column("hours", "hours of epochs", "number", 2),
    Column("stopped_early", form="count"),
    Column("out_of_patience", form="count"),
    Column("diverged", form="count"),
    Column("out_of_memory", form="count"),
    Column("stalled", form="count"),
    Column("failed", form="count"),
    Column("unfinished", form="count"),
]
NOTE = (
    "Hours: what epochs took in their slots, without starting trials, reading test classes and "
    "pauses of the study. Out of patience: the selection score had not grown for `patience` epochs."
    " Stalled: no progress in three tries."
)
ENDS = (
    *("stopped early", "out of patience", "diverged", "out of memory"),
    *("stalled", "failed", "unfinished"),
)


def compute(rows: StudyRows) -> Table:
    """Return a row per loss and role, and one for all."""
    if rows.trials.empty:
        return table("compute", "Compute spent", COLUMNS, [])
    epochs = rows.curves[rows.curves["metric"] == "seconds"].groupby("run_id")
    spent = rows.trials.assign(
        epochs=rows.trials["run_id"].map(epochs["epoch"].nunique()).fillna(0),
        hours=rows.trials["run_id"].map(epochs["value"].sum()).fillna(0) / 3600,
        ended=[ended(trial) for trial in records(rows.trials)],
        role=rows.trials["role"].where(rows.trials["rule"] != UNTRAINED, "baseline"),
    )
    lines = [
        _line(str(loss), str(role), part)
        for (loss, role), part in spent.groupby(["loss", "role"], sort=False)
    ]
    return table(
        "compute", "Compute spent", COLUMNS, [*lines, _line("all", "all", spent)], notes=[NOTE]
    )


def ended(trial: dict[str, Any]) -> str:
    """Return 'finished' or one of ENDS."""
    known = trial.get("outcome")
    if known in ("finished", *ENDS):
        return str(known)
    return (
        "failed"
        if trial["status"] == "FAILED"
        else "finished"
        if trial["status"] == "FINISHED"
        else "unfinished"
    )


def _line(loss: str, role: str, part: pd.DataFrame) -> dict[str, Any]:
    counts: dict[str, Any] = {
        end.replace(" ", "_"): int((part["ended"] == end).sum()) for end in ENDS
    }
    sums: dict[str, Any] = {
        "replicates": part["replicate"].nunique(),
        "trials": len(part),
        "epochs": int(part["epochs"].sum()),
        "hours": float(part["hours"].sum()),
    }
    return {"loss": loss, "role": role, **sums, **counts}
