"""Record what Tune reports to the driver: trials, epochs, ends and readings of test classes."""

from __future__ import annotations

import math
import os
import re
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ray.tune import Callback, Checkpoint
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from analysis.record.events import EpochDone, Outcome, TestRead, TrialEnded, TrialStarted
from analysis.record.kept_files import LostArtifact
from analysis.record.record import Record
from analysis.record.specs import write_spec
from analysis.record.state import NO_REST, TrialState
from study.config.plan import StudyPlan
from study.driver.checkpoints import drop_checkpoints, files_left, keep_outputs
from study.search.cell_search import TrialAssignment
from trainables.contract import TrialSpec, WrongNode

# A trial's process dies elsewhere, and only the text of its error comes back.
DISK_FULL = re.compile(
    "(No space left on device|Disk quota exceeded|Read-only file system)(?:: '([^']+)')?"
)
WRONG_NODE = re.compile(f"{WrongNode.__name__}: (.+)")
CHECKPOINTS = 2  # to keep of a trial: a power loss may leave the last one incomplete
# Between two checkpoints of a trial. A kill costs at most that many seconds or one epoch, whichever
# is longer; short trials lose no time to checkpoints.
CHECKPOINT_SECONDS = 30.0
# Tune would write four files for every trial, and all trials into one again and again; the ledger
# has everything.
for _name, _value in {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
}.items():
    os.environ.setdefault(_name, _value)


@dataclass(frozen=True)
class Obstacle:
    """Say why a study cannot continue here, though none of its trials is to blame."""

    kind: Literal["disk_full", "wrong_node", "lost_artifact"]
    text: str


class TuneCallback(Callback):
    """Record what happens. obstacle: what ends the study before its time."""

    def __init__(self, plan: StudyPlan, record: Record) -> None:
        self.plan, self.record = plan, record
        # Trials that this driver has started, and the last epoch that each has reported.
        self.reported: dict[str, int] = {}
        self.saved: dict[str, float] = {}  # when each running trial began, or was saved last
        self.obstacle: Obstacle | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles its callbacks, but the record has everything."""
        return {}

    def assigned(self, assignment: TrialAssignment) -> None:
        """Record a trial before anyone trains it."""
        spec = assignment.spec
        self.record.note(
            TrialStarted(
                trial=str(assignment.trial),
                label=self.plan.label(spec.cell),
                seed=spec.seed,
                setting=dict(spec.setting),
                tuned=spec.tuned,
                epochs=spec.training.epochs,
                rule=spec.rule,
                spec=write_spec(self.record.folder, spec),
                extended=assignment.extended,
            )
        )

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        key, spec = _of(trial)
        self.saved[key] = time.monotonic()
        if key not in self.reported:
            self.reported[key] = self._state(key).epoch
        elif spec.peeks and (last := self.reported[key]) < spec.training.epochs:
            # A retry: the epoch that was cut off may have been scored and not reported.
            self._reads(key, [(str(last + 1), spec.rule)])

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        key, spec = _of(trial)
        result[SHOULD_CHECKPOINT] = self._must_save(key, result)  # Tune reads it after this call
        self.reported[key] = result["epoch"]
        # A slot that died after this epoch and before its checkpoint runs it again.
        rows = self._state(key).rows
        known = bool(rows) and result["epoch"] <= rows[-1].epoch
        again = [result["epoch"]] * known + result.get("again", [])
        if spec.peeks and "chosen_epoch" not in result and again:
            self._reads(key, [(str(epoch), spec.rule) for epoch in again])
        if result.get("reads"):  # on record before it happens: Tune asks for the next step later
            self._reads(key, result["reads"])
        if known or result.get("reads"):
            return
        trial.run_metadata.num_failures = 0  # it makes progress: nodes that it lost do not count
        self.record.note(
            EpochDone(
                trial=key,
                epoch=result["epoch"],
                score=result["score"],
                metrics=_finite(result["metrics"]),
                **{name: True for name in NO_REST if result.get(name)},
            )
        )

    def _must_save(self, key: str, result: Mapping[str, Any]) -> bool:
        """Return whether the trial writes a checkpoint after this result.

        It does before it reads test classes, so that a crash then repeats no training, at its end
        if it leaves files, and in between when the last one is old.
        """
        if result.get("done"):
            return bool(files_left(self._state(key).id, self.plan.config))
        due = time.monotonic() - self.saved[key] >= CHECKPOINT_SECONDS
        return due or bool(result.get("reads"))

    def _state(self, key: str) -> TrialState:
        return self.record.state.trials[key]

    def _reads(self, key: str, reads: Sequence[tuple[str, str]]) -> None:
        """Record readings of the test classes that belong to no epoch: epoch and rule of each."""
        self.record.note(TestRead(trial=key, reads=[(epoch, rule) for epoch, rule in reads]))

    def on_trial_complete(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        key, _ = _of(trial)
        if trial.last_result.get("done") and not self.record.failure:  # else it was cut off
            self._end(trial, self._state(key).outcome(), trial.last_result)

    def on_checkpoint(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        checkpoint: Checkpoint,
        **info: Any,
    ) -> None:
        """Note when, and remove old checkpoints."""
        self.saved[trial.config["trial"]] = time.monotonic()
        found = sorted(Path(checkpoint.path).parent.glob("checkpoint_*"))
        for path in found[:-CHECKPOINTS]:
            shutil.rmtree(path, ignore_errors=True)

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        error = Path(trial.error_file).read_text() if trial.error_file else ""
        if not self.meets_obstacle(error):  # else the trial continues once that is fixed
            last = trial.last_result or {}
            self._end(trial, "failed", last, error=" ".join(error.split())[-300:])

    def meets_obstacle(self, error: str) -> bool:
        """Return whether an error is no trial's fault, and remember what it is."""
        if found := DISK_FULL.search(error):
            # What Tune copies without naming the target goes into the study's folder.
            where = found[2] or self.record.folder
            self.obstacle = Obstacle("disk_full", f"{found[1]}: {where}")
        elif found := WRONG_NODE.search(error):
            self.obstacle = Obstacle("wrong_node", found[1].rstrip("."))
        return found is not None

    def _end(
        self, trial: Trial, outcome: Outcome, last: dict[str, Any], *, error: str = ""
    ) -> None:
        """End a trial once what it leaves is on the disk; then remove its checkpoints."""
        folder, key = self.record.folder, trial.config["trial"]
        identity = self._state(key).id
        try:
            if outcome != "failed":
                keep_outputs(folder, identity, self.plan.config)
        except LostArtifact as lost:
            self.obstacle = Obstacle("lost_artifact", str(lost))
            return
        except OSError as full:
            self.obstacle = Obstacle("disk_full", str(full))
            return
        self.record.note(
            TrialEnded(
                trial=key,
                outcome=outcome,
                epoch=last.get("epoch", 0),
                score=last.get("score"),
                metrics=_finite(last.get("metrics", {})),
                chosen_epoch=last.get("chosen_epoch"),
                nodes=last.get("nodes", []),
                error=error,
            )
        )
        if not self.record.failure:
            drop_checkpoints(folder, identity)


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return what a ledger can hold: JSON has no NaN."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _of(trial: Trial) -> tuple[str, TrialSpec]:
    return trial.config["trial"], trial.config["spec"]
