"""The driver's notes: trials, rows, ends and readings of test classes go into the ledger, and what people watch to the view."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ray.tune import Callback, Checkpoint
from ray.tune.experiment import Trial

from study.ledger import Ledger
from study.live import View
from study.search import Given
from study.storage import Lost, drop_checkpoints, keep, leaves
from trainables.contract import TrialSpec, WrongNode

LOST = ("diverged", "out_of_memory")  # a row that says so is the last one
NO_ROOM = re.compile("(No space left on device|Disk quota exceeded|Read-only file system)(?:: '([^']+)')?")
WRONG_NODE = re.compile(f"{WrongNode.__name__}: (.+)")
KEEPS = 2  # checkpoints of a trial: the last one may not be whole if the power goes


class Recorder(Callback):
    """Tune tells it what happens. last: what an earlier driver has written of trials that go on, their last epochs by key."""

    def __init__(self, ledger: Ledger, view: View, last: dict[str, int]) -> None:
        self.ledger, self.view = ledger, view
        self.last = dict(last)
        self.begun: set[str] = set()
        self.no_room = ""  # what the disk said, or a node

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks; what is worth keeping stands in the ledger."""
        return {}

    def given(self, given: Given) -> None:
        self.ledger.note("trial", **given.event())

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        key, spec = trial.config["key"], TrialSpec.from_dict(trial.config["spec"])
        if key not in self.begun:
            self.begun.add(key)
            self.view.started(spec, trial.config["trial"])
        elif spec.peeks and (last := self.last.get(key, 0)) < spec.training.epochs:
            self._reads(key, [(str(last + 1), spec.rule)])  # a retry: the epoch that was cut off may have been scored, untold

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        key, spec = trial.config["key"], TrialSpec.from_dict(trial.config["spec"])
        known = result["epoch"] <= self.last.get(key, -1)  # run again: a slot died after this epoch and before its checkpoint
        if spec.peeks and "chosen_epoch" not in result and (times := known + result.get("again", 0)):
            self._reads(key, [(str(result["epoch"]), spec.rule)] * times)
        if result.get("reads"):  # before it does: Tune asks for the next step when this returns
            self._reads(key, result["reads"])
        if known or result.get("reads"):
            return
        self.last[key] = result["epoch"]
        trial.run_metadata.num_failures = 0  # it gets on: nodes that it lost before do not count
        lost = {name: True for name in LOST if result.get(name)}
        self.ledger.note("row", key=key, epoch=result["epoch"], score=result["score"], metrics=result["metrics"], **lost)
        self.view.epoch(spec, result["epoch"], result["score"])

    def _reads(self, key: str, reads: Sequence[tuple[str, str]]) -> None:
        """Readings of the test classes that no row tells of: epoch and rule of each."""
        self.ledger.note("reading", key=key, reads=reads)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        spec, last = TrialSpec.from_dict(trial.config["spec"]), trial.last_result
        if not last.get("done"):  # cut off
            return
        self._end(trial, spec, outcome_of(last, spec.training.epochs), last)

    def on_checkpoint(self, iteration: int, trials: list[Trial], trial: Trial, checkpoint: Checkpoint, **info: Any) -> None:
        """Old ones go."""
        for path in sorted(Path(checkpoint.path).parent.glob("checkpoint_*"))[:-KEEPS]:
            shutil.rmtree(path, ignore_errors=True)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        error = Path(trial.error_file).read_text() if trial.error_file else ""
        if self.lacks_room(error) or self._is_wrong_node(error):  # not the trial's fault: it goes on when that is mended
            return
        self._end(trial, TrialSpec.from_dict(trial.config["spec"]), "failed", trial.last_result or {}, error=" ".join(error.split())[-300:])

    def lacks_room(self, error: str) -> bool:
        """Whether a disk was full or closed, and which: what Tune copies without a word on where goes into the study's folder."""
        if said := NO_ROOM.search(error):
            self.no_room = f"{said[1]}: {said[2] or self.ledger.path.parent}"
        return bool(said)

    def _is_wrong_node(self, error: str) -> bool:
        if said := WRONG_NODE.search(error):
            self.no_room = said[1].rstrip(".")
        return bool(said)

    def _end(self, trial: Trial, spec: TrialSpec, outcome: str, last: dict[str, Any], **more: Any) -> None:
        """Only once what the trial leaves is on the disk; then its checkpoints go."""
        folder, key = self.ledger.path.parent, trial.config["key"]
        try:
            if outcome != "failed" and (names := leaves(trial.config["trial"], self.view.config)):
                keep(folder, key, names)
        except (OSError, Lost) as error:
            self.no_room = str(error)
            return
        known = {name: last[name] for name in ("epoch", "score", "metrics", "chosen_epoch") if name in last}
        self.ledger.note("end", key=key, outcome=outcome, **known, nodes=last.get("nodes", []), **more)
        self.view.ended(spec, trial.config["trial"], outcome, last)
        if not self.ledger.failure:
            drop_checkpoints(folder, key)


def outcome_of(last: dict[str, Any], epochs: int) -> str:
    """How a trial ended, from its last row."""
    outcome = "diverged" if last.get("diverged") else "out of memory" if last.get("out_of_memory") else "finished"
    return "stopped early" if outcome == "finished" and last["epoch"] < epochs else outcome
