"""Hyperparameters: what papers print beside what a search found, the range it searched, and a warning at its edge (thesis table 15)."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.edges import Settings, beyond, param_of, said, searched
from analysis.tables.table import PLACE, Cell, Column, Table, table
from analysis.tracking import StudyRows
from search_spaces import Value, text
from search_spaces.training import TRAINED
from trainables.contract import PUBLISHED

COLUMNS = [
    *PLACE,
    Column("loss"),
    Column("parameter"),
    Column("paper"),
    Column("thesis"),
    Column("reality", "reality check"),
    Column("start", "tried first"),
    Column("found", parts=("peeks",)),
    Column("range", "searched range"),
    Column("edge", "warning"),
]
NOTHING = "no search trial had a score: nothing was chosen"


def hyperparameters(lines: list[dict[str, Any]]) -> Table:
    return table("hyperparameters", "Hyperparameters: published and found", COLUMNS, lines)


def found_by(rows: StudyRows) -> list[dict[str, Any]]:
    """One line per searched cell and parameter."""
    if rows.trials.empty:
        return []
    return [line for _, cell in rows.trials.groupby("cell", sort=False) for line in _of_cell(cell)]


def _of_cell(cell: pd.DataFrame) -> list[dict[str, Any]]:
    tried, final = cell[cell["role"] == "search"], cell[cell["role"] == "final"]
    if tried.empty:
        return []
    place = {column.name: cell[column.name].iloc[0] for column in PLACE} | {"loss": cell["loss"].iloc[0]}
    first: dict[str, Value] = next(iter(tried.loc[tried["trial"] == PUBLISHED, "setting"]), {})
    chosen: dict[str, Value] = final["setting"].iloc[-1] if len(final) else {}  # made again after a search had grown: the last
    nothing = "tuned" in final and bool(final["tuned"].iloc[-1:].eq(False).any())
    settings, peeks = tried["setting"].to_list(), bool(cell["peeks"].iloc[0])
    found = {name: (first.get(name), None if nothing else chosen.get(name)) for name in {**first, **chosen}}
    lines = [_line(str(place["loss"]), name, settings, start=start, chosen=own, peeks=peeks) for name, (start, own) in found.items()]
    return [place | line | ({"edge": NOTHING} if nothing else {}) for line in lines]


def _line(loss: str, name: str, settings: Settings, *, start: Value | None, chosen: Value | None, peeks: bool) -> dict[str, Any]:
    """What a search with test feedback found is starred."""
    line: dict[str, Any] = {"parameter": name.removeprefix(TRAINED), "start": _text(start), "found": _found(chosen, peeks=peeks)}
    if param := param_of(loss, name):
        reach = searched(param, name, settings)
        line |= {source: _text(getattr(param, source)) for source in ("paper", "thesis", "reality")}
        line |= {"range": said(param, reach), "edge": beyond(param, chosen, reach) if chosen is not None else ""}
    return line


def _found(value: Value | None, *, peeks: bool) -> Cell | str | None:
    if value is None or not peeks:
        return _text(value)
    return f"{value} (by test feedback)" if isinstance(value, (bool, str)) else Cell(value, peeks=True)


def _text(value: Value | None) -> str | None:
    return None if value is None else text(value)
