"""A paper's values beside a study's: the published number and the gap next to every cell that both have."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analysis.tables.table import Cell, Column, Entry, Row, Table
from search_spaces.own import untagged

IGNORED = ("protocol", "setup", "rule")  # a paper's setup is told by its marks
NUMBERS = ("percent", "points", "number", "count")

Key = tuple[Entry, ...]


def with_published(ours: Table, theirs: Table, paper: str) -> Table:
    """Rows meet where their words are equal; of several published ones the one of the same setup counts, else the first."""
    both = [column.name for column in ours.columns if column.name in {other.name for other in theirs.columns}]
    words = [column.name for column in ours.columns if _names(column) and column.name in both]
    numbers = [column for column in ours.columns if not _names(column) and column.form in NUMBERS and column.name in both]
    there: dict[Key, list[Row]] = {}
    for row in theirs.rows:
        there.setdefault(_key(row, words), []).append(row)
    rows = []
    for row in ours.rows:
        found = sorted(there.get(_key(row, words), []), key=lambda other: other.get("setup") != row.get("setup"))
        rows.append({**row, **(_beside(row, found[0], numbers) if found else {})})
    columns = [each for column in ours.columns for each in ([column, *_more(column, paper)] if column in numbers else [column])]
    met = sum(bool(there.get(_key(row, words))) for row in ours.rows)
    note = f"{met} of {len(ours.rows)} rows have a counterpart in {paper}; gap: ours minus published."
    return replace(ours, columns=tuple(columns), rows=tuple(rows), notes=(*ours.notes, note))


def _names(column: Column) -> bool:
    """Whether a column says what a row is."""
    return (column.form == "text" or column.place) and column.name not in IGNORED and not column.data


def _key(row: Row, words: list[str]) -> Key:
    return tuple(untagged(str(row.get(name))) if name == "loss" else row.get(name) for name in words)


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
