"""Put a paper's values beside a study's: the published number and the gap next to every number that
both have.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from analysis.ranking.measurement import Measurement
from analysis.ranking.readings import BASELINES
from analysis.tables.table import Column, Content, Row, Table
from search_spaces.own import untagged
from trainables.contract import PCA

IGNORED = ("protocol", "setup", "rule")  # a paper's marks show its setup
NUMBERS = ("percent", "points", "number", "count")


def with_published(ours: Table, theirs: Table, paper: str) -> Table:
    """Return our table with columns for the published values and the gaps.

    Rows match where their texts are equal, as far as the paper gives them; of several the nearest
    counts.
    """
    both = [
        column.name
        for column in ours.columns
        if column.name in {other.name for other in theirs.columns}
    ]
    words = [column.name for column in ours.columns if _names(column) and column.name in both]
    numbers = [
        column
        for column in ours.columns
        if not _names(column) and column.form in NUMBERS and column.name in both
    ]
    found = [_counterpart(row, theirs.rows, words) for row in ours.rows]
    rows = [
        {**row, **(_beside(row, other, numbers) if other else {})}
        for row, other in zip(ours.rows, found, strict=True)
    ]
    columns = [
        each
        for column in ours.columns
        for each in ([column, *_more(column, paper)] if column in numbers else [column])
    ]
    both_have = sum(other is not None for other in found)
    note = (
        f"{both_have} of {len(ours.rows)} rows have a counterpart in {paper}; gap: ours minus "
        "published."
    )
    return replace(ours, columns=tuple(columns), rows=tuple(rows), notes=(*ours.notes, note))


def _counterpart(row: Row, others: Sequence[Row], words: list[str]) -> Row | None:
    """Prefer the same tag, then the same setup and rule."""
    there = [
        other
        for other in others
        if all(_matches(name, row.get(name), other.get(name)) for name in words)
    ]
    return min(
        there,
        key=lambda other: [other.get(name) != row.get(name) for name in ("loss", *IGNORED)],
        default=None,
    )


def _matches(name: str, mine: Content, theirs: Content) -> bool:
    """Match what a paper leaves open with everything, a tagged loss also without its tag, and our
    PCA of a network with a paper's pretrained network.
    """
    if theirs is None or mine == theirs or name != "loss":
        return theirs is None or mine == theirs
    head, _, backbone = str(mine).rpartition(" ")
    pretrained = head == BASELINES[PCA] and theirs == f"pretrained {backbone}"
    return pretrained or untagged(str(mine)) == theirs


def _names(column: Column) -> bool:
    """Return whether a column identifies a row."""
    return (
        (column.form == "text" or column.in_title)
        and column.name not in IGNORED
        and not column.data
    )


def _more(column: Column, paper: str) -> tuple[Column, Column]:
    form = "points" if column.form in ("percent", "points") else column.form
    return (
        Column(
            f"{column.name}_published",
            f"{column.title} {paper}",
            column.form,
            column.digits,
            ("peeks", "doubt"),
            plus_minus=column.plus_minus,
        ),
        Column(f"{column.name}_gap", f"{column.title} gap", form, column.digits, ("peeks",)),
    )


def _beside(row: Row, other: Row, numbers: list[Column]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for column in numbers:
        ours, theirs = (
            _measurement(Table.content(row, column)),
            _measurement(Table.content(other, column)),
        )
        if theirs:
            found[f"{column.name}_published"] = theirs
        if ours and theirs and ours.closed == theirs.closed:  # else they measure different tasks
            found[f"{column.name}_gap"] = Measurement(
                ours.value - theirs.value, peeks=ours.peeks or theirs.peeks, closed=ours.closed
            )
    return found


def _measurement(content: Content) -> Measurement | None:
    if content is None or isinstance(content, str):
        return None
    return content if isinstance(content, Measurement) else Measurement(float(content))
