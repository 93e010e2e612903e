"""Chosen values at the end of their search range: the best may lie outside."""

from __future__ import annotations

import pandas as pd

from search_spaces import Param, Range, Value, find_card, text
from search_spaces.training import TRAINED, TRAINING

NEAR = 0.01  # of the range, log ranges by order of magnitude


def edge_notes(finals: pd.DataFrame, searched: set[str]) -> list[str]:
    """A sentence for each value that a search chose at an end of its range. finals: final trials; searched: cells that had a search."""
    found = []
    for _, trial in finals[finals["cell"].isin(searched)].drop_duplicates("cell").iterrows():
        for name, value in trial["setting"].items():
            param = param_of(str(trial["loss"]), name)
            if param and (where := beyond(param, value)):
                chose = f"{name.removeprefix(TRAINED)} of {trial['loss']} under {trial['protocol']} was chosen as {text(value)}"
                also = ", its published value" if value == param.paper else ""
                found.append(f"{chose}{also}, at the edge of its range {param.search}: {where}.")
    return found


def param_of(loss: str, name: str) -> Param | None:
    """None: a loss of someone's own that is not at hand here, or a card that has changed since."""
    if name.startswith(TRAINED):
        return TRAINING.get(name.removeprefix(TRAINED))
    try:
        return find_card(loss).params.get(name)
    except ValueError:
        return None


def _at_end(param: Param, value: Value) -> bool:
    return isinstance(param.search, Range) and value in param.search and not NEAR < param.search.place(float(value)) < 1 - NEAR


def beyond(param: Param, value: Value) -> str:
    """Whether there is anything beyond the end at which the value lies; empty if it lies at none."""
    if not _at_end(param, value):
        return ""
    assert isinstance(param.search, Range)
    low, high = param.search.ends()
    end, last = (low, param.domain.ends()[0]) if param.search.place(float(value)) < 0.5 else (high, param.domain.ends()[1])
    return "the loss is not defined beyond" if end == last else "the best may lie outside"
