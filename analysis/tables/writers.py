"""One writer for all tables: text, CSV, Markdown, LaTeX, HTML and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from html import escape
from textwrap import wrap
from typing import Any

from analysis.tables.table import Cell, Column, Entry, Table

NOTHING = "–"
HEAD = 14  # letters of a text table's head before it is broken into lines
LATEX = {"\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
         "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "†": r"$^\dagger$", "*": r"$^*$"}  # fmt: skip


def written(entry: Entry, column: Column) -> str:
    """A cell as people read it: percent, interval, star if it peeks, dagger if it cannot be right."""
    if entry is None:
        return NOTHING
    if not isinstance(entry, Cell):
        return _number(entry, column) if isinstance(entry, (int, float)) else entry
    marks = "*" * entry.peeks + "†" * bool(entry.doubt)
    if entry.low is None or entry.high is None:
        return _number(entry.value, column) + marks
    digits = 1 if column.digits is None else column.digits
    value, low, high = (_number(each, column, digits) for each in (entry.value, entry.low, entry.high))
    return f"{value}{marks} [{low}, {high}]"


def _number(value: float, column: Column, digits: int | None = None) -> str:
    digits = column.digits if digits is None else digits
    if column.form == "count" and value == int(value):
        return f"{int(value):,}" if abs(value) >= 10_000 else str(int(value))
    if column.form in ("percent", "points"):
        return f"{100 * value:{'+' if column.form == 'points' else ''}.{2 if digits is None else digits}f}"
    return f"{value:.4g}" if digits is None else f"{value:.{digits}f}"


def lines_of(table: Table) -> list[list[str]]:
    return [[written(Table.entry(row, column), column) for column in table.columns] for row in table.rows]


def as_text(table: Table) -> str:
    """Aligned, heads broken into lines."""
    told = table.told()
    body = lines_of(told)
    heads = [_broken(column.title) for column in told.columns]
    deep = max((len(head) for head in heads), default=0)
    rows = [[head[i - deep + len(head)] if i >= deep - len(head) else "" for head in heads] for i in range(deep)] + body
    widths = [max(len(row[i]) for row in rows) for i in range(len(told.columns))]
    words = [column.form == "text" for column in told.columns]
    shown = ["  ".join(_pad(*each) for each in zip(row, widths, words, strict=True)).rstrip() for row in rows]
    rule = "  ".join("-" * width for width in widths)
    shown = [*shown[:deep], rule, *shown[deep:]] if body else ["Nothing to show yet."]
    return "\n".join([told.title, *told.above, "", *shown, "", *told.notes]).rstrip() + "\n"


def _broken(head: str) -> list[str]:
    """Between words, and behind a stroke."""
    parts = wrap(head.replace("/", "/\0 "), HEAD, break_long_words=False, break_on_hyphens=False)
    return [part.replace("/\0 ", "/").replace("\0", "") for part in parts] or [""]


def _pad(text: str, width: int, left: bool) -> str:
    return text.ljust(width) if left else text.rjust(width)


def as_csv(table: Table) -> str:
    return table.frame().to_csv(index=False)


def as_markdown(table: Table) -> str:
    told = table.told()
    lines = [f"## {told.title}", "", *(f"{line}\n" for line in told.above)]
    if told.rows:
        rule = ["---" if column.form == "text" else "--:" for column in told.columns]
        rows = [[column.title for column in told.columns], *lines_of(told)]
        shown = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
        lines += [shown[0], f"| {' | '.join(rule)} |", *shown[1:], ""]
    else:
        lines += ["Nothing to show yet.", ""]
    lines += [f"- {note}" for note in told.notes]
    return "\n".join(lines).rstrip().replace("*", "\\*") + "\n"


def as_latex(table: Table) -> str:
    """For the booktabs package."""
    told = table.told()
    kinds = "".join("l" if column.form == "text" else "r" for column in told.columns)
    rows = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in lines_of(told)]
    head = " & ".join(_latex(column.title) for column in told.columns) + r" \\"
    below = [rf"\par\smallskip\footnotesize {_latex(line)}" for line in (*told.above, *told.notes)]
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{_latex(told.title)}}}", rf"\begin{{tabular}}{{{kinds}}}", r"\toprule", head]
    return "\n".join([*lines, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}", *below, r"\end{table}", ""])


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def as_html(table: Table) -> str:
    """One <table>; data-value holds what a column is sorted by."""
    told = table.told()
    head = "".join(f'<th scope="col" class="{column.form}">{escape(column.title)}</th>' for column in told.columns)
    rows = ["".join(_html(Table.entry(row, column), column) for column in told.columns) for row in told.rows]
    above = "".join(f'<p class="above">{escape(line)}</p>\n' for line in told.above)
    notes = "".join(f'<p class="note">{escape(line)}</p>\n' for line in told.notes)
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    caption = f"<caption>{escape(told.title)}</caption>"
    return f'{above}<table id="{escape(table.name)}">{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>\n{notes}'


def _html(entry: Entry, column: Column) -> str:
    value = entry.value if isinstance(entry, Cell) else entry
    key = "" if value is None else f' data-value="{escape(str(value))}"'
    title = f' title="{escape(entry.doubt or entry.rule)}"' if isinstance(entry, Cell) and (entry.doubt or entry.rule) else ""
    return f'<td class="{column.form}"{key}{title}>{escape(written(entry, column))}</td>'


def plain(table: Table) -> dict[str, Any]:
    """Lists, dicts, strings and numbers; shares from 0 to 1."""
    columns = [{"name": column.name, "head": column.title, "form": column.form} for column in table.columns]
    rows = [{column.name: _plain(Table.entry(row, column)) for column in table.columns} for row in table.rows]
    return {"table": table.name, "title": table.title, "columns": columns, "rows": rows, "above": [*table.above], "notes": [*table.notes]}


def _plain(entry: Entry) -> Any:
    """A lone number where nothing travels with it."""
    if not isinstance(entry, Cell):
        return entry
    usual = {each.name: each.default for each in fields(entry)}  # value, and an end of exactly 0, are never usual
    parts = {key: value for key, value in vars(entry).items() if value != usual[key]}
    return entry.value if len(parts) == 1 else parts


def as_json(table: Table) -> str:
    return json.dumps(plain(table), indent=1, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": as_text,
    "csv": as_csv,
    "markdown": as_markdown,
    "latex": as_latex,
    "html": as_html,
    "json": as_json,
}
