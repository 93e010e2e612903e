"""Strategies: who proposes the settings of one cell. The published setting is always first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random as Rng
from typing import Any, Protocol

from search_spaces import Range

Setting = dict[str, float]
Space = Mapping[str, Range]  # flat keys: {"loss.margin": Range(0, 1)}


class Strategy(Protocol):
    """suggest() gives the next setting; complete() tells how it did, None where nothing can be said."""

    about: str

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None: ...
    def suggest(self, trial_id: str) -> Setting: ...
    def complete(self, trial_id: str, score: float | None) -> None: ...


class Fixed:
    """Never asked: a cell under it has no search trials."""

    about = "the published setting only; nothing is searched"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.first = first

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

    def suggest(self, trial_id: str) -> Setting:
        if not self.started:
            self.started = True
            return self.first
        return {key: self._draw(range_) for key, range_ in self.space.items()}

    def _draw(self, range_: Range) -> float:
        if range_.log:
            return math.exp(self.rng.uniform(math.log(range_.low), math.log(range_.high)))
        return self.rng.uniform(range_.low, range_.high)

    def complete(self, trial_id: str, score: float | None) -> None:
        pass


class HyperOpt:
    """Tree of Parzen estimators, with a random start sized to the budget."""

    about = "tree of Parzen estimators: the published setting, a random start, then near what was good"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        from ray import tune
        from ray.tune.search.hyperopt import HyperOptSearch

        domain: dict[str, Any] = {key: tune.loguniform(r.low, r.high) if r.log else tune.uniform(r.low, r.high) for key, r in space.items()}
        # HyperOpt's own start of 20 would make a search of 8 purely random.
        start = min(20, max(2, trials // 3))
        self.search = HyperOptSearch(
            HyperOptSearch.convert_search_space(domain),
            metric="score",
            mode="max",
            points_to_evaluate=[first],
            n_initial_points=start,
            random_state_seed=seed,
        )

    def suggest(self, trial_id: str) -> Setting:
        setting = self.search.suggest(trial_id)
        assert setting is not None
        return {key: float(value) for key, value in setting.items()}

    def complete(self, trial_id: str, score: float | None) -> None:
        self.search.on_trial_complete(trial_id, None if score is None else {"score": score}, error=score is None)


STRATEGIES: dict[str, type[Strategy]] = {"hyperopt": HyperOpt, "random": Random, "fixed": Fixed}
