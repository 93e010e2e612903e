"""Try every combination of each parameter's levels."""

import math

from study.strategies.strategy import Setting, Space


class GridSearch:
    """Try every combination, the last parameter changing fastest; it numbers combinations and never
    lists them.
    """

    about = (
        "the published setting, then every combination of each parameter's grid: a source's, or "
        "five levels of its range"
    )

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.levels = {key: param.levels() for key, param in space.items()}
        self.first, self.suggested = first, 0
        self.size = math.prod(map(len, self.levels.values()))
        self.published = self._number(first)

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        grid = GridSearch(space, first=first, trials=budget, seed=0)
        return grid.size + (grid.published is None)

    def suggest(self, trial_id: str) -> Setting | None:
        self.suggested += 1
        if self.suggested == 1:
            return self.first
        number = self.suggested - 2
        number += self.published is not None and number >= self.published  # it came first
        return self._combination(number) if number < self.size else None

    def _combination(self, number: int) -> Setting:
        setting: Setting = {}
        for key, values in reversed(self.levels.items()):
            number, level = divmod(number, len(values))
            setting[key] = values[level]
        return {key: setting[key] for key in self.levels}

    def _number(self, setting: Setting) -> int | None:
        """Return which combination this is, or None if it is not on the grid."""
        number = 0
        for key, values in self.levels.items():
            if setting[key] not in values:
                return None
            number = number * len(values) + values.index(setting[key])
        return number

    def complete(self, trial_id: str, score: float | None) -> None:
        pass
