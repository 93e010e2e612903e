"""Write tables for a terminal, in as many columns as it has."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from analysis.statistics import LEVEL
from analysis.tables.line_breaks import broken
from analysis.tables.table import NOTHING, Column, Row, Table

ROOMY = 90  # columns of a terminal; in a narrower one cells are closer
WIDEST = 10_000  # columns of a text that no terminal shows
NARROWEST = 12  # a head or a text breaks into lines at least this wide
TEXT_WIDTHS = (WIDEST, 40, 30, 24, 20, 16, NARROWEST)  # the first that makes a table fit
Stack = list[Column]  # written below each other in one cell


def as_text(table: Table, width: int = WIDEST) -> str:
    """Return the table as plain text, as wide as it must be and at most this wide."""
    text = StringIO()
    # A notebook claims to be a terminal with colours, and there Rich would show the table itself.
    console = Console(file=text, width=width, force_terminal=False, force_jupyter=False)
    print_table(console, table)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()).strip("\n") + "\n"


def print_table(console: Console, table: Table) -> None:
    """Print the table with the lines above it and its notes."""
    shown, width = table.for_readers(), console.width
    console.print(Text(shown.title, style="bold"))
    for line in shown.above:
        console.print(Text(line))
    console.print()
    if shown.rows:
        grid = _fitting(console, shown)
        # Where even the shortest form is too wide, lines run on: a number that is cut off misleads.
        console.width = max(console.width, _needed(console, grid))
        console.print(grid)
        console.width = width
    else:
        console.print("Nothing to show yet.")
    if shown.notes:
        console.print()
    for note in shown.notes:
        console.print(Text(note, style="dim"))


def _fitting(console: Console, table: Table) -> Grid:
    """Break texts into lines until the table fits, then leave out intervals."""
    for interval in (True, False):
        for width in TEXT_WIDTHS:
            grid = _grid(table, width, interval=interval, roomy=console.width >= ROOMY)
            if _needed(console, grid) <= console.width:
                return grid
    return grid


def _needed(console: Console, grid: Grid) -> int:
    """Return the columns that a grid needs; in fewer, rich would cut it off."""
    return console.measure(grid, options=console.options.update(width=WIDEST)).maximum


def _grid(table: Table, width: int, *, interval: bool, roomy: bool) -> Grid:
    grid = Grid(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        header_style="bold",
        padding=(0, 1 if roomy else 0, 0, 0),
    )
    stacks = _stacks(table.columns)
    cells = [
        [_cell(row, stack, width, interval=interval) for stack in stacks] for row in table.rows
    ]
    for i, stack in enumerate(stacks):
        widest = max(len(line) for row in cells for line in row[i].split("\n"))
        head = "\n".join(_head(stack, max(widest, NARROWEST), interval=interval))
        texts = any(column.form == "text" for column in stack)
        grid.add_column(Text(head), justify="left" if texts else "right", no_wrap=True)
    for row in cells:
        grid.add_row(*(Text(cell) for cell in row))
    return grid


def _stacks(columns: tuple[Column, ...]) -> list[Stack]:
    stacks: list[Stack] = []
    for column in columns:
        if column.below and stacks and column.group == stacks[-1][0].group:
            stacks[-1].append(column)
        else:
            stacks.append([column])
    return stacks


def _cell(row: Row, stack: Stack, width: int, *, interval: bool) -> str:
    """Return a line or more for each column of the stack that has something; one dash if none
    has.
    """
    lines: list[str] = []
    for column in stack:
        content = Table.content(row, column)
        if content not in (None, ""):
            to = "-" if column.form == "count" else ", "
            text = column.text(content, interval=interval, to=to)
            lines += broken(text, width) if column.form == "text" else [text]
    return "\n".join(lines) or NOTHING


def _head(stack: Stack, width: int, *, interval: bool) -> Iterator[str]:
    for words in stack[0].group:
        yield from broken(words, width)
    for column in stack:
        ends = f" [{LEVEL:.0%}]" if interval and column.short and "low" in column.parts else ""
        yield from broken((column.short or column.title) + ends, width)
