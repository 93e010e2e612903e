"""Let a loss also see earlier batches' embeddings: cross-batch memory (Wang et al., CVPR 2020)."""

from typing import Any

import torch
from pytorch_metric_learning.losses import CrossBatchMemory
from pytorch_metric_learning.utils import loss_and_miner_utils
from torch import Tensor, nn

from trainables.losses.labels import Pairs, found, on_host
from trainables.losses.objective import Objective
from trainables.losses.proxy_formulas import Labelled


class Memory(CrossBatchMemory):
    """Add the position of the queue to the checkpoint of the library's memory.

    The host also holds the labels of the queue, so that it knows how many pairs there are.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.known: Tensor | None = None  # None after a checkpoint: to be read from the device

    def add_to_memory(self, embeddings: Tensor, labels: Tensor, batch_size: int) -> None:
        if self.known is None:
            self.known = self.label_memory.cpu().clone()
        rows = torch.arange(self.queue_idx, self.queue_idx + batch_size, device="cpu")
        self.known[rows % self.memory_size] = on_host(labels)
        super().add_to_memory(embeddings, labels, batch_size)

    def create_indices_tuple(
        self, embeddings: Tensor, labels: Tensor, E_mem: Tensor, L_mem: Tensor, *_: Any
    ) -> Pairs:
        """Return all pairs of the batch with the memory, but none of a row with itself."""
        assert self.known is not None
        equal, different = loss_and_miner_utils.get_matches_and_diffs(labels, L_mem)
        equal[torch.arange(len(labels), device=labels.device), self.curr_batch_idx] = 0
        matches = on_host(labels)[:, None] == self.known[: len(L_mem)]
        anchors, positives = found(equal, int(matches.sum()) - len(labels))
        others, negatives = found(different, int((~matches).sum()))
        return anchors, positives, others, negatives

    def get_extra_state(self) -> dict[str, Any]:
        return {"queue_idx": int(self.queue_idx), "has_been_filled": bool(self.has_been_filled)}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.queue_idx, self.has_been_filled = state["queue_idx"], state["has_been_filled"]
        self.known = None


class SampleMemory(nn.Module):
    """Show a loss over proxies the embeddings of earlier batches as further images.

    No gradient goes back to them. Like the library's, the memory holds the batch itself, too, so
    that a step which is tried again overwrites its own rows.
    """

    def __init__(self, loss: nn.Module, size: int, *, memory: int) -> None:
        super().__init__()
        self.loss = loss
        self.embeddings: Tensor
        self.labels: Tensor
        self.register_buffer("embeddings", torch.zeros(memory, size))
        self.register_buffer("labels", torch.zeros(memory, dtype=torch.long))
        self.added = 0  # rows so far; the host knows, and asks no device

    def forward(self, embeddings: Tensor, labels: Tensor, tuples: object = None) -> Tensor:
        if self.training:
            self._add(embeddings.detach(), labels)
        new = len(labels) if self.training else 0
        count = min(self.added, len(self.labels)) - new
        rows = self._rows(self.added - new - count, count)
        earlier = self.embeddings[rows].to(embeddings.dtype), self.labels[rows]
        value: Tensor = self.loss(embeddings, labels, tuples, *([earlier] if count else []))
        return value

    def _add(self, embeddings: Tensor, labels: Tensor) -> None:
        """Put the batch in the place of the oldest rows."""
        rows = self._rows(self.added, len(labels))
        self.embeddings[rows] = embeddings.to(self.embeddings.dtype)
        self.labels[rows] = labels
        self.added += len(labels)

    def _rows(self, first: int, count: int) -> Tensor:
        """Return where these rows are, counted from the first one that was ever added."""
        return torch.arange(first, first + count, device=self.labels.device) % len(self.labels)

    def get_extra_state(self) -> dict[str, Any]:
        return {"added": self.added}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.added = state["added"]


def remember(objective: Objective, size: int, *, memory: int) -> None:
    """Let the loss also see the last `memory` embeddings of this size from now on."""
    loss = objective.loss
    if isinstance(loss, Labelled):
        objective.loss = SampleMemory(loss, size, memory=memory)
    else:
        objective.loss = Memory(loss, size, memory_size=memory)
