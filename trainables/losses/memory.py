"""Cross-batch memory (Wang et al., CVPR 2020): a loss that also sees the embeddings of earlier batches."""

from typing import Any

from pytorch_metric_learning.losses import CrossBatchMemory

from trainables.losses.objective import Objective


class Memory(CrossBatchMemory):
    """The library's, with a checkpoint that knows where the queue stands."""

    def get_extra_state(self) -> dict[str, Any]:
        return {"queue_idx": int(self.queue_idx), "has_been_filled": bool(self.has_been_filled)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.queue_idx, self.has_been_filled = state["queue_idx"], state["has_been_filled"]


def can_remember(objective: Objective) -> bool:
    """A miner of its own would look for tuples in the batch only; losses without tuples have no use for a memory."""
    triplets = "TripletMarginLoss"  # the library lists all of them: with a memory of 4096 these are gigabytes
    return objective.miner is None and type(objective.loss).__name__ in set(CrossBatchMemory.supported_losses()) - {triplets}


def remember(objective: Objective, size: int, *, memory: int) -> None:
    """From now on the loss sees the last `memory` embeddings of this size, too."""
    objective.loss = Memory(objective.loss, size, memory_size=memory)
