"""Strategies: who proposes the settings of one cell. The published setting is always first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random as Rng
from typing import Any, Protocol

from search_spaces import Choice, Param, Range, Value

Setting = dict[str, Value]
START = 12  # random settings at most, before the estimates lead; 6 and 20 were slower in benchmarks/search.py
Space = Mapping[str, Param]  # flat keys: {"loss.margin": Param(...)}


class Strategy(Protocol):
    """suggest() gives the next setting, or None: it waits until a running one completes.

    complete() tells how a setting did, None where nothing can be said. trials() is how many settings it tries in all: the
    study's budget, or as many as its rule has. The first one is always the published setting.
    """

    about: str

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None: ...
    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int: ...
    def suggest(self, trial_id: str) -> Setting | None: ...
    def complete(self, trial_id: str, score: float | None) -> None: ...


class Fixed:
    """Never asked: a cell under it has no search trials."""

    about = "the published setting only; nothing is searched"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.first = first

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        return 0

    def suggest(self, trial_id: str) -> Setting:
        return self.first

    def complete(self, trial_id: str, score: float | None) -> None:
        pass


class Random:
    """Independent draws."""

    about = "the published setting, then independent draws from the ranges"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.space, self.first, self.rng = space, first, Rng(seed)
        self.started = False

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        return budget

    def suggest(self, trial_id: str) -> Setting:
        if not self.started:
            self.started = True
            return self.first
        return {key: self._draw(param.search) for key, param in self.space.items()}

    def _draw(self, domain: Range | Choice) -> Value:
        if isinstance(domain, Choice):
            return self.rng.choice(domain.options)
        if domain.integer and not domain.log:
            return float(self.rng.randint(int(domain.low), int(domain.high)))
        if domain.log:
            return domain.nearest(math.exp(self.rng.uniform(math.log(domain.low), math.log(domain.high))))
        return domain.nearest(self.rng.uniform(domain.low, domain.high))

    def complete(self, trial_id: str, score: float | None) -> None:
        pass


class HyperOpt:
    """Tree of Parzen estimators, with a random start sized to the budget."""

    about = "tree of Parzen estimators: the published setting, a random start, then near what was good"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        from ray.tune.search.hyperopt import HyperOptSearch

        self.space = space
        domain = {key: _tune(param.search) for key, param in space.items()}
        # HyperOpt's own start of 20 would make a search of 8 purely random.
        start = min(START, max(2, trials // 3))
        self.search = HyperOptSearch(
            HyperOptSearch.convert_search_space(domain),
            metric="score",
            mode="max",
            points_to_evaluate=[first],
            n_initial_points=start,
            random_state_seed=seed,
        )

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        return budget

    def suggest(self, trial_id: str) -> Setting:
        setting = self.search.suggest(trial_id)
        assert setting is not None
        parts = {key: (self.space[key].search, value) for key, value in setting.items()}
        return {key: value if isinstance(domain, Choice) else domain.nearest(value) for key, (domain, value) in parts.items()}

    def complete(self, trial_id: str, score: float | None) -> None:
        self.search.on_trial_complete(trial_id, None if score is None else {"score": score}, error=score is None)


def _tune(domain: Range | Choice) -> Any:
    """The same in Tune's words; whole numbers are rounded afterwards."""
    from ray import tune

    if isinstance(domain, Choice):
        return tune.choice(list(domain.options))
    if domain.log:
        return tune.loguniform(domain.low, domain.high)
    half = 0.499 if domain.integer else 0.0  # so that the ends are as likely as the rest
    return tune.uniform(domain.low - half, domain.high + half)


class Grid:
    """Every combination, the last parameter changing fastest. What its parameters have in levels is counted, never listed."""

    about = "the published setting, then every combination of each parameter's grid: a source's, or five levels of its range"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.levels = {key: param.levels() for key, param in space.items()}
        self.first, self.given = first, 0
        self.size = math.prod(map(len, self.levels.values()))
        self.published = self._number(first)

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        grid = Grid(space, first=first, trials=budget, seed=0)
        return grid.size + (grid.published is None)

    def suggest(self, trial_id: str) -> Setting | None:
        self.given += 1
        if self.given == 1:
            return self.first
        number = self.given - 2
        number += self.published is not None and number >= self.published  # it came first
        return self._combination(number) if number < self.size else None

    def _combination(self, number: int) -> Setting:
        setting: Setting = {}
        for key, values in reversed(self.levels.items()):
            number, place = divmod(number, len(values))
            setting[key] = values[place]
        return {key: setting[key] for key in self.levels}

    def _number(self, setting: Setting) -> int | None:
        """Which combination this is; None: it is not on the grid."""
        number = 0
        for key, values in self.levels.items():
            if setting[key] not in values:
                return None
            number = number * len(values) + values.index(setting[key])
        return number

    def complete(self, trial_id: str, score: float | None) -> None:
        pass


class Coordinate:
    """The thesis's sweep (table 15): the parameters in the card's order, the table's, each over its whole grid at the best setting so far.

    Of equals the earlier wins. A sweep begins when the last one has ended. The best setting is tried again when its value of the next
    parameter is on that grid: the thesis counts it, and so do we.
    """

    about = "the thesis's sweep: one parameter after the other over its whole grid, the best value kept for the next"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.levels = _swept(space)
        self.left = list(self.levels)  # parameters not swept yet
        self.best: tuple[float, int, Setting] = (-math.inf, 0, first)  # score, minus its number, setting
        self.running: dict[str, tuple[int, Setting]] = {}
        self.given = 0
        # The published setting opens the first sweep, of which it is a part if its value is on the grid.
        self.waiting = [first, *(setting for setting in self._sweep() if setting != first)]

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        levels = _swept(space)
        begins = any(first[key] in values for key, values in list(levels.items())[:1])  # the published setting is part of a sweep
        return sum(map(len, levels.values())) + (not begins)

    def suggest(self, trial_id: str) -> Setting | None:
        if not self.waiting and not self.running:
            self.waiting = self._sweep()
        if not self.waiting:
            return None
        setting = self.waiting.pop(0)
        self.running[trial_id] = self.given, setting
        self.given += 1
        return setting

    def _sweep(self) -> list[Setting]:
        """Every value of the next parameter, the others as in the best setting so far."""
        if not self.left:
            return []
        key = self.left.pop(0)
        return [{**self.best[2], key: value} for value in self.levels[key]]

    def complete(self, trial_id: str, score: float | None) -> None:
        number, setting = self.running.pop(trial_id)
        if score is not None and (score, -number) > self.best[:2]:
            self.best = score, -number, setting


def _swept(space: Space) -> dict[str, tuple[Value, ...]]:
    """The levels of every parameter that has more than one."""
    return {key: param.levels() for key, param in space.items() if len(param.levels()) > 1}


STRATEGIES: dict[str, type[Strategy]] = {
    "hyperopt": HyperOpt,
    "random": Random,
    "grid": Grid,
    "coordinate": Coordinate,
    "fixed": Fixed,
}
