"""One process that trains: the same whether it is alone in its slot or one of a group."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean
from typing import TYPE_CHECKING, Any

from trainables.contract import LAST, WORST, EpochRow, TrialSpec, WrongNode
from trainables.process import release, set_deterministic, settle
from trainables.versions import shared_code

# The driver imports this and would wait seconds for torch, which only a worker needs: those imports stand in the methods.
if TYPE_CHECKING:
    from trainables.learner import Learner
    from trainables.team import Team


class Worker:
    """begin() a trial, load() where it stood, step() by epochs, save(); then begin() the next. Imports and images stay."""

    def __init__(self, team: Team | None = None) -> None:
        from trainables.team import ALONE

        settle()
        self.team = team or ALONE
        self._learner: Learner | None = None

    def begin(self, spec: TrialSpec) -> None:
        """Only notes the trial: a Learner that cannot be built must fail in step(), where Tune retries and reports it."""
        self.spec, self._learner = spec, None
        self._start: dict[str, Any] | None = None  # a state to go on from
        self._exhausted: dict[str, Any] | None = None  # the state of a trial that ended for want of memory
        self._announced = False  # it was told what will be read
        release()

    def build(self) -> Learner:
        from trainables.datasets.pixels import load
        from trainables.learner import Learner
        from trainables.networks.weights import fetch_weights

        self._check_place()
        set_deterministic(self.spec.training.deterministic)
        fetch_weights(self.spec.cell.backbone, self.spec.design.weights)  # on this node, if it is another than the driver's
        return Learner(self.spec, load(self.spec.origin, self.spec.look.cache_size), self.team)

    def _check_place(self) -> None:
        """WrongNode: code or images here are not the driver's."""
        from trainables.datasets.catalogue import index

        here, spec = socket.gethostname(), self.spec
        mine = shared_code(spec.cell.loss, spec.cell.backbone)
        if other := [f"{name} {mine.get(name)} in place of {value}" for name, value in spec.code.items() if mine.get(name) != value]:
            raise WrongNode(
                f"All nodes must run the code that the study was started with, but {here} has {', '.join(other)}; install it there."
            )
        if index(spec.origin).fingerprint != spec.fingerprint:
            raise WrongNode(
                f"The images of {spec.cell.dataset} on {here} are not those that the study was started with; "
                "copy them with their times (rsync -a), or put them on storage that all nodes share."
            )

    @property
    def learner(self) -> Learner:
        if self._learner is None:
            learner = self.build()
            if self._start is not None:
                learner.load(self._start)
            self._learner, self._start = learner, None
        return self._learner

    def step(self) -> dict[str, Any]:
        """One epoch. A finished trial tells its last row again.

        A final trial that has done its last epoch says what it will read of the test classes; the step after that reads. So the
        driver has written each reading down before it happens, and no crash can hide one.
        """
        import torch

        began = time.perf_counter()
        try:
            learner = self.learner
            if not learner.done:
                learner.epoch()
        except torch.OutOfMemoryError:  # beside those that a Learner takes care of: while a network or a copy of it was made
            if self.spec.phase != "search" or self.team.world > 1:  # a group ends its trials itself
                raise
            return told(self._end_exhausted(time.perf_counter() - began))
        result: dict[str, Any] = {"epoch": 0, "score": 0.0, "metrics": {}, "done": learner.done}
        if learner.rows:
            result |= told(learner.rows[-1]) | {"done": learner.done}
        if not (learner.done and self.spec.phase == "final"):
            return result
        if not self._announced:
            self._announced = True
            return result | {"done": False, "reads": _reads(learner)}
        final = learner.read_test()
        return result | {"metrics": result["metrics"] | final.metrics(), "chosen_epoch": fmean(final.epochs)}

    def _end_exhausted(self, seconds: float) -> EpochRow:
        learner, start = self._learner, self._start or {}
        rows = [asdict(row) for row in learner.rows] if learner else start.get("rows", [])
        best = learner.best if learner else start.get("best", [(-1.0, 0) for _ in self.spec.splits])
        row = exhausted(self.spec, best, epoch=len(rows) + 1, seconds=seconds)
        self._exhausted, self._learner, self._start = {"folds": {}, "best": best, "rows": [*rows, asdict(row)]}, None, None
        return row

    def save(self) -> dict[str, Any]:
        """Where the trial stands; at the end of a final trial its artifacts too."""
        if self._exhausted:
            return {"state": self._exhausted, "artifacts": {}}
        return {"state": self.learner.state(), "artifacts": self.learner.artifacts() if self.learner.readings else {}}

    def load(self, state: dict[str, Any]) -> None:
        """Only noted, as begin() does it."""
        self._start, self._learner = state, None


def exhausted(spec: TrialSpec, best: Sequence[tuple[float, int]], *, epoch: int, seconds: float) -> EpochRow:
    """The last row of a search trial whose setting needs more memory than a GPU has."""
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
    """Epoch and rule of each reading to come; epoch: the chosen one of each fold's model."""
    found = [(" ".join(str(epoch) for _, epoch in learner.best), str(learner.spec.rule))]
    return found + ([(str(len(learner.rows)), LAST)] if learner.spec.leaves.last else [])


def told(row: EpochRow) -> dict[str, Any]:
    """A row as Tune gets it."""
    about = {"epoch": row.epoch, "score": row.best, "metrics": row.metrics()}
    return about | {"done": row.done, "diverged": row.diverged, "out_of_memory": row.out_of_memory}
