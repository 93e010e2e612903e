"""Make the table of hyperparameters: published and found values, the searched range, and a warning
at its edge (thesis table 15).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.ranking.edges import Chosen, Settings, param_of, range_text, searched
from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.tables.frames import LOSS_KEYS
from analysis.tables.table import COMPARISON_COLUMNS, NOTHING, Column, Table, table
from search_spaces import REALITY_ON, Value, value_text
from search_spaces.training import TRAINED

COLUMNS = [
    *COMPARISON_COLUMNS,
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
NOTE = "Found: one value for each replicate's search, in their order."
REALITY = "Reality check: its optimum on the same dataset, else on CUB."
NOT_CHOSEN = "no search trial had a score: nothing was chosen"


def hyperparameters(lines: list[dict[str, Any]]) -> Table:
    """Return a row per parameter."""
    several = any(", " in str(line.get("found")) for line in lines)
    title = "Hyperparameters: published and found"
    cited = any(line.get("reality") for line in lines)
    notes = [*([NOTE] if several else []), *([REALITY] if cited else [])]
    return table("hyperparameters", title, COLUMNS, lines, notes=notes)


def found_by(rows: StudyRows) -> list[dict[str, Any]]:
    """Return one line per searched cell and parameter."""
    if rows.trials.empty:
        return []
    return [line for _, cell in rows.trials.groupby("cell", sort=False) for line in _of_cell(cell)]


def _of_cell(cell: pd.DataFrame) -> list[dict[str, Any]]:
    tried, final = cell[cell["role"] == "search"], cell[cell["role"] == "final"]
    if tried.empty:
        return []
    about = {name: cell[name].iloc[0] for name in LOSS_KEYS}
    first: dict[str, Value] = next(iter(tried.loc[tried["number"] == 0, "setting"]), {})
    searches = {
        int(mine["replicate"].iloc[0]): mine.sort_values("number")["setting"].to_list()
        for _, mine in tried.groupby("replicate")
    }
    chosen = {
        replicate: setting
        for replicate in searches
        if (setting := _chosen(final[final["replicate"] == replicate]))
    }
    own = final[final["replicate"].isin(searches)]
    nothing = len(own) and not chosen
    names = {**first, **{name: None for setting in chosen.values() for name in setting}}
    lines = [
        {"start": _text(first.get(name))}
        | _line(about, name, searches, chosen=chosen, peeks=bool(cell["peeks"].iloc[0]))
        for name in names
    ]
    return [about | line | ({"edge": NOT_CHOSEN} if nothing else {}) for line in lines]


def _chosen(final: pd.DataFrame) -> dict[str, Value]:
    """Return the setting that one search chose; empty if it chose nothing.

    Final trials are made again after a search has grown: the last counts.
    """
    if final.empty or ("tuned" in final and not final["tuned"].iloc[-1]):
        return {}
    return dict(final["setting"].iloc[-1])


def _line(
    about: Mapping[str, Any],
    name: str,
    searches: Mapping[int, Settings],
    *,
    chosen: Mapping[int, Mapping[str, Value]],
    peeks: bool,
) -> dict[str, Any]:
    """Return what is known of one parameter; searches and what they chose are by replicate."""
    values = [chosen.get(replicate, {}).get(name) for replicate in searches]
    line: dict[str, Any] = {
        "parameter": name.removeprefix(TRAINED),
        "found": _found(values, peeks=peeks),
    }
    if param := param_of(str(about["loss"]), name):
        each = [
            Chosen.of(param, name, setting[name], searches[replicate])
            for replicate, setting in chosen.items()
            if name in setting
        ]
        reaches = [searched(param, name, settings) for settings in searches.values()]
        optimum = param.optima().get(str(about["dataset"]), param.optima().get(REALITY_ON[0]))
        line |= {
            "paper": _text(param.paper),
            "thesis": _text(param.thesis),
            "reality": _text(optimum),
        }
        line |= {
            "range": " or ".join(dict.fromkeys(range_text(param, reach) for reach in reaches)),
            "edge": _edge([one.beyond for one in each], len(searches)),
        }
    return line


def _edge(beyond: Sequence[str], searches: int) -> str:
    """Return the warning, and in how many of several searches it holds."""
    there = [words for words in beyond if words]
    if not there:
        return ""
    often = f"in {len(there)} of {searches} searches: " if searches > 1 else ""
    return often + ", or ".join(dict.fromkeys(there))


def _found(values: Sequence[Value | None], *, peeks: bool) -> Measurement | str | None:
    """Return what each search found; a star marks what one with test feedback found."""
    if all(value is None for value in values):
        return None
    if peeks and len(values) == 1 and not isinstance(values[0], (bool, str, type(None))):
        return Measurement(values[0], peeks=True)
    text = ", ".join(_text(value) or NOTHING for value in values)
    return f"{text} (by test feedback)" if peeks else text


def _text(value: Value | None) -> str | None:
    return None if value is None else value_text(value)
