"""Draw settings independently from the ranges."""

import math
from random import Random

from search_spaces import Choice, Range, Value
from study.strategies.strategy import Setting, Space


class RandomSearch:
    """Draw every setting independently of all others."""

    about = "the published setting, then independent draws from the ranges"

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.space, self.first, self.rng = space, first, Random(seed)
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
            low, high = math.log(domain.low), math.log(domain.high)
            return domain.nearest(math.exp(self.rng.uniform(low, high)))
        return domain.nearest(self.rng.uniform(domain.low, domain.high))

    def complete(self, trial_id: str, score: float | None) -> None:
        pass
