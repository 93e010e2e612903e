"""The triplet report: train loss, triplet accuracy, cosines and precision of every run (seed 000's tables I to XX)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analysis.places import AXES
from analysis.tables.frames import groups
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
    mine = finals[(finals["role"] == "final")]
    keys = [*AXES, "protocol", "loss", "rule"]
    found = []
    for about, trials in groups(mine, keys):
        for place, rule in (("test", str(about["rule"])), ("last", LAST)):
            means = dict(
                _means(
                    {str(name): value for name, value in trials.mean(numeric_only=True).items()},
                    place,
                    rule,
                    peeks=place == "test" and bool(trials["peeks"].all()),
                )
            )
            if means:
                loss = {"train_loss": trials["train/loss"].astype(float).mean()} if "train/loss" in trials else {}
                found.append({**about, "rule": rule, **loss, **means})
    return found


def _means(values: dict[str, float], place: str, rule: str, *, peeks: bool) -> Iterator[tuple[str, Cell]]:
    for name in (*PERCENT, *COSINES):
        value = values.get(f"{place}/{name}")
        if value is not None and value == value:
            yield name, Cell(value, rule=rule, peeks=peeks)
