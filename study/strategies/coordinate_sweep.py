"""Sweep one parameter after the other, as the thesis does."""

import math

from search_spaces import Value
from study.strategies.strategy import Setting, Space


class CoordinateSweep:
    """Sweep the parameters as the thesis does (table 15): in the card's order, each over its whole
    grid at the best setting so far.

    Of equal scores the earlier wins. A sweep begins when the last one has ended. It tries the best
    setting again when its value of the next parameter is on that grid: the thesis counts it, and so
    do we.
    """

    about = (
        "the thesis's sweep: one parameter after the other over its whole grid, the best value "
        "kept for the next"
    )

    def __init__(self, space: Space, *, first: Setting, trials: int, seed: int) -> None:
        self.levels = _swept(space)
        self.unswept = list(self.levels)
        # score, minus its number, setting
        self.best: tuple[float, int, Setting] = (-math.inf, 0, first)
        self.running: dict[str, tuple[int, Setting]] = {}
        self.suggested = 0
        # The published setting opens the first sweep, and belongs to it if its value is on the
        # grid.
        self.waiting = [first, *(setting for setting in self._sweep() if setting != first)]

    @staticmethod
    def trials(space: Space, *, first: Setting, budget: int) -> int:
        levels = _swept(space)
        belongs = any(first[key] in values for key, values in list(levels.items())[:1])
        return sum(map(len, levels.values())) + (not belongs)

    def suggest(self, trial_id: str) -> Setting | None:
        if not self.waiting and not self.running:
            self.waiting = self._sweep()
        if not self.waiting:
            return None
        setting = self.waiting.pop(0)
        self.running[trial_id] = self.suggested, setting
        self.suggested += 1
        return setting

    def _sweep(self) -> list[Setting]:
        """Return every value of the next parameter, with the others as in the best setting."""
        if not self.unswept:
            return []
        key = self.unswept.pop(0)
        return [{**self.best[2], key: value} for value in self.levels[key]]

    def complete(self, trial_id: str, score: float | None) -> None:
        number, setting = self.running.pop(trial_id)
        if score is not None and (score, -number) > self.best[:2]:
            self.best = score, -number, setting


def _swept(space: Space) -> dict[str, tuple[Value, ...]]:
    """Return the levels of every parameter that has more than one."""
    return {key: param.levels() for key, param in space.items() if len(param.levels()) > 1}
