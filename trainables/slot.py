"""A warm place in the cluster: a Tune Trainable whose step is one epoch and whose reset is the next trial."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune

from trainables.contract import TrialSpec
from trainables.process import settle

# The driver names this class and would wait seconds for imports that only a slot needs: they stand in the methods.
if TYPE_CHECKING:
    from trainables.learner import Learner

STATE = "state.pt"


class Slot(tune.Trainable):
    """The process, its imports and its datasets stay; only the Learner is new for each trial."""

    def setup(self, config: dict[str, Any]) -> None:
        settle()
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Only notes the trial: a Learner that cannot be built must fail in step(), where Tune retries and reports it."""
        self.spec = TrialSpec.from_dict(new_config["spec"])
        self._learner: Learner | None = None
        return True

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
        fetch_weights(self.spec.cell.backbone, self.spec.design.weights)  # on this node, if it is another than the driver's
        return Learner(self.spec, load(self.spec.origin, self.spec.look.cache_size))

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
            row = learner.rows[-1]
            result |= {"epoch": row.epoch, "score": row.best, "metrics": row.metrics()}
            result |= {"diverged": row.diverged, "out_of_memory": row.out_of_memory}
        if learner.done and self.spec.phase == "final":
            result["metrics"] |= learner.read_test().metrics()
        return result

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        """The state of the trial; at the end of a final trial its artifacts too."""
        import torch

        torch.save(self.learner.state(), Path(checkpoint_dir) / STATE)
        if self.learner.readings:
            self.learner.save_artifacts(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint_dir: str) -> None:
        import torch

        self.learner.load(torch.load(Path(checkpoint_dir) / STATE, map_location="cpu", weights_only=True))
