"""The fairness check: what is not equal between the losses that a table compares, beside what is compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from typing import Any

import pandas as pd

from analysis.places import Place, places
from analysis.tracking import StudyRows
from search_spaces import find_card
from search_spaces.training import TRAINED
from trainables.contract import Design, Look, Training

# Musgrave et al.: network, size, augmentation, optimiser, frozen batch norm. Size and backbone are equal wherever losses are ranked.
PARTS = {"design": Design, "look": Look, "training": Training}  # of a spec: every field of theirs is compared
HARMLESS = {"metrics", "deterministic"}  # but these: what is measured beside, and the same numbers by a slower way
SAID = "pooling, weights, batch norm, crop, optimiser, schedule, batches, epochs, search trials and seeds"

Ledger = dict[str, dict[str, str]]  # what -> cell or study -> value


def fairness(rows: StudyRows) -> list[str]:
    """Sentences to stand above a table; a place and setup at a time, because only there losses are compared."""
    finals = rows.finals
    if finals.empty:
        return []
    found = [line for place in places(rows.trials) for line in _of_place(rows, place)]
    if not rows.specs:
        found.append("Fairness check: how trials were trained is not at hand, so only budgets were compared.")
    elif not found:
        found.append(f"Fairness check: equal between the losses compared: {SAID}.")
    return found


def _of_place(rows: StudyRows, place: Place) -> Iterator[str]:
    mine = place.trained(rows.trials)
    several = len(places(rows.trials)) > 1
    for protocol, trials in mine.groupby("protocol", sort=False):
        unequal = dict(differing(ledger(rows, trials)))
        if unequal:
            where = f"{place.title}, {protocol}" if several else str(protocol)
            yield f"Fairness check: not equal between the losses under {where}: {'; '.join(_said(*each) for each in unequal.items())}."


def ledger(rows: StudyRows, trials: pd.DataFrame) -> Ledger:
    """What each loss was given. What a search chose is its own affair."""
    found: Ledger = {}
    searched = {name.removeprefix(TRAINED) for setting in trials["setting"] for name in setting if name.startswith(TRAINED)}
    for loss, mine in trials.groupby("loss", sort=False):
        finals = mine[(mine["role"] == "final") & (mine["status"] == "FINISHED")]
        found.setdefault("search trials", {})[str(loss)] = str(int((mine["role"] == "search").sum()))
        found.setdefault("seeds", {})[str(loss)] = str(finals["seed"].nunique())
        for name, value in flat(rows.specs.get(str(mine["cell"].iloc[0]), {}), str(loss)):
            if name not in searched:
                found.setdefault(name, {})[str(loss)] = value
    return found


def flat(spec: Mapping[str, Any], loss: str) -> Iterator[tuple[str, str]]:
    for part, kind in PARTS.items():
        for name in (field.name for field in fields(kind)):
            if name in spec.get(part, {}) and name not in HARMLESS:
                value = spec[part][name]
                yield name, _by_card(loss) if (name, value) == ("batches", None) else str(value)


def _by_card(loss: str) -> str:
    """The kind of batches that a loss has where the study leaves it to its card."""
    try:
        return find_card(loss).batches
    except ValueError:  # a loss of someone's own that is not at hand here
        return "as its card says"


def differing(found: Ledger) -> Iterator[tuple[str, dict[str, list[str]]]]:
    """What has several values: value -> who has it."""
    for name, values in found.items():
        by_value: dict[str, list[str]] = {}
        for who, value in values.items():
            by_value.setdefault(value, []).append(who)
        if len(by_value) > 1:
            yield name, by_value


def _said(name: str, by_value: Mapping[str, Iterable[str]]) -> str:
    """The commonest value without the names of all who have it."""
    ordered = sorted(by_value.items(), key=lambda item: -len(list(item[1])))
    (most, _), *rest = ordered
    return f"{name.replace('_', ' ')} {most}, but " + ", ".join(f"{value} for {' and '.join(who)}" for value, who in rest)
