"""Losses side by side: what goes into an update, how many negatives it sees, and what share of tuples gives a gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from analysis.places import AXES
from analysis.tables.frames import groups
from analysis.tables.table import PLACE, Column, Table, table
from analysis.tracking import StudyRows
from search_spaces import LossSpace, find_card

COLUMNS = [
    *PLACE,
    Column("loss"),
    Column("year", form="count"),
    Column("kind"),
    Column("mining"),
    Column("batches"),
    Column("inputs", "images per update", "count"),
    Column("negatives", "negatives per anchor", "count"),
    Column("tuple_share", "tuples with gradient", "percent", 1),
    Column("positive_similarity", "cosine of equal pairs", "number", 2),
    Column("negative_similarity", "cosine of different pairs", "number", 2),
    Column("spread", "spread", "number", 2),
]
SEEN = ("tuple_share", "positive_similarity", "negative_similarity", "spread")
NOTES = [
    "negatives per anchor: other classes' images in the batch and its memory, or the other classes' weights or proxies.",
    "The last four are means over seeds at the last epoch, on train batches; empty where a loss has no tuples.",
]


def side_by_side(rows: StudyRows) -> Table:
    lines = list(_lines(rows))
    return table("side_by_side", "Losses side by side", COLUMNS, lines, notes=NOTES if lines else [])


def _lines(rows: StudyRows) -> Iterator[dict[str, Any]]:
    if rows.finals.empty:
        return
    mine = rows.finals[(rows.finals["role"] == "final") & (rows.finals["rule"] != "untrained")]
    keys = [*AXES, "protocol", "loss"]
    for about, trials in groups(mine, keys):
        seen = {name: float(trials[f"train/{name}"].astype(float).mean()) for name in SEEN if f"train/{name}" in trials}
        yield {**about, **_card(str(about["loss"]), rows.specs.get(str(trials["cell"].iloc[0]), {})), **seen}


def _card(loss: str, spec: dict[str, Any]) -> dict[str, Any]:
    """What a loss's card and its spec say; a loss of someone's own may not be at hand here."""
    training = spec.get("training", {})
    try:
        card = find_card(loss)
    except ValueError:
        return {"inputs": training.get("batch_size")}
    said: dict[str, Any] = {"year": card.year, "kind": card.kind, "mining": re.split("[:,]", card.mining)[0]}
    if not training:
        return {**said, "batches": card.batches}
    batches = training["batches"] or card.batches
    return {**said, "batches": batches, "inputs": training["batch_size"], "negatives": _negatives(card, spec, batches)}


def _negatives(card: LossSpace, spec: dict[str, Any], batches: str) -> int:
    training = spec["training"]
    if card.kind in ("proxy", "classification"):
        return len(spec["splits"][0]["train"]) - 1
    if batches == "triplets":
        return 1
    size, memory = int(training["batch_size"]), int(training["memory"])
    if card.per_class == 2:  # one pair of each class: the others' positives
        return size // 2 - 1
    return size - (1 if batches == "random" else card.per_class or int(training["images_per_class"])) + memory
