"""Train trials in one process, alone in its slot or as one of a group."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from trainables.contract import LAST, WORST, EpochRow, TrialSpec, WrongNode
from trainables.distributed.gpu_memory import lacks_memory, with_memory
from trainables.distributed.process import (
    find_cpp_compiler,
    prepare_process,
    release_memory,
    set_deterministic,
)
from trainables.outputs.checkpoints import CheckpointPart, read_checkpoint
from trainables.outputs.saver import Saver
from trainables.workers.versions import shared_code

# The driver imports this module and would wait seconds for torch, which only a worker needs, so the
# methods import it.
if TYPE_CHECKING:
    from trainables.distributed.team import Team
    from trainables.training.learner import Learner


class Worker:
    """Train trials in turn: begin() one or resume() it, step() by epochs, save(), outputs().

    Imports and images stay in memory between trials.
    """

    def __init__(self, team: Team | None = None) -> None:
        from trainables.distributed.team import ALONE

        prepare_process()
        self.team = team or ALONE
        self.saver = Saver()
        self._learner: Learner | None = None

    def begin(self, spec: TrialSpec) -> None:
        """Note the trial. Its Learner is built in step(), where Tune retries and reports errors."""
        self.spec, self._learner = spec, None
        self._start: dict[str, Any] | None = None  # a state to continue from
        self._exhausted: dict[str, Any] | None = None  # the state of a trial that ran out of memory
        self._announced = False  # whether a result has said what will be read
        self.saver.forget()
        release_memory()

    def build(self) -> Learner:
        """Return a new Learner of the noted trial. Raise WrongNode if it must not train here."""
        from trainables.inputs.features import load_data
        from trainables.networks.weights import fetch_weights
        from trainables.training.learner import Learner

        spec = self.spec
        self._check_node()
        set_deterministic(spec.training.deterministic)
        if not spec.reads_features:  # this may not be the driver's node
            fetch_weights(spec.cell.backbone, spec.model.weights)
        return Learner(spec, load_data(spec), self.team)

    def _check_node(self) -> None:
        """Raise WrongNode if code or images here are not the driver's."""
        from trainables.datasets.indexing import index

        here, spec = socket.gethostname(), self.spec
        mine = shared_code(spec.cell.loss, spec.cell.backbone)
        if other := [
            f"{name} {mine.get(name)} in place of {value}"
            for name, value in spec.code.items()
            if mine.get(name) != value
        ]:
            raise WrongNode(
                f"All nodes must run the code that the study was started with, but {here} has "
                f"{', '.join(other)}; install it there."
            )
        if spec.model.compile and not find_cpp_compiler():
            raise WrongNode(
                f"compile=true needs a C++ compiler on every node, but {here} has none on its "
                f"PATH; install g++ there, or leave compile out."
            )
        if index(spec.dataset_ref).fingerprint != spec.fingerprint:
            raise WrongNode(
                f"The images of {spec.cell.dataset} on {here} are not those that the study was "
                f"started with; copy them with their times (rsync -a), or put them on storage "
                f"that all nodes share."
            )

    @property
    def learner(self) -> Learner:
        """Return the trial's Learner, built when it is first needed."""
        if self._learner is None:
            learner = self.build() if self.team.world > 1 else with_memory(self.build)
            if self._start is not None:
                learner.load(self._start)
            self._learner, self._start = learner, None
        return self._learner

    def step(self) -> dict[str, Any]:
        """Train one epoch and return its result; a finished trial returns its last one again.

        A final trial that has finished its last epoch announces which test classes it will read,
        and reads them in the next step. So the driver records each reading before it happens, and
        no crash can hide one. The result also says how the saver is.
        """
        return self._step() | {"saver": self.saver.progress()}

    def _step(self) -> dict[str, Any]:
        began = time.perf_counter()
        try:
            learner = self.learner
            if not learner.done:
                learner.epoch()
        # Beside the errors that a Learner handles: while a network or a copy of it is made.
        except RuntimeError as error:
            # A group ends its trials itself.
            if self.spec.phase != "search" or self.team.world > 1 or not lacks_memory(error):
                raise
            return as_result(self._end_exhausted(time.perf_counter() - began))
        result: dict[str, Any] = {"epoch": 0, "score": 0.0, "metrics": {}, "done": learner.done}
        if learner.rows:
            result |= as_result(learner.rows[-1]) | {"done": learner.done}
        if not (learner.done and self.spec.phase == "final"):
            return result
        if not self._announced:
            self._announced = True
            return result | {"done": False, "reads": _reads(learner)}
        final = learner.read_test()
        return result | {
            "metrics": result["metrics"] | final.metrics(),
            "chosen_epoch": fmean(final.epochs),
        }

    def _end_exhausted(self, seconds: float) -> EpochRow:
        learner, start = self._learner, self._start or {}
        rows = [asdict(row) for row in learner.rows] if learner else start.get("rows", [])
        best = learner.best if learner else start.get("best", [(-1.0, 0) for _ in self.spec.splits])
        row = exhausted(self.spec, best, epoch=len(rows) + 1, seconds=seconds)
        self._exhausted, self._learner, self._start = (
            {"folds": {}, "best": best, "rows": [*rows, asdict(row)]},
            None,
            None,
        )
        return row

    def save(self, folder: str) -> None:
        """Begin to write this rank's part of a checkpoint into this folder, in the background."""
        if part := checkpoint_part(self.learner):
            self.saver.save(Path(folder), part)

    def outputs(self) -> dict[str, Any]:
        """Return what the trial leaves: artifacts of a finished final trial, else its state."""
        if self._exhausted:
            return {"state": self._exhausted, "artifacts": {}}
        learner = self.learner
        if not learner.readings:
            return {"state": learner.state(), "artifacts": {}}
        state = {"folds": {}, "best": learner.best, "rows": [asdict(row) for row in learner.rows]}
        return {"state": state, "artifacts": learner.artifacts()}

    def resume(self, folder: str) -> None:
        """Continue from a checkpoint in this folder, of any number of ranks."""
        splits = self.team.own_splits(len(self.spec.splits))
        self.load(read_checkpoint(Path(folder), splits))

    def load(self, state: dict[str, Any]) -> None:
        """Note a state to continue from, as begin() notes the trial."""
        self._start, self._learner = state, None


def checkpoint_part(learner: Learner) -> CheckpointPart | None:
    """Return this rank's part of a checkpoint, as it is on the device; None if it has none.

    Training changes it, except for the weights of best epochs.
    """
    if not learner.returned:
        return None
    return CheckpointPart(
        number=learner.team.rank,
        parts=min(learner.team.world, len(learner.spec.splits)),
        folds={i: learner.fits[i].state() for i in learner.returned},
        weights={i: learner.weights[i] for i in learner.returned},
        best=list(learner.best),
        rows=[asdict(row) for row in learner.rows],
    )


def exhausted(
    spec: TrialSpec, best: Sequence[tuple[float, int]], *, epoch: int, seconds: float
) -> EpochRow:
    """Return the last row of a search trial whose setting needs more memory than a GPU has."""
    return EpochRow(
        epoch=epoch,
        loss=None,
        select={},
        folds=tuple({} for _ in spec.splits),
        best=WORST,
        best_epochs=tuple(chosen for _, chosen in best),
        seconds=seconds,
        done=True,
        out_of_memory=True,
    )


def _reads(learner: Learner) -> list[tuple[str, str]]:
    """Return (epochs, rule) of each reading to come; epochs: the chosen one of each fold."""
    found = [(" ".join(str(epoch) for _, epoch in learner.best), str(learner.spec.rule))]
    return found + ([(str(len(learner.rows)), LAST)] if learner.spec.outputs.last else [])


def as_result(row: EpochRow) -> dict[str, Any]:
    """Return a row as Tune gets it."""
    return {
        "epoch": row.epoch,
        "score": row.best,
        "metrics": row.metrics(),
        "done": row.done,
        "diverged": row.diverged,
        "out_of_memory": row.out_of_memory,
        "out_of_patience": row.out_of_patience,
    }
