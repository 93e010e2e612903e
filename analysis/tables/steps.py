"""Steps: what doing without peeking, fewer train classes and tuning each change for a loss, as paired differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.readings import DEFAULT, HONEST, PUBLISHED, REFIT, TUNED
from analysis.tables.draws import Drawn, minus
from analysis.tables.number import Number
from trainables.contract import CONCATENATED, LAST, PEEKING

Spot = tuple[str, str, str]  # setting, train classes, rule
# Of every step pairs of spots, the first minus the second. Of several the first that any loss of a ranking has counts for all losses.
# The first pairs of all steps lead from the default to the validation setup and add up to its difference.
PAIRS: dict[str, tuple[tuple[Spot, Spot], ...]] = {
    "no peeking": (
        ((PUBLISHED, "all", REFIT), (PUBLISHED, "all", PEEKING)),
        ((TUNED, "all", REFIT), (TUNED, "all", PEEKING)),
        ((PUBLISHED, "all", LAST), (PUBLISHED, "all", PEEKING)),
    ),
    "fewer train classes": (
        ((PUBLISHED, "fewer", HONEST), (PUBLISHED, "all", REFIT)),
        ((TUNED, "fewer", HONEST), (TUNED, "all", REFIT)),
        ((PUBLISHED, "fewer", LAST), (PUBLISHED, "all", LAST)),
    ),
    "tuning": (((TUNED, "fewer", HONEST), (PUBLISHED, "fewer", HONEST)),),
}
# What a study asks for to have the first pair of each step.
ASKED = {
    "no peeking": "the protocols default and another one, refit and published_too",
    "fewer train classes": "refit and published_too",
    "tuning": "a search and published_too",
}


@dataclass(frozen=True)
class Step:
    """A loss's difference by metric; where there is none, why not."""

    name: str
    one: Spot
    other: Spot
    difference: dict[str, Number]
    why_not: str = ""

    @property
    def what(self) -> str:
        """One minus the other, and what both share."""
        told = [_told(self.one), _told(self.other)]
        own = [", ".join(part for part, there in zip(mine, theirs, strict=True) if part != there) for mine, theirs in (told, told[::-1])]
        shared = ", ".join(part for part, there in zip(*told, strict=True) if part == there)
        return f"{own[0]} minus {own[1]}; {shared}"


def _told(spot: Spot) -> tuple[str, str, str]:
    setting, classes, rule = spot
    return f"{setting} setting", f"{classes} train classes", rule


def spot(setup: str, number: Number) -> Spot:
    """Where a number of a setup stands."""
    setting = PUBLISHED if number.setting == PUBLISHED else TUNED
    return setting, "all" if setup == DEFAULT or number.rule == REFIT else "fewer", number.rule


def steps(drawn: Iterable[Drawn]) -> dict[str, list[Step]]:
    """By loss the steps that some loss of this ranking has."""
    spots: dict[str, dict[Spot, Drawn]] = {}
    for one in drawn:
        if one.numbers and one.reading.setting and CONCATENATED not in one.reading.what:
            spots.setdefault(one.reading.loss, {})[spot(one.reading.setup, next(iter(one.numbers.values())))] = one
    pairs = {
        name: next((pair for pair in every if any({*pair} <= there.keys() for there in spots.values())), None)
        for name, every in PAIRS.items()
    }
    return {loss: [_step(name, pair, there) for name, pair in pairs.items() if pair] for loss, there in spots.items()}


def _step(name: str, pair: tuple[Spot, Spot], there: Mapping[Spot, Drawn]) -> Step:
    missing = [", ".join(_told(spot)) for spot in pair if spot not in there]
    return Step(name, *pair, minus(*map(there.get, pair)), f"no final trial finished with {' nor '.join(missing)}" if missing else "")
