"""Notice trials that make no progress, and end their slots so that they are tried elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.tune.experiment import Trial

from analysis.record.events import TrialStalled
from analysis.record.record import Record
from analysis.record.state import TrialState
from trainables.outputs.checkpoints import WAITING

RETRIES = 2  # of a trial whose process died, until it makes progress by an epoch
LOOK = 1.0  # seconds between two looks at the trials
# Seconds that a trial may need for what it has not done before (start, decode images, read the test
# classes, leave its files), for an epoch, and in multiples of its cell's slowest epoch.
FIRST, LEAST, SLOWER = 1800.0, 300.0, 10


@dataclass
class Sign:
    """Hold what a trial was seen to do last, and since when."""

    of: tuple[Any, ...]
    since: float
    moved: bool = False  # since its slot began it


class Stalls:
    """Look at the running trials; one that makes no progress is put on record, and its slot killed.

    Tune then hears that the slot died, and tries the trial again in another one; after the third
    time it gives up.
    """

    def __init__(
        self,
        record: Record,
        minutes: float | None,
        *,
        kill: Callable[[Any], None] = ray.kill,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.record, self.minutes, self.kill, self.now = record, minutes, kill, now
        self.signs: dict[str, Sign] = {}
        self.looked = 0.0

    def look(self, trials: Iterable[Trial]) -> None:
        """Look at all trials of Tune; it calls this ten times a second."""
        now = self.now()
        if now - self.looked < LOOK:
            return
        self.looked, before, self.signs = now, self.signs, {}
        for trial in trials:
            slot = trial.temporary_state.ray_actor
            if slot is not None and not trial.is_finished():
                key = trial.config["trial"]
                self.signs[key] = self._sign(trial, slot, before.get(key))
                self._judge(trial, slot, now - self.signs[key].since)

    def _sign(self, trial: Trial, slot: Any, last: Sign | None) -> Sign:
        result = (trial.last_result or {}).get("training_iteration")
        of = (slot, trial.status, trial.is_saving, result)
        if last and last.of == of:
            return last
        if not last or last.of[0] != slot:
            return Sign(of, self.now())
        return Sign(of, self.now(), last.moved or last.of[3] != result)

    def _judge(self, trial: Trial, slot: Any, seconds: float) -> None:
        state = self.record.state.trials[trial.config["trial"]]
        if seconds <= self.limit(state, usual=self._is_usual(trial, state)):
            return
        if Path(trial.config["saving"].folder, WAITING).exists():  # for nodes: that may take long
            self.signs[state.started.trial].since = self.now()
            return
        self.record.note(TrialStalled(trial=state.started.trial, seconds=round(seconds, 1)))
        # Deaths of slots are counted by Tune, stalls by the record.
        trial.run_metadata.num_failures = RETRIES if state.has_stalled else 0
        self.kill(slot)
        del self.signs[state.started.trial]

    def _is_usual(self, trial: Trial, state: TrialState) -> bool:
        """Return whether the trial is in an epoch like those before."""
        is_training = not (state.trained or trial.is_saving)
        return self.signs[state.started.trial].moved and is_training

    def limit(self, state: TrialState, *, usual: bool) -> float:
        """Return after how many seconds without progress the trial counts as stalled."""
        if self.minutes is not None:
            return 60 * self.minutes
        slowest = self.record.state.cells[state.id.cell].slowest
        return max(LEAST if usual else FIRST, SLOWER * slowest)
