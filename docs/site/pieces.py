"""Write pieces of Markdown: escaped text, tables, code."""

from collections.abc import Iterable, Sequence


def text(value: object) -> str:
    """Return prose that Markdown shows as it is, on one line; `code` stays code."""
    parts = " ".join(str(value).split()).split("`")
    for number in range(0, len(parts), 2):  # outside of backticks
        for mark in "\\*<>[]|":
            parts[number] = parts[number].replace(mark, f"&#{ord(mark)};")
    for number in range(1, len(parts), 2):
        parts[number] = parts[number].replace("|", "&#124;")
    return "`".join(parts)


def code(value: object) -> str:
    """Return a value as code; nothing for an empty one."""
    shown = str(value)
    return f"`{shown.replace('|', '&#124;')}`" if shown and "|" not in shown else text(shown)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its cells are Markdown already."""
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"
