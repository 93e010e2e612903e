"""Readings in resampled worlds that all of them share, so that every comparison is paired."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.readings import Parts, Reading
from analysis.statistics import Floats, bootstrap, interval
from analysis.tables.number import Number
from trainables.contract import PEEKING


@dataclass(frozen=True)
class Drawn:
    """A reading's numbers, and its means in the worlds that all readings share."""

    reading: Reading
    numbers: dict[str, Number]
    worlds: dict[str, Floats]


def draw(found: Sequence[Reading], parts: Parts, metrics: Sequence[str]) -> list[Drawn]:
    drawn = [Drawn(reading, {}, {}) for reading in found]
    for metric in metrics:
        groups = {reading: reading.sums(parts, metric) for reading in found if reading.has(parts, metric)}
        worlds = bootstrap(groups, ties={reading: reading.tie for reading in groups})
        for one in drawn:
            if (group := groups.get(one.reading)) is not None:
                rule, setting = one.reading.rule, one.reading.setting
                one.worlds[metric] = worlds[one.reading]
                one.numbers[metric] = Number(
                    group.mean(), *interval(worlds[one.reading]), rule=rule, seeds=len(group.sums), setting=setting
                )
    return drawn


def minus(one: Drawn | None, other: Drawn | None) -> dict[str, Number]:
    """The paired difference; it carries the rule of what comes first, or the mark if either side was chosen with test feedback."""
    if not one or not other:
        return {}
    found = {}
    for metric in one.numbers.keys() & other.numbers.keys():
        number, less = one.numbers[metric], other.numbers[metric]
        low, high = interval(one.worlds[metric] - other.worlds[metric])
        rule = PEEKING if number.peeks or less.peeks else number.rule
        found[metric] = Number(number.value - less.value, low, high, rule)
    return found
