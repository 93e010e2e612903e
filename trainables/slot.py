"""A warm place in the cluster: a Tune Trainable whose step is one epoch and whose reset is the next trial."""

from pathlib import Path
from typing import Any

from ray import tune

from trainables.contract import TrialSpec

STATE = "state.pt"


class Slot(tune.Trainable):
    """The process, its imports and its datasets stay; only the Learner is new for each trial."""

    def setup(self, config: dict[str, Any]) -> None:
        # torch is imported in the slot only: the driver names this class and would wait seconds for what it never uses.
        import torch

        torch.set_num_threads(1)
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        from trainables import datasets
        from trainables.learner import Learner

        self.spec = TrialSpec.from_dict(new_config["spec"])
        self.learner = Learner(self.spec, datasets.load(self.spec.cell.dataset))
        return True

    def step(self) -> dict[str, Any]:
        """One epoch; the last one of a final trial also reads the test classes."""
        result: dict[str, Any] = {"epoch": 0, "score": 0.0, "metrics": {}, "done": True}
        if not self.learner.done:
            row = self.learner.epoch()
            result = {"epoch": row.epoch, "score": row.best, "metrics": row.metrics(), "done": row.done, "diverged": row.diverged}
        if self.learner.done and self.spec.phase == "final":
            result["metrics"] |= self.learner.read_test().metrics()
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
