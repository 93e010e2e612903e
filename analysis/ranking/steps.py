"""Measure what each step from the default to the validation setup changes: no peeking, fewer train
classes, tuning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from analysis.ranking.measurement import Measurement
from analysis.ranking.readings import DEFAULT, HONEST, PUBLISHED, REFIT, TUNED
from analysis.ranking.samples import Sampled, minus
from trainables.contract import CONCATENATED, LAST, PEEKING

Condition = tuple[str, str, str]  # setting, train classes, rule
# The pairs of conditions of every step, the first minus the second. The first pair that any loss of
# a ranking has counts for all losses. The first pairs of all steps lead from the default to the
# validation setup and add up to its difference.
PAIRS: dict[str, tuple[tuple[Condition, Condition], ...]] = {
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
# What a study must ask for to have the first pair of each step.
NEEDS = {
    "no peeking": "the protocols default and another one, refit and published_too",
    "fewer train classes": "refit and published_too",
    "tuning": "a search and published_too",
}


@dataclass(frozen=True)
class RankingStep:
    """Hold what one step changes for a loss, by metric; or why there is no number."""

    name: str
    one: Condition
    other: Condition
    difference: dict[str, Measurement]
    why_not: str = ""

    @property
    def what(self) -> str:
        """Return how the two conditions differ, and what they share."""
        words = [_words(self.one), _words(self.other)]
        own = [
            ", ".join(part for part, less in zip(mine, theirs, strict=True) if part != less)
            for mine, theirs in (words, words[::-1])
        ]
        shared = ", ".join(part for part, less in zip(*words, strict=True) if part == less)
        return f"{own[0]} minus {own[1]}; {shared}"


def _words(condition: Condition) -> tuple[str, str, str]:
    setting, classes, rule = condition
    return f"{setting} setting", f"{classes} train classes", rule


def condition_of(setup: str, number: Measurement) -> Condition:
    """Return the condition under which a setup's number was measured."""
    setting = PUBLISHED if number.setting == PUBLISHED else TUNED
    return setting, "all" if setup == DEFAULT or number.rule == REFIT else "fewer", number.rule


def steps(sampled: Iterable[Sampled]) -> dict[str, list[RankingStep]]:
    """Return by loss the steps that some loss of this ranking has."""
    by_loss: dict[str, dict[Condition, Sampled]] = {}
    for one in sampled:
        if one.numbers and one.reading.setting and CONCATENATED not in one.reading.what:
            condition = condition_of(one.reading.setup, next(iter(one.numbers.values())))
            by_loss.setdefault(one.reading.loss, {}).setdefault(condition, one)
    measured = [found.keys() for found in by_loss.values()]
    every: dict[str, list[RankingStep]] = {loss: [] for loss in by_loss}
    for name, possible in PAIRS.items():
        pair = next((each for each in possible if any({*each} <= keys for keys in measured)), None)
        if pair:
            both = {
                loss: (found.get(pair[0]), found.get(pair[1])) for loss, found in by_loss.items()
            }
            for loss, difference in minus(both).items():
                why_not = _why_not(pair, by_loss[loss])
                every[loss].append(RankingStep(name, *pair, difference, why_not))
    return every


def _why_not(pair: tuple[Condition, Condition], found: Mapping[Condition, Sampled]) -> str:
    missing = [", ".join(_words(condition)) for condition in pair if condition not in found]
    return f"no final trial finished with {' nor '.join(missing)}" if missing else ""
