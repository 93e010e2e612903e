"""One process that trains: the same whether it is alone in its slot or one of a group."""

from __future__ import annotations

import gc
from statistics import fmean
from typing import TYPE_CHECKING, Any

from trainables.contract import EpochRow, TrialSpec
from trainables.process import release, set_deterministic, settle

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
        gc.collect()  # a DDP module of the last trial refers to itself
        gc.freeze()  # what is left stays with the process: the next look passes it over, which saves a third of a second a trial
        release()

    def build(self) -> Learner:
        from trainables.datasets.catalogue import index
        from trainables.datasets.pixels import load
        from trainables.learner import Learner
        from trainables.networks.weights import fetch_weights

        if index(self.spec.origin).fingerprint != self.spec.fingerprint:
            raise ValueError(
                f"The images of {self.spec.cell.dataset} on this node are not those that the study was started with; "
                "copy them with their times (rsync -a), or put them on storage that all nodes share."
            )
        set_deterministic(self.spec.training.deterministic)
        fetch_weights(self.spec.cell.backbone, self.spec.design.weights)  # on this node, if it is another than the driver's
        return Learner(self.spec, load(self.spec.origin, self.spec.look.cache_size), self.team)

    @property
    def learner(self) -> Learner:
        if self._learner is None:
            self._learner = self.build()
        return self._learner

    def step(self) -> dict[str, Any]:
        """One epoch; the last one of a final trial also reads the test classes. A finished trial tells its last row again."""
        learner = self.learner
        if not learner.done:
            learner.epoch()
        result: dict[str, Any] = {"epoch": 0, "score": 0.0, "metrics": {}, "done": learner.done}
        if learner.rows:
            result |= told(learner.rows[-1]) | {"done": learner.done}
        if learner.done and self.spec.phase == "final":
            final = learner.read_test()
            result |= {"metrics": result["metrics"] | final.metrics(), "chosen_epoch": fmean(final.epochs)}
        return result

    def save(self) -> dict[str, Any]:
        """Where the trial stands; at the end of a final trial its artifacts too."""
        return {"state": self.learner.state(), "artifacts": self.learner.artifacts() if self.learner.readings else {}}

    def load(self, state: dict[str, Any]) -> None:
        self.learner.load(state)


def told(row: EpochRow) -> dict[str, Any]:
    """A row as Tune gets it."""
    about = {"epoch": row.epoch, "score": row.best, "metrics": row.metrics()}
    return about | {"done": row.done, "diverged": row.diverged, "out_of_memory": row.out_of_memory}
