"""Chosen values at the end of what was searched: the best may lie outside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from search_spaces import Param, Range, Value, find_card, text
from search_spaces.training import TRAINED, TRAINING

NEAR = 0.01  # of the range, log ranges by order of magnitude
HELD = "held"

Settings = Sequence[Mapping[str, Value]]  # of a cell's search trials, the published one first


def tried_by(trials: pd.DataFrame) -> dict[str, Settings]:
    """By cell what its search tried."""
    search = trials[trials["role"] == "search"]
    return {str(cell): mine["setting"].to_list() for cell, mine in search.groupby("cell", sort=False)}


def edge_notes(finals: pd.DataFrame, tried: Mapping[str, Settings]) -> list[str]:
    """A sentence for each value that a search chose at an end of what it went through. finals: final trials."""
    found = []
    tuned = finals.get("tuned", pd.Series(True, index=finals.index)).ne(False)  # else no search trial had a score, and nothing was chosen
    for _, trial in finals[finals["cell"].isin(tried) & tuned].drop_duplicates("cell").iterrows():
        for name, value in trial["setting"].items():
            param, settings = param_of(str(trial["loss"]), name), tried[trial["cell"]]
            if param and (where := beyond(param, value, reach := searched(param, name, settings))):
                chose = f"{name.removeprefix(TRAINED)} of {trial['loss']} under {trial['protocol']} was chosen as {text(value)}"
                also = ", its published value" if value == param.paper else ""
                found.append(f"{chose}{also}, at the edge of its range {said(param, reach)}: {where}.")
    return found


def param_of(loss: str, name: str) -> Param | None:
    """None: a loss of someone's own that is not at hand here, or a card that has changed since."""
    if name.startswith(TRAINED):
        return TRAINING.get(name.removeprefix(TRAINED))
    try:
        return find_card(loss).params.get(name)
    except ValueError:
        return None


def searched(param: Param, name: str, settings: Settings) -> Range | None:
    """The range that a search went through; None: it held the parameter at one value, or chose between options.

    A sweep tries levels of the card only, and goes from the lowest to the highest that it tried; others draw from the card's range.
    """
    tried = [float(setting[name]) for setting in settings if name in setting] if isinstance(param.search, Range) else []
    if not isinstance(param.search, Range) or len(set(tried)) < 2:
        return None
    swept = set(tried[1:]) <= set(param.levels())
    return replace(param.search, low=min(tried), high=max(tried)) if swept else param.search


def said(param: Param, reach: Range | None) -> str:
    """What was searched, as people read it."""
    if not isinstance(param.search, Range):
        return str(param.search)
    return str(reach) if reach else HELD


def beyond(param: Param, value: Value, reach: Range | None) -> str:
    """Whether there is anything beyond the end at which the value lies; empty if it lies at none. reach: what was searched."""
    if not reach or value not in reach or NEAR < reach.place(float(value)) < 1 - NEAR:
        return ""
    low, high = reach.ends()
    end, last = (low, param.domain.ends()[0]) if reach.place(float(value)) < 0.5 else (high, param.domain.ends()[1])
    return "the loss is not defined beyond" if end == last else "the best may lie outside"
