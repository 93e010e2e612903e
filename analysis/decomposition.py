"""The decomposition: what tuning, the choice of the epoch and fewer train classes are each worth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from analysis.readings import DEFAULT, HONEST, REFIT
from analysis.tables import Number, Ranking, RankingRow
from analysis.tables.steps import Spot, spot
from trainables.contract import CONCATENATED, LAST, PEEKING

SETTINGS = ("published", "tuned")
# Columns: train classes and rule. With fewer classes no epoch is ever chosen on the test classes, so that column does not exist.
COLUMNS = (("all", PEEKING), ("all", REFIT), ("all", LAST), ("fewer", HONEST), ("fewer", LAST))
EPOCHS = {PEEKING: "best-on-test", HONEST: "validation epoch", REFIT: "validation epoch", LAST: "last epoch"}
STEPS = "Recall@1 by setting (tuned: with the feedback of its own setup), train classes and rule"
ENOUGH = 3  # cells beyond the two that the ranking itself shows


@dataclass(frozen=True)
class Decomposition:
    """By loss: the numbers by metric of each cell that exists."""

    title: str
    protocol: str
    cells: dict[str, dict[Spot, dict[str, Number]]]

    @property
    def columns(self) -> list[tuple[str, str]]:
        """Those with a number."""
        there = {place[1:] for cells in self.cells.values() for place in cells}
        return [column for column in COLUMNS if column in there]

    def lines(self) -> list[tuple[str, str, list[dict[str, Number]]]]:
        """Loss, setting, and the numbers of each column; empty where there are none."""
        return [
            (loss, setting, [cells.get((setting, *column), {}) for column in self.columns])
            for loss, cells in self.cells.items()
            for setting in SETTINGS
            if any(place[0] == setting for place in cells)
        ]

    def plain(self) -> list[dict[str, Any]]:
        """One dict per number, its rule among its values."""
        return [
            {"loss": loss, "setting": setting, "epoch": EPOCHS[rule], "train_classes": classes, "metric": metric}
            | {"value": number.value, "low": number.low, "high": number.high, "rule": rule, "peeks": number.peeks, "seeds": number.seeds}
            for loss, cells in self.cells.items()
            for (setting, classes, rule), numbers in cells.items()
            for metric, number in numbers.items()
        ]


def decomposition(ranking: Ranking) -> Decomposition | None:
    """None if the numbers are hardly more than those of the ranking itself."""
    cells = {row.loss: dict(_cells(row)) for row in ranking.rows}
    own = {row.loss: {_place(side, name) for name, side in _sides(row).items() if side} for row in ranking.rows}
    beyond = {place for loss, found in cells.items() for place in found if place not in own[loss]}
    return Decomposition(ranking.title, ranking.protocol, cells) if len(beyond) >= ENOUGH else None


def _sides(row: RankingRow) -> dict[str, dict[str, Number]]:
    return {DEFAULT: row.default, "validation": row.validation}


def _cells(row: RankingRow) -> list[tuple[Spot, dict[str, Number]]]:
    found = [(_place(side, name), side) for name, side in _sides(row).items() if side]
    found += [(_place(one.numbers, one.setup), one.numbers) for one in row.beside if CONCATENATED not in one.what]
    order = {(setting, *column): i for i, (setting, column) in enumerate((s, c) for s in SETTINGS for c in COLUMNS)}
    return sorted(found, key=lambda cell: order[cell[0]])


def _place(numbers: dict[str, Number], setup: str) -> Spot:
    return spot(setup, next(iter(numbers.values())))
