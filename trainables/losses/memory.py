"""Let a loss also see earlier batches' embeddings: cross-batch memory (Wang et al., CVPR 2020)."""

from typing import Any

from pytorch_metric_learning.losses import CrossBatchMemory

from trainables.losses.objective import Objective


class Memory(CrossBatchMemory):
    """Add the position of the queue to the checkpoint of the library's memory."""

    def get_extra_state(self) -> dict[str, Any]:
        return {"queue_idx": int(self.queue_idx), "has_been_filled": bool(self.has_been_filled)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.queue_idx, self.has_been_filled = state["queue_idx"], state["has_been_filled"]


def remember(objective: Objective, size: int, *, memory: int) -> None:
    """Let the loss also see the last `memory` embeddings of this size from now on."""
    objective.loss = Memory(objective.loss, size, memory_size=memory)
