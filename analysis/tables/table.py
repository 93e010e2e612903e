"""The one shape of a table: columns that say what they hold, rows of cells, and what is said above and below."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.tables.number import Number

Form = Literal["text", "count", "percent", "points", "number"]  # percent and points are shares from 0 to 1, points are signed
INTERVAL = ("low", "high", "rule", "peeks")


@dataclass(frozen=True)
class Cell:
    """A number and what must travel with it."""

    value: float
    low: float | None = None
    high: float | None = None
    rule: str = ""
    peeks: bool = False
    seeds: int = 0
    setting: str = ""
    doubt: str = ""  # why it cannot be right

    @classmethod
    def of(cls, number: Number | None) -> Cell | None:
        if number is None:
            return None
        return cls(number.value, number.low, number.high, number.rule, number.peeks, number.seeds, number.setting)


Entry = str | int | float | Cell | None
Row = Mapping[str, Any]  # entries by column name


@dataclass(frozen=True)
class Column:
    """name: in CSV and JSON; head: for people, the name if empty. parts: what of its cells CSV has in columns of their own."""

    name: str
    head: str = ""
    form: Form = "text"
    digits: int | None = None
    parts: tuple[str, ...] = ()
    place: bool = False  # says where a row belongs: told in the title if it is the same for all rows
    data: bool = False  # for programs only: people read it elsewhere, as a rule in a head

    @property
    def title(self) -> str:
        return self.head or self.name.replace("_", " ")


def measured(name: str, head: str = "", form: Form = "percent", *, digits: int | None = None) -> Column:
    """A column of numbers with intervals and rules."""
    return Column(name, head, form, digits, parts=INTERVAL)


DATASET, BACKBONE, SIZE, PROTOCOL = (
    Column("dataset", place=True),
    Column("backbone", place=True),
    Column("embedding_size", "size", "count", place=True),
    Column("protocol", place=True),
)
PLACE = (DATASET, BACKBONE, SIZE, PROTOCOL)


@dataclass(frozen=True)
class Table:
    """rows: by column name; what a row does not have is empty. above: what is not equal between the rows; notes: below."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    above: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def cells(self) -> Iterable[Cell]:
        return (entry for row in self.rows for entry in row.values() if isinstance(entry, Cell))

    def told(self) -> Table:
        """For people: what is the same in all rows stands in the title, empty columns are left out, and marks are explained."""
        shown = [column for column in self.columns if not column.data]
        columns = [column for column in shown if any(self.entry(row, column) not in (None, "") for row in self.rows)]
        same = [column for column in columns if column.place and len({self.entry(row, column) for row in self.rows}) == 1]
        where = ", ".join(dict.fromkeys(_told(column, self.entry(self.rows[0], column)) for column in same))
        kept = tuple(column for column in columns if column not in same) if self.rows else tuple(shown)
        title = f"{self.title}: {where}" if where else self.title
        return replace(self, title=title, columns=kept, notes=(*self.notes, *self._marks()))

    def _marks(self) -> list[str]:
        found = []
        if any(cell.peeks for cell in self.cells()) and not any(note.startswith("*") for note in self.notes):
            found.append("* chosen with test feedback. Never rank it among numbers without the mark.")
        found += dict.fromkeys(f"† cannot be right: {cell.doubt}." for cell in self.cells() if cell.doubt)
        return found

    @staticmethod
    def entry(row: Row, column: Column) -> Entry:
        """What a row has in a column; not a number is nothing."""
        entry: Entry = row.get(column.name)
        if isinstance(entry, np.generic):
            return Table.entry({column.name: entry.item()}, column)
        value = entry.value if isinstance(entry, Cell) else entry
        return None if isinstance(value, float) and math.isnan(value) else entry

    def frame(self) -> pd.DataFrame:
        """Flat: a cell's parts in columns of their own, as its column asks."""
        names = [name for column in self.columns for name in (column.name, *(f"{column.name}_{part}" for part in column.parts))]
        return pd.DataFrame([self._flat(row) for row in self.rows], columns=names)

    def _flat(self, row: Row) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for column in self.columns:
            entry = self.entry(row, column)
            flat[column.name] = entry.value if isinstance(entry, Cell) else entry
            if isinstance(entry, Cell):
                flat |= {f"{column.name}_{part}": getattr(entry, part) for part in column.parts}
        return flat


def _told(column: Column, entry: Entry) -> str:
    return f"{entry} dimensions" if column is SIZE else str(entry)


def table(name: str, title: str, columns: Sequence[Column], rows: Iterable[Row], **more: Sequence[str]) -> Table:
    """Lists in place of tuples."""
    return Table(name, title, tuple(columns), tuple(rows), **{key: tuple(lines) for key, lines in more.items()})
