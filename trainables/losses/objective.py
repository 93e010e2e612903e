"""A loss with its miner and the learning rate of its own weights: what every builder returns."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

TUPLES = ("pos_pair", "neg_pair", "triplet")  # what the library calls losses that it has one of for each tuple


class Objective(nn.Module):
    """Called with embeddings and labels 0..C-1; always in float32 or float64, because the library casts proxies to its input.

    Whatever a miner draws is keyed by (seed, steps): equal on every rank, repeated after a checkpoint, and apart from
    the global generator. In eval mode the steps stand still, so that the same batch gives the same draws.
    """

    steps: Tensor

    def __init__(self, loss: nn.Module, miner: nn.Module | None = None, *, weights_lr: float | None = None) -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner
        self.weights_lr = weights_lr
        self.seed = 0
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self._losses: dict[str, Any] = {}  # of the last call, before their reduction
        reducer = getattr(loss, "reducer", None)
        if isinstance(reducer, nn.Module):
            reducer.register_forward_pre_hook(self._keep)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = self.loss(embeddings, labels, self.mine(embeddings, labels))
        if self.training:
            self.steps += 1
        # Where no tuple counts, the library leaves the loss's own weights without a gradient: the optimiser and DDP need a zero.
        for weight in self.parameters():
            value = value + 0 * weight.sum()
        return value

    def mine(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, ...] | None:
        """The tuples of this step; None: all that the loss knows."""
        if self.miner is None:
            return None
        with _seeded((self.seed, int(self.steps)), embeddings.device):
            tuples: tuple[Tensor, ...] = self.miner(embeddings, labels)
        return tuples

    def tuple_share(self) -> float | None:
        """The share of the last call's pairs or triplets that gave a gradient; 0 without any, None where the loss has no tuples."""
        parts = [part for part in self._losses.values() if part["reduction_type"] in TUPLES and torch.is_tensor(part["losses"])]
        if not parts:
            empty = [part for part in self._losses.values() if part["reduction_type"] == "already_reduced" and part["indices"] is None]
            return 0.0 if empty and len(empty) == len(self._losses) else None
        alive = sum(int((part["losses"] > 0).sum()) for part in parts)
        return alive / max(1, sum(len(part["losses"]) for part in parts))

    def _keep(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        """The library's reducer is about to take the mean of one loss for each tuple."""
        self._losses = {
            name: {**part, "losses": part["losses"].detach() if torch.is_tensor(part["losses"]) else part["losses"]}
            for name, part in inputs[0].items()
        }


@contextmanager
def _seeded(key: tuple[int, int], device: torch.device) -> Iterator[None]:
    """The global generators start from key inside, and go on outside as if nothing had been drawn."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield


# (classes, embedding size, *, the card's parameters) -> Objective
Builder = Callable[..., Objective]
