"""Improvement: losses in order of their year, and how far each is ahead of contrastive and of triplet, relatively (seed 003)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from analysis.places import AXES
from analysis.tables.frames import groups
from analysis.tables.number import metric_label
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import PLACE, Cell, Column, Table, table
from search_spaces import find_card
from search_spaces.own import untagged

# The first that is there is what others are held against: sources mean different losses by one name.
BASES = {"contrastive": ("contrastive", "contrastive_euclidean"), "triplet": ("triplet", "triplet_euclidean")}
KEYS = [*AXES, "protocol", "setup"]


def improvement(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """found: scores. Relative: (loss - base) / base."""
    mine = own(found)
    mine = mine[mine["metric"] == metric]
    rows = [line for about, part in groups(mine, KEYS) for line in _of_place(about, part)]
    ahead = [Column(f"over_{base}", f"over {base}", "points", 1, ("peeks",)) for base in BASES]
    score = Column("score", metric_label(metric), "percent", parts=("rule", "peeks"))
    columns = [*PLACE, Column("setup", place=True), Column("year", form="count"), Column("loss"), score, *ahead]
    title = f"Losses by year, and their relative improvement in {metric_label(metric)}, in percent"
    rows.sort(key=lambda row: (*(str(row[axis]) for axis in ("dataset", "backbone")), row["embedding_size"], SETUPS[row["setup"]]))
    return table("improvement", title, columns, rows, notes=_notes(mine))


def base_of(base: str, losses: Iterable[str]) -> str | None:
    """Whom the others are held against: the first of its variants that is there, a tagged one too."""
    there = list(losses)
    return next((loss for name in BASES[base] for loss in there if ":" not in loss and untagged(loss) == name), None)


def _notes(mine: pd.DataFrame) -> list[str]:
    """Which variant stands for a base, where it is not the one of that name."""
    found = {(base, name) for _, part in groups(mine, KEYS) for base in BASES if (name := base_of(base, part["loss"])) and name != base}
    return [f"over {base}: that is {name} here." for base, name in sorted(found)]


def year(loss: str) -> int | None:
    """None: a loss of someone's own that is not at hand."""
    try:
        return find_card(loss).year
    except ValueError:
        return None


def _of_place(about: dict[str, Any], part: pd.DataFrame) -> Iterator[dict[str, Any]]:
    cells: dict[str, Cell] = dict(zip(part["loss"], part["cell"], strict=True))
    bases = {base: cells[name] if (name := base_of(base, cells)) else None for base in BASES}
    for loss in sorted(cells, key=lambda name: (year(name) or 9999, name)):
        cell = cells[loss]
        ahead: dict[str, Any] = {
            f"over_{base}": Cell(cell.value / own.value - 1, peeks=cell.peeks or own.peeks) if own and own.value else None
            for base, own in bases.items()
        }
        yield {**about, "year": year(loss), "loss": loss, "score": cell, **ahead}
