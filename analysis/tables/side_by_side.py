"""Make the table of what goes into an update, how many negatives it sees, and what share of tuples
gives a gradient.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from analysis.record.frames import StudyRows
from analysis.tables.frames import LOSS_KEYS, groups, replicate_mean
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table
from search_spaces import LossSpace, find_card

COLUMNS = [
    *COMPARISON_COLUMNS,
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
    "negatives per anchor: other classes' images in the batch and its memory, or the other "
    "classes' weights or proxies.",
    "The last four are means over replicates at the last epoch, on train batches; empty where a "
    "loss has no tuples.",
]


def side_by_side(rows: StudyRows) -> Table:
    """Return a row per loss and protocol."""
    lines = list(_lines(rows))
    return table(
        "side_by_side", "Losses side by side", COLUMNS, lines, notes=NOTES if lines else []
    )


def _lines(rows: StudyRows) -> Iterator[dict[str, Any]]:
    if rows.finals.empty:
        return
    mine = rows.finals[(rows.finals["role"] == "final") & (rows.finals["rule"] != "untrained")]
    for about, trials in groups(mine, LOSS_KEYS):
        seen = {
            name: replicate_mean(trials, dict(zip(trials["run_id"], known, strict=True)))
            for name in SEEN
            if (known := trials.get(f"train/{name}")) is not None
        }
        yield {
            **about,
            **_card(str(about["loss"]), rows.specs.get(str(trials["cell"].iloc[0]), {})),
            **seen,
        }


def _card(loss: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Return what a loss's card and its spec say; a user's own loss may not be installed here."""
    training = spec.get("training", {})
    try:
        card = find_card(loss)
    except ValueError:
        return {"inputs": training.get("batch_size")}
    about: dict[str, Any] = {
        "year": card.year,
        "kind": card.kind,
        "mining": re.split("[:,]", card.mining)[0],
    }
    if not training:
        return {**about, "batches": card.batches}
    batches = training["batches"] or card.batches
    return {
        **about,
        "batches": batches,
        "inputs": training["batch_size"],
        "negatives": _negatives(card, spec, batches),
    }


def _negatives(card: LossSpace, spec: dict[str, Any], batches: str) -> int:
    training = spec["training"]
    if card.kind in ("proxy", "classification"):
        return len(spec["splits"][0]["train"]) - 1
    if batches == "triplets":
        return 1
    size, memory = int(training["batch_size"]), int(training["memory"])
    if card.per_class == 2:  # one pair of each class: the others' positives
        return size // 2 - 1
    return (
        size
        - (1 if batches == "random" else card.per_class or int(training["images_per_class"]))
        + memory
    )
