"""Write any table as text, CSV, Markdown, LaTeX, HTML or JSON: one writer per format."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from html import escape
from itertools import groupby
from typing import Any

from analysis.ranking.measurement import Measurement
from analysis.tables.table import NOTHING, Column, Content, Table
from analysis.tables.terminal import as_text

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a spreadsheet knows one
PIPE = r"\|"  # as Markdown writes it inside a table
LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    "±": r"$\pm$",
    "†": r"$^\dagger$",
    "‡": r"$^\ddagger$",
    "*": r"$^*$",
} | {letter: rf"\{letter}" for letter in "&%$#_{}"}


def lines_of(table: Table) -> list[list[str]]:
    """Return every row as people read it, column by column."""
    return [
        [column.text(Table.content(row, column)) for column in table.columns] for row in table.rows
    ]


def as_csv(table: Table) -> str:
    """Return CSV with every number in full; shares run from 0 to 1.

    A text that a spreadsheet would take for a formula gets an apostrophe before it.
    """
    frame = table.frame()
    texts = frame.select_dtypes(include=["object", "string"]).columns
    for name in texts:
        frame[name] = frame[name].map(
            lambda cell: f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
        )
    return frame.to_csv(index=False)


def as_markdown(table: Table) -> str:
    """Return a heading, a Markdown table and its notes as a list."""
    shown = table.for_readers()
    lines = [f"## {shown.title}", "", *(f"{line}\n" for line in shown.above)]
    if shown.rows:
        rule = ["---" if column.form == "text" else "--:" for column in shown.columns]
        rows = [[column.title for column in shown.columns], *lines_of(shown)]
        written = [f"| {' | '.join(text.replace('|', PIPE) for text in row)} |" for row in rows]
        lines += [written[0], f"| {' | '.join(rule)} |", *written[1:], ""]
    else:
        lines += ["Nothing to show yet.", ""]
    lines += [f"- {note}" for note in shown.notes]
    return "\n".join(lines).rstrip().replace("*", "\\*") + "\n"


def as_latex(table: Table) -> str:
    """Return a LaTeX table for the booktabs package."""
    shown = table.for_readers()
    letters = "".join("l" if column.form == "text" else "r" for column in shown.columns)
    below = [
        rf"\par\smallskip\footnotesize {_latex(line)}" for line in (*shown.above, *shown.notes)
    ]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_latex(shown.title)}}}",
        rf"\begin{{tabular}}{{{letters}}}",
        r"\toprule",
        _latex_row([column.title for column in shown.columns]),
        r"\midrule",
        *map(_latex_row, lines_of(shown)),
        r"\bottomrule",
        r"\end{tabular}",
        *below,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(texts: list[str]) -> str:
    return " & ".join(map(_latex, texts)) + r" \\"


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def as_html(table: Table) -> str:
    """Return one <table> with the lines above it and its notes; data-value holds what a column is
    sorted by.
    """
    shown = table.for_readers()
    above = "".join(f'<p class="above">{escape(line)}</p>\n' for line in shown.above)
    notes = "".join(f'<p class="note">{escape(line)}</p>\n' for line in shown.notes)
    rows = (
        "".join(_html(Table.content(row, column), column) for column in shown.columns)
        for row in shown.rows
    )
    body = "".join(f"<tr>{row}</tr>\n" for row in rows)
    body = body or "<tr><td>Nothing to show yet.</td></tr>\n"
    caption = f"<caption>{escape(shown.title)}</caption>"
    return (
        f'{above}<div class="scroll"><table class="{escape(table.name)}">{caption}\n'
        f"<thead>{_html_head(shown.columns)}</thead>\n"
        f"<tbody>\n{body}</tbody></table></div>\n{notes}"
    )


def _html_head(columns: tuple[Column, ...]) -> str:
    """Return a row of heads, below a row of the headings that neighbouring columns share."""
    grouped = any(column.group[0] for column in columns)
    heads = "".join(
        f'<th scope="col" class="{_classes(column, title)}">{escape(title)}</th>'
        for column in columns
        for title in [column.short if grouped and column.short else column.title]
    )
    if not grouped:
        return f"<tr>{heads}</tr>"
    groups = ""
    for (title, rule), each in groupby(columns, key=lambda column: column.group):
        peeks = ' class="peeks"' if "*" in title else ""
        small = f" <small>{escape(rule)}</small>" if rule else ""
        groups += (
            f'<th scope="colgroup" colspan="{len(list(each))}"{peeks}>{escape(title)}{small}</th>'
        )
    return f'<tr class="groups">{groups}</tr>\n<tr>{heads}</tr>'


def _classes(column: Column, title: str) -> str:
    return f"{column.form} peeks" if "*" in title else column.form


def _html(content: Content, column: Column) -> str:
    tag, attributes = ("th", ' scope="row"') if column.name == "loss" else ("td", "")
    attributes += f' class="{column.form}"'
    text = escape(column.text(content, to="–" if column.form == "count" else ", "))
    if column.form != "text":
        text = text.replace("-", "−")
    if content in (None, ""):
        text = f'<span class="none">{NOTHING}</span>'
    elif isinstance(content, Measurement):
        title = content.doubt or content.rule
        attributes += f' data-value="{content.value}"' + (f' title="{escape(title)}"' * bool(title))
        number, _, ends = text.partition(" ")
        text = f"{number} <small>{ends}</small>" if ends else number
        kind = "peeks" if content.peeks else "closed" if content.closed else "honest"
        text = f'<span class="{kind}">{text}</span>'
    elif not isinstance(content, str):
        attributes += f' data-value="{content}"'
    return f"<{tag}{attributes}>{text}</{tag}>"


def plain(table: Table) -> dict[str, Any]:
    """Return lists, dicts, strings and numbers; shares run from 0 to 1."""
    columns = [
        {"name": column.name, "head": column.title, "form": column.form} for column in table.columns
    ]
    rows = [
        {column.name: _plain(Table.content(row, column)) for column in table.columns}
        for row in table.rows
    ]
    return {
        "table": table.name,
        "title": table.title,
        "columns": columns,
        "rows": rows,
        "above": [*table.above],
        "notes": [*table.notes],
    }


def _plain(content: Content) -> Any:
    """Return a lone number where nothing travels with it."""
    if not isinstance(content, Measurement):
        return content
    # The value and an end of exactly 0 never equal their defaults.
    usual = {each.name: each.default for each in fields(content)}
    parts = {key: value for key, value in vars(content).items() if value != usual[key]}
    return content.value if len(parts) == 1 else parts


def as_json(table: Table) -> str:
    """Return the table as JSON."""
    return json.dumps(plain(table), indent=1, allow_nan=False) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "text": as_text,
    "csv": as_csv,
    "markdown": as_markdown,
    "latex": as_latex,
    "html": as_html,
    "json": as_json,
}
SUFFIXES = {
    ".txt": "text",
    ".csv": "csv",
    ".md": "markdown",
    ".tex": "latex",
    ".html": "html",
    ".json": "json",
}  # of files, each with its format
