"""Lay out what tuning, the choice of the epoch and fewer train classes are each worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import Ranking, RankingRow
from analysis.ranking.readings import DEFAULT, HONEST, PUBLISHED, REFIT, TUNED, VALIDATION
from analysis.ranking.steps import Condition, condition_of
from trainables.contract import CONCATENATED, LAST, PEEKING

# Train classes and rule. With fewer classes no epoch is ever chosen on the test classes, so that
# column does not exist.
COLUMNS = (("all", PEEKING), ("all", REFIT), ("all", LAST), ("fewer", HONEST), ("fewer", LAST))
ORDER: list[Condition] = [(setting, *each) for setting in (PUBLISHED, TUNED) for each in COLUMNS]
EPOCHS = {
    PEEKING: "best-on-test",
    HONEST: "validation epoch",
    REFIT: "validation epoch",
    LAST: "last epoch",
}
MIN_EXTRA = 3  # conditions beyond the two that the ranking itself shows


@dataclass(frozen=True)
class Decomposition:
    """Hold by loss and condition the measurements by metric."""

    title: str
    protocol: str
    numbers: dict[str, dict[Condition, dict[str, Measurement]]]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Return the train classes and rules for which there is a number."""
        measured = {condition[1:] for found in self.numbers.values() for condition in found}
        return [column for column in COLUMNS if column in measured]

    def lines(self) -> list[tuple[str, str, list[dict[str, Measurement]]]]:
        """Return loss, setting and the measurements of each column; empty where there are none."""
        return [
            (loss, setting, [found.get((setting, *column), {}) for column in self.columns])
            for loss, found in self.numbers.items()
            for setting in (PUBLISHED, TUNED)
            if any(condition[0] == setting for condition in found)
        ]

    def plain(self) -> list[dict[str, Any]]:
        """Return one dict per measurement."""
        return [
            {
                "loss": loss,
                "setting": setting,
                "epoch": EPOCHS[rule],
                "train_classes": classes,
                "metric": metric,
                "value": number.value,
                "low": number.low,
                "high": number.high,
                "rule": rule,
                "peeks": number.peeks,
                "replicates": number.replicates,
            }
            for loss, found in self.numbers.items()
            for (setting, classes, rule), numbers in found.items()
            for metric, number in numbers.items()
        ]


def decomposition(ranking: Ranking) -> Decomposition | None:
    """Return the decomposition, or None if it says hardly more than the ranking itself."""
    if ranking.closed:  # it has no setups to tell apart
        return None
    numbers = {row.loss: _by_condition(row) for row in ranking.rows}
    own = {row.loss: dict(_own(row)).keys() for row in ranking.rows}
    extra = {each for loss, found in numbers.items() for each in found if each not in own[loss]}
    if len(extra) < MIN_EXTRA:
        return None
    return Decomposition(ranking.title, ranking.protocol, numbers)


def plain(ranking: Ranking) -> dict[str, Any]:
    """Return a ranking and its decomposition as lists, dicts, strings and numbers."""
    parts = decomposition(ranking)
    return asdict(ranking) | {"decomposition": parts.plain() if parts else []}


def _own(row: RankingRow) -> list[tuple[Condition, dict[str, Measurement]]]:
    setups = {DEFAULT: row.default, VALIDATION: row.validation}
    return [(_condition(numbers, setup), numbers) for setup, numbers in setups.items() if numbers]


def _by_condition(row: RankingRow) -> dict[Condition, dict[str, Measurement]]:
    beside = [
        (_condition(one.numbers, one.setup), one.numbers)
        for one in row.beside
        if CONCATENATED not in one.what
    ]
    # Of several numbers of one condition the first counts, and the loss's own come first.
    numbers = dict(reversed([*_own(row), *beside]))
    return {condition: numbers[condition] for condition in ORDER if condition in numbers}


def _condition(numbers: dict[str, Measurement], setup: str) -> Condition:
    return condition_of(setup, next(iter(numbers.values())))
