"""Make the table of losses by year, and how far each is relatively ahead of contrastive and of
triplet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS
from analysis.ranking.measurement import Measurement, metric_label
from analysis.tables.frames import groups
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table
from search_spaces import find_card
from search_spaces.own import untagged

# Others are compared with the first that is present: sources mean different losses by one name.
BASES = {
    "contrastive": ("contrastive", "contrastive_euclidean"),
    "triplet": ("triplet", "triplet_euclidean"),
}
KEYS = [*COMPARISON_KEYS, "protocol", "setup"]


def improvement(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """Return a row per loss, relative to the base: (loss - base) / base. found: scores."""
    mine = own(found)
    mine = mine[mine["metric"] == metric]
    rows = [line for about, part in groups(mine, KEYS) for line in _of_comparison(about, part)]
    ahead = [Column(f"over_{base}", f"over {base}", "points", 1, ("peeks",)) for base in BASES]
    score = Column("score", metric_label(metric), "percent", parts=("rule", "peeks"))
    columns = [
        *COMPARISON_COLUMNS,
        Column("setup", in_title=True),
        Column("year", form="count"),
        Column("loss"),
        score,
        *ahead,
    ]
    title = f"Losses by year, and their relative improvement in {metric_label(metric)}, in percent"
    rows.sort(
        key=lambda row: (
            *(str(row[axis]) for axis in ("dataset", "backbone")),
            row["embedding_size"],
            SETUPS[row["setup"]],
        )
    )
    return table("improvement", title, columns, rows, notes=_notes(mine))


def base_of(base: str, losses: Iterable[str]) -> str | None:
    """Return the loss that others are compared with: the first present variant of the base, tagged
    or not.
    """
    there = list(losses)
    return next(
        (
            loss
            for name in BASES[base]
            for loss in there
            if ":" not in loss and untagged(loss) == name
        ),
        None,
    )


def _notes(mine: pd.DataFrame) -> list[str]:
    """Name the variant that replaces a base where it has another name."""
    found = {
        (base, name)
        for _, part in groups(mine, KEYS)
        for base in BASES
        if (name := base_of(base, part["loss"])) and name != base
    }
    return [f"over {base}: that is {name} here." for base, name in sorted(found)]


def year(loss: str) -> int | None:
    """Return the year of a loss's paper; None for a loss that is not installed here."""
    try:
        return find_card(loss).year
    except ValueError:
        return None


def _of_comparison(about: dict[str, Any], part: pd.DataFrame) -> Iterator[dict[str, Any]]:
    numbers: dict[str, Measurement] = dict(zip(part["loss"], part["measurement"], strict=True))
    bases = {base: numbers[name] if (name := base_of(base, numbers)) else None for base in BASES}
    for loss in sorted(numbers, key=lambda name: (year(name) or 9999, name)):
        number = numbers[loss]
        ahead: dict[str, Any] = {
            f"over_{base}": Measurement(
                number.value / own.value - 1, peeks=number.peeks or own.peeks
            )
            if own and own.value
            else None
            for base, own in bases.items()
        }
        yield {**about, "year": year(loss), "loss": loss, "score": number, **ahead}
