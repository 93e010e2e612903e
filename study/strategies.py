"""Strategies: who proposes the settings of one cell. The published setting is always first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random as Rng
from typing import Any, Protocol

from search_spaces import Choice, Range, Value

Setting = dict[str, Value]
Space = Mapping[str, Range | Choice]  # flat keys: {"loss.margin": Range(0, 1)}


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
        return {key: self._draw(domain) for key, domain in self.space.items()}

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
        domain = {key: _tune(part) for key, part in space.items()}
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
        return {key: value if isinstance(self.space[key], Choice) else self.space[key].nearest(value) for key, value in setting.items()}

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


STRATEGIES: dict[str, type[Strategy]] = {"hyperopt": HyperOpt, "random": Random, "fixed": Fixed}
