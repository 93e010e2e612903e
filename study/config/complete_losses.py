"""Tell which losses have all their final trials, while a study runs."""

from __future__ import annotations

from collections import Counter

from analysis.record.state import StudyState
from study.config.plan import StudyPlan
from study.config.protocols import find_protocol
from trainables.contract import PEEKING


class CompleteLosses:
    """Hold the losses of which nothing is left to run, but for cells that choose on test."""

    def __init__(self, plan: StudyPlan) -> None:
        self.losses: set[str] = set()
        self._planned: Counter[str] = Counter()
        self._cells = [c for c in plan.cells if find_protocol(c.protocol).rule != PEEKING]
        for cell in self._cells:
            self._planned[cell.loss] += sum(plan.trials(cell))

    def grew(self, state: StudyState) -> bool:
        """Return whether a further loss is complete now."""
        ended: Counter[str] = Counter()
        for cell in self._cells:
            if progress := state.cells.get(cell):
                ended[cell.loss] += progress.ended
        now = {loss for loss, planned in self._planned.items() if ended[loss] >= planned}
        grew = not now <= self.losses
        self.losses = now
        return grew
