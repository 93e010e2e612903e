"""Find chosen values at the end of the searched range: the best may be outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from search_spaces import Param, Range, Value, find_card, value_text
from search_spaces.training import TRAINED, TRAINING

EDGE = 0.01  # share of the range that counts as its end; log ranges by order of magnitude
HELD = "held"

Settings = Sequence[Mapping[str, Value]]  # of a cell's search trials, the published one first


def tried_by(trials: pd.DataFrame) -> dict[tuple[str, int], Settings]:
    """Return by cell and replicate the settings that its search tried."""
    search = trials[trials["role"] == "search"]
    return {
        (str(cell), int(mine["replicate"].iloc[0])): mine.sort_values("number")["setting"].to_list()
        for (cell, _), mine in search.groupby(["cell", "replicate"], sort=False)
    }


def edge_notes(finals: pd.DataFrame, tried: Mapping[tuple[str, int], Settings]) -> list[str]:
    """Return a sentence for each parameter that a search chose at an end of its range.

    finals: final trials.
    """
    found = []
    # Where tuned is False, no search trial had a score and nothing was chosen.
    tuned = finals.get("tuned", pd.Series(True, index=finals.index)).ne(False)
    there = [key in tried for key in zip(finals["cell"], finals["replicate"], strict=True)]
    chosen = finals[tuned & pd.Series(there, index=finals.index, dtype=bool)]
    for cell, mine in chosen.drop_duplicates(["cell", "replicate"]).groupby("cell", sort=False):
        settings = dict(zip(mine["replicate"], mine["setting"], strict=True))
        loss, protocol = str(mine["loss"].iloc[0]), mine["protocol"].iloc[0]
        for name in dict.fromkeys(name for setting in settings.values() for name in setting):
            if param := param_of(loss, name):
                edges = [
                    Chosen.of(param, name, setting[name], tried[str(cell), int(replicate)])
                    for replicate, setting in sorted(settings.items())
                    if name in setting
                ]
                where = f"{name.removeprefix(TRAINED)} of {loss} under {protocol}"
                found += _edge_note(where, param, edges)
    return found


def _edge_note(where: str, param: Param, edges: Sequence[Chosen]) -> list[str]:
    """Return the sentence for what all searches chose for a parameter, if any is at an edge."""
    at_edge = [each for each in edges if each.beyond]
    if not at_edge:
        return []
    values = ", ".join(value_text(each.value) for each in edges)
    also = ", its published value" if all(each.value == param.paper for each in at_edge) else ""
    ranges = " or ".join(dict.fromkeys(range_text(param, each.reach) for each in at_edge))
    beyond = ", or ".join(dict.fromkeys(each.beyond for each in at_edge))
    if len(edges) == 1:
        chose = f"{where} was chosen as {values}{also}"
        return [f"{chose}, at the edge of its range {ranges}: {beyond}."]
    return [
        f"{where} was chosen as {values}; in {len(at_edge)} of {len(edges)} searches that lies at "
        f"the edge of its range {ranges}: {beyond}."
    ]


@dataclass(frozen=True)
class Chosen:
    """Hold the value that one search chose, the range that it searched, and what lies beyond."""

    value: Value
    reach: Range | None
    beyond: str  # empty if the value lies at neither end

    @classmethod
    def of(cls, param: Param, name: str, value: Value, settings: Settings) -> Chosen:
        """Return what the search that tried these settings chose."""
        reach = searched(param, name, settings)
        return cls(value, reach, beyond(param, value, reach))


def param_of(loss: str, name: str) -> Param | None:
    """Return the parameter's card entry; None if the loss or the parameter is unknown here."""
    if name.startswith(TRAINED):
        return TRAINING.get(name.removeprefix(TRAINED))
    try:
        return find_card(loss).params.get(name)
    except ValueError:
        return None


def searched(param: Param, name: str, settings: Settings) -> Range | None:
    """Return the range that a search went through; None if it held the parameter or chose between
    options.

    A sweep covers the lowest to the highest level that it tried; others draw from the card's range.
    """
    tried = (
        [float(setting[name]) for setting in settings if name in setting]
        if isinstance(param.search, Range)
        else []
    )
    if not isinstance(param.search, Range) or len(set(tried)) < 2:
        return None
    swept = set(tried[1:]) <= set(param.levels())
    return replace(param.search, low=min(tried), high=max(tried)) if swept else param.search


def range_text(param: Param, reach: Range | None) -> str:
    """Return what was searched, as people read it."""
    if not isinstance(param.search, Range):
        return str(param.search)
    return str(reach) if reach else HELD


def beyond(param: Param, value: Value, reach: Range | None) -> str:
    """Return what is beyond the end at which the value lies; empty if it lies at neither.

    reach: the searched range.
    """
    if not reach or value not in reach or EDGE < reach.position(float(value)) < 1 - EDGE:
        return ""
    low, high = reach.ends()
    end, last = (
        (low, param.domain.ends()[0])
        if reach.position(float(value)) < 0.5
        else (high, param.domain.ends()[1])
    )
    return "the loss is not defined beyond" if end == last else "the best may lie outside"
