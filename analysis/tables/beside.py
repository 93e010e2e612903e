"""A paper's values beside a study's: the published number and the gap next to every cell that both have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from analysis.tables.table import Cell, Column, Entry, Row, Table
from search_spaces.own import untagged

IGNORED = ("protocol", "setup", "rule")  # a paper's setup is told by its marks
NUMBERS = ("percent", "points", "number", "count")


def with_published(ours: Table, theirs: Table, paper: str) -> Table:
    """Rows meet where their words are equal, as far as the paper says them; the nearest of several counts."""
    both = [column.name for column in ours.columns if column.name in {other.name for other in theirs.columns}]
    words = [column.name for column in ours.columns if _names(column) and column.name in both]
    numbers = [column for column in ours.columns if not _names(column) and column.form in NUMBERS and column.name in both]
    found = [_counterpart(row, theirs.rows, words) for row in ours.rows]
    rows = [{**row, **(_beside(row, other, numbers) if other else {})} for row, other in zip(ours.rows, found, strict=True)]
    columns = [each for column in ours.columns for each in ([column, *_more(column, paper)] if column in numbers else [column])]
    note = f"{sum(other is not None for other in found)} of {len(ours.rows)} rows have a counterpart in {paper}; gap: ours minus published."
    return replace(ours, columns=tuple(columns), rows=tuple(rows), notes=(*ours.notes, note))


def _counterpart(row: Row, others: Sequence[Row], words: list[str]) -> Row | None:
    """Best the same tag, then the same setup and rule, which a paper's marks tell."""
    there = [other for other in others if all(_meets(name, row.get(name), other.get(name)) for name in words)]
    return min(there, key=lambda other: [other.get(name) != row.get(name) for name in ("loss", *IGNORED)], default=None)


def _meets(name: str, mine: Entry, theirs: Entry) -> bool:
    """What a paper does not say fits everything; a tagged loss is met by the same one without its tag."""
    return theirs is None or mine == theirs or (name == "loss" and untagged(str(mine)) == theirs)


def _names(column: Column) -> bool:
    """Whether a column says what a row is."""
    return (column.form == "text" or column.place) and column.name not in IGNORED and not column.data


def _more(column: Column, paper: str) -> tuple[Column, Column]:
    form = "points" if column.form in ("percent", "points") else column.form
    return (
        Column(f"{column.name}_published", f"{column.title} {paper}", column.form, column.digits, ("peeks", "doubt")),
        Column(f"{column.name}_gap", f"{column.title} gap", form, column.digits, ("peeks",)),
    )


def _beside(row: Row, other: Row, numbers: list[Column]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in numbers:
        ours, theirs = _cell(Table.entry(row, column)), _cell(Table.entry(other, column))
        if theirs:
            found[f"{column.name}_published"] = theirs
        if ours and theirs:
            found[f"{column.name}_gap"] = Cell(ours.value - theirs.value, peeks=ours.peeks or theirs.peeks)
    return found


def _cell(entry: Entry) -> Cell | None:
    if entry is None or isinstance(entry, str):
        return None
    return entry if isinstance(entry, Cell) else Cell(float(entry))
