"""Record what Tune reports to the driver: trials, epochs, ends and readings of test classes."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ray.exceptions import RayActorError
from ray.tune import Callback, Stopper
from ray.tune.execution import tune_controller
from ray.tune.experiment import Trial
from ray.tune.result import SHOULD_CHECKPOINT

from analysis.record.events import (
    LOST,
    EpochDone,
    EpochRepeated,
    Outcome,
    TestRead,
    TrialEnded,
    TrialStarted,
)
from analysis.record.kept_files import LostArtifact
from analysis.record.record import Record
from analysis.record.specs import write_spec
from analysis.record.state import NO_REST, TRIES, TrialState
from analysis.record.trial_id import TrialId
from study.config.plan import StudyPlan
from study.driver.checkpoints import (
    drop_checkpoints,
    files_left,
    keep_outputs,
    next_attempt,
    saving,
)
from study.ends.stalls import Stalls
from study.ends.study_end import StudyEnd, end_in
from study.search.cell_search import TrialAssignment
from trainables.contract import TrialSpec
from trainables.outputs.checkpoints import WAITING, Saving

SECONDS = "seconds"  # of an epoch: never the same twice
# Tune would write four files for every trial, and all trials into one again and again; the ledger
# has everything.
for _name, _value in {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",
}.items():
    os.environ.setdefault(_name, _value)


class TuneCallback(Callback):
    """Record what happens. end: what ends the study, though none of its trials is to blame."""

    def __init__(self, plan: StudyPlan, record: Record) -> None:
        self.plan, self.record = plan, record
        # Trials that this driver has started, and the last epoch that each has reported.
        self.reported: dict[str, int] = {}
        self.devices: dict[str, set[str]] = {}  # that trials have run on
        self.attempt = next_attempt(record.folder)  # this driver's number
        self.end: StudyEnd | None = None
        self.stalls = Stalls(record, plan.config.stall_minutes)
        logging.getLogger(tune_controller.__name__).addFilter(_says_something)

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

    def saving(self, trial: TrialId) -> Saving:
        """Return where a trial is saved, and where it continues."""
        state, folder = self._state(str(trial)), self.record.folder
        # A final trial's last epoch is on record when it has read the test classes. It is saved
        # before, and continues from there.
        epoch = state.epoch + (trial.phase == "final" and state.epoch + 1 == state.started.epochs)
        seconds = self.plan.config.checkpoint_seconds
        return saving(folder, trial, attempt=self.attempt, seconds=seconds, epoch=epoch)

    def on_trial_start(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        key, spec = _of(trial)
        if key not in self.reported:
            self.reported[key] = self._state(key).epoch
        elif spec.peeks and not self._state(key).trained:
            # A retry: the epoch that was cut off may have been scored and not reported.
            self._reads(key, [(str(self.reported[key] + 1), spec.rule)])

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Trial],
        trial: Trial,
        result: dict[str, Any],
        **info: Any,
    ) -> None:
        key, spec = _of(trial)
        result.pop("config", None)  # a copy of the spec, which Tune would hold for every trial
        # Tune reads it after this call, and asks the slot for what the trial leaves.
        result[SHOULD_CHECKPOINT] = bool(result.get("done")) and self._leaves_files(key)
        self.reported[key] = result["epoch"]
        self.devices.setdefault(key, set()).update(result.get("devices", []))
        # A slot that died after this epoch and before its checkpoint runs it again.
        rows = self._state(key).rows
        known = bool(rows) and result["epoch"] <= rows[-1].epoch
        again = [result["epoch"]] * known + result.get("again", [])
        if spec.peeks and "chosen_epoch" not in result and again:
            self._reads(key, [(str(epoch), spec.rule) for epoch in again])
        if known:
            self._repeat(result, next(row for row in rows if row.epoch == result["epoch"]))
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

    def _repeat(self, result: dict[str, Any], first: EpochDone) -> None:
        """Let the first time count of an epoch that ran again, and note how the second differed.

        Searcher and early stopping hear the result that is on record.
        """
        now = _finite(result["metrics"])
        differs = {
            name: now[name]
            for name, value in first.metrics.items()
            if name != SECONDS and name in now and now[name] != value
        }
        if differs or result["score"] != first.score:
            trial, epoch, score = first.trial, first.epoch, result["score"]
            self.record.note(EpochRepeated(trial=trial, epoch=epoch, score=score, metrics=differs))
        result["score"], result["metrics"] = first.score, result["metrics"] | first.metrics

    def _leaves_files(self, key: str) -> bool:
        return bool(files_left(self._state(key).id, self.plan.config))

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

    def on_trial_recover(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        """Let a trial whose slot failed continue from its last checkpoint.

        A disk that is full ends the study at once: a trial that can train, but not save itself,
        would try again for ever.
        """
        _forget_pickle(trial)
        end = end_in(_error(trial), self.record.folder)
        if end and end.kind == "disk_full":
            self.end = end
        saving = self.saving(self._state(trial.config["trial"]).id)
        trial.config["saving"] = saving
        Path(saving.folder, WAITING).unlink(missing_ok=True)  # of the slot that is gone

    def on_trial_error(
        self, iteration: int, trials: list[Trial], trial: Trial, **info: Any
    ) -> None:
        _forget_pickle(trial)
        error, state = _error(trial), self._state(trial.config["trial"])
        if end := end_in(error, self.record.folder):  # the trial continues once that is fixed
            self.end = end
        elif state.has_stalled:
            seconds = state.stalls[-1].seconds
            about = f"It made no progress for {seconds:.0f} s, {TRIES} times in a row."
            self._end(trial, "stalled", trial.last_result or {}, error=about)
        else:
            about = " ".join(error.split())[-300:]
            self._end(trial, "failed", trial.last_result or {}, error=about)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Remove the folders of ended trials, which Tune has just made again."""
        for trial in trials:
            _forget_pickle(trial)
            state = self._state(trial.config["trial"])
            if state.succeeded:
                drop_checkpoints(self.record.folder, state.id)

    def on_step_end(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        self.stalls.look(trials)

    def _end(
        self, trial: Trial, outcome: Outcome, last: dict[str, Any], *, error: str = ""
    ) -> None:
        """End a trial once what it leaves is on the disk; then remove its checkpoints."""
        folder, key = self.record.folder, trial.config["trial"]
        identity = self._state(key).id
        try:
            if outcome not in LOST:
                keep_outputs(folder, identity, self.plan.config)
        except LostArtifact as lost:
            self.end = StudyEnd("lost_artifact", str(lost))
            return
        except OSError as full:
            self.end = StudyEnd("disk_full", str(full))
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
                devices=sorted(self.devices.pop(key, ())),
                error=error,
            )
        )
        if not self.record.failure:
            drop_checkpoints(folder, identity)
            trial.config = {"trial": key}  # Tune holds every trial to the end


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return what a ledger can hold: JSON has no NaN."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _says_something(line: logging.LogRecord) -> bool:
    """Return whether a line of Tune's log is news: not that we killed a slot, nor what ends us."""
    error = line.exc_info[1] if line.exc_info else None
    is_ours = isinstance(error, RayActorError) and "`ray.kill`" in str(error)
    return not is_ours and end_in(str(error), Path()) is None


def _forget_pickle(trial: Trial) -> None:
    """Keep Tune from reading back a file that can run code, or that a full disk cut off."""
    trial.run_metadata.pickled_error_filename = None


def _error(trial: Trial) -> str:
    return Path(trial.error_file).read_text() if trial.error_file else ""


def _of(trial: Trial) -> tuple[str, TrialSpec]:
    return trial.config["trial"], trial.config["spec"]


class Ends(Stopper):
    """Ask whether the study must end. Tune pickles its stoppers, but never reads them."""

    def __init__(self, must_end: Callable[[], bool]) -> None:
        self.must_end = must_end

    def __getstate__(self) -> dict[str, bool]:
        return {}

    def __call__(self, trial_id: str, result: dict[str, object]) -> bool:
        return False

    def stop_all(self) -> bool:
        return self.must_end()
