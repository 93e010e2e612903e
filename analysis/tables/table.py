"""Define the one shape of a table: columns that describe themselves, rows, and lines above and
below them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.ranking.measurement import CLOSED_NOTE, Measurement
from analysis.ranking.ranking import Ranking

# Percent and points hold shares from 0 to 1; points are signed.
Form = Literal["text", "count", "percent", "points", "number"]
Content = str | int | float | Measurement | None  # of one column in one row
Row = Mapping[str, Any]  # contents by column name
INTERVAL = ("low", "high", "rule", "peeks")
NOTHING = "–"


@dataclass(frozen=True)
class Column:
    """Describe a column.

    name: in CSV and JSON. head: for people; the name if empty. parts: fields of a measurement that
    CSV writes in columns of their own. group: the heading that neighbouring columns share on a page
    and on a terminal, and the rule of their numbers; short: the head below it.
    """

    name: str
    head: str = ""
    form: Form = "text"
    digits: int | None = None
    parts: tuple[str, ...] = ()
    in_title: bool = False  # moves into the title if it is the same in all rows
    data: bool = False  # for programs only; people read it elsewhere, such as in a head
    integer: bool = False  # CSV writes whole numbers, also where some rows have none
    group: tuple[str, str] = ("", "")
    short: str = ""
    below: bool = False  # a terminal writes it below the column to its left
    plus_minus: bool = False  # writes an even interval as the reality check does: 68.13 ± 0.31

    @property
    def title(self) -> str:
        """Return the head, or the name in words."""
        return self.head or self.name.replace("_", " ")

    def text(self, content: Content, *, interval: bool = True, to: str = ", ") -> str:
        """Return the content as people read it: percent, the marks, and the interval.

        to: separates the ends of an interval.
        """
        if content is None:
            return NOTHING
        if not isinstance(content, Measurement):
            return self._number(content) if isinstance(content, (int, float)) else content
        marks = content.marks
        if content.low is None or content.high is None:
            return self._number(content.value) + marks
        ends = to.join(self._number(end, 1) for end in content.interval)
        value = self._number(content.value, 1) + marks
        half = self._number(content.value - content.low, 1).lstrip("+")
        if self.plus_minus and half == self._number(content.high - content.value, 1).lstrip("+"):
            return f"{value} ± {half}" if interval else value
        return f"{value} [{ends}]" if interval else value

    def _number(self, value: float, usual: int | None = None) -> str:
        """Return the number in the column's digits, or in the `usual` ones if it names none."""
        digits = usual if self.digits is None else self.digits
        if self.form == "count" and value == int(value):
            return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
        if self.form in ("percent", "points"):
            # z: what rounds to zero has no minus; nor a plus, which would show a direction.
            text = f"{100 * value:z.{2 if digits is None else digits}f}"
            return f"+{text}" if self.form == "points" and float(text) > 0 else text
        return f"{value:.4g}" if digits is None else f"{value:z.{digits}f}"


def measured(
    name: str, head: str = "", form: Form = "percent", *, digits: int | None = None, **more: Any
) -> Column:
    """Return a column of measurements with their intervals, rules and marks."""
    return Column(name, head, form, digits, parts=INTERVAL, **more)


def as_reality_prints(made: Table) -> Table:
    """Return the table with percentages as the reality check prints them: 68.13 ± 0.31."""
    columns = (
        replace(column, digits=2, plus_minus=True) if column.form == "percent" else column
        for column in made.columns
    )
    return replace(made, columns=tuple(columns))


DATASET, BACKBONE, SIZE, PROTOCOL = (
    Column("dataset", in_title=True),
    Column("backbone", in_title=True),
    Column("embedding_size", "size", "count", in_title=True),
    Column("protocol", in_title=True),
)
COMPARISON_COLUMNS = (DATASET, BACKBONE, SIZE, PROTOCOL)  # where losses are compared


@dataclass(frozen=True)
class Table:
    """Hold columns and rows; a column that a row lacks is empty there.

    above: what is not equal between the rows. notes: what the numbers mean, below.
    """

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...] = ()
    above: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def measurements(self) -> Iterable[Measurement]:
        """Return every measurement of every row."""
        contents = (content for row in self.rows for content in row.values())
        return (content for content in contents if isinstance(content, Measurement))

    @property
    def is_closed(self) -> bool:
        """Return whether a number is of a closed set."""
        return any(each.closed for each in self.measurements())

    def for_readers(self) -> Table:
        """Return the table for people: what all rows share moves into the title, empty columns
        disappear, and notes explain the marks.
        """
        shown = [column for column in self.columns if not column.data]
        if not self.rows:
            return replace(self, columns=tuple(shown), notes=(*self.notes, *self._marks()))
        filled = [
            column
            for column in shown
            if any(self.content(row, column) not in (None, "") for row in self.rows)
        ]
        shared = [
            column
            for column in filled
            if column.in_title and len({self.content(row, column) for row in self.rows}) == 1
        ]
        words = dict.fromkeys(_words(each, self.content(self.rows[0], each)) for each in shared)
        return replace(
            self,
            title=f"{self.title}: {', '.join(words)}" if words else self.title,
            columns=tuple(self._aligned(column) for column in filled if column not in shared),
            notes=(*self.notes, *self._marks()),
        )

    def _aligned(self, column: Column) -> Column:
        """Return the column with one decimal everywhere if some of its numbers have intervals."""
        contents = (self.content(row, column) for row in self.rows)
        ends = any(isinstance(each, Measurement) and each.low is not None for each in contents)
        return replace(column, digits=1) if ends and column.digits is None else column

    def _marks(self) -> list[str]:
        starred = any(each.peeks for each in self.measurements())
        found = []
        if starred and not any(note.startswith("*") for note in self.notes):
            found.append(
                "* chosen with test feedback. Never rank it among numbers without the mark."
            )
        if self.is_closed and CLOSED_NOTE not in self.notes:
            found.append(CLOSED_NOTE)
        doubts = (each.doubt for each in self.measurements() if each.doubt)
        return found + list(dict.fromkeys(f"† cannot be right: {doubt}." for doubt in doubts))

    @staticmethod
    def content(row: Row, column: Column) -> Content:
        """Return what a row has in a column; NaN counts as nothing."""
        content: Content = row.get(column.name)
        if isinstance(content, np.generic):
            return Table.content({column.name: content.item()}, column)
        value = content.value if isinstance(content, Measurement) else content
        return None if isinstance(value, float) and math.isnan(value) else content

    def frame(self) -> pd.DataFrame:
        """Return a flat frame, in which the parts of a measurement have columns of their own."""
        names = {column.name: _flat_names(column) for column in self.columns}
        frame = pd.DataFrame(
            [self._flat(row) for row in self.rows],
            columns=[name for column in self.columns for name in names[column.name]],
        )
        whole = [name for each in self.columns if each.integer for name in names[each.name]]
        frame = frame.astype(dict.fromkeys(whole, "Int64"))
        closed = [any(_closed(content) for content in row.values()) for row in self.rows]
        return frame.assign(closed_set=closed) if any(closed) else frame

    def _flat(self, row: Row) -> dict[str, Any]:
        flat: dict[str, Any] = {}
        for column in self.columns:
            content = self.content(row, column)
            flat[column.name] = content.value if isinstance(content, Measurement) else content
            if isinstance(content, Measurement):
                flat |= {f"{column.name}_{part}": getattr(content, part) for part in column.parts}
        return flat


def _closed(content: Content) -> bool:
    return isinstance(content, Measurement) and content.closed


def _flat_names(column: Column) -> list[str]:
    return [column.name, *(f"{column.name}_{part}" for part in column.parts)]


def _words(column: Column, content: Content) -> str:
    return f"{content} dimensions" if column is SIZE else str(content)


def table(
    name: str, title: str, columns: Sequence[Column], rows: Iterable[Row], **more: Sequence[str]
) -> Table:
    """Return a Table of lists in place of tuples."""
    lines = {key: tuple(lines) for key, lines in more.items()}
    return Table(name, title, tuple(columns), tuple(rows), **lines)


def with_closed_marks(made: Table) -> Table:
    """Return the table with the mark of the closed set on all of its numbers."""
    rows = [
        {
            name: replace(content, closed=True) if isinstance(content, Measurement) else content
            for name, content in row.items()
        }
        for row in made.rows
    ]
    return replace(made, rows=tuple(rows))


def without_comparison(made: Table) -> Table:
    """Return the table without the columns that say where losses are compared, for a reader who
    sees that in a heading.
    """
    kept = tuple(column for column in made.columns if column not in COMPARISON_COLUMNS)
    return replace(made, columns=kept)


def comparison_of(ranking: Ranking) -> dict[str, Any]:
    """Return the contents of COMPARISON_COLUMNS in every row of a ranking."""
    return {column.name: getattr(ranking, column.name) for column in COMPARISON_COLUMNS}
