"""Combine a loss, its miner and its own learning rate: what every builder returns."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from pytorch_metric_learning.losses import GenericPairLoss
from torch import Tensor, nn

# The library's names for losses that have one value for each tuple.
TUPLES = ("pos_pair", "neg_pair", "triplet")


class Objective(nn.Module):
    """Compute the loss of embeddings with labels 0..C-1.

    Embeddings are float32 or float64, because the library casts proxies to its input. Whatever a
    miner draws is keyed by (seed, steps): it is equal on every rank, repeats after a checkpoint,
    and leaves the global generator alone. Eval mode does not count steps, so the same batch gives
    the same draws.
    """

    def __init__(
        self, loss: nn.Module, miner: nn.Module | None = None, *, weights_lr: float | None = None
    ) -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner
        self.weights_lr = weights_lr
        self.seed = 0
        self.steps = 0  # of the host, which would have to wait for those on a device
        self._losses: dict[str, Any] = {}  # of the last call, before their reduction
        self._device = torch.device("cpu")  # of the last call
        if isinstance(loss, GenericPairLoss):
            loss._assert_either_pos_or_neg = _take_both
        reducer = getattr(loss, "reducer", None)
        if isinstance(reducer, nn.Module):
            reducer.register_forward_pre_hook(self._keep)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self._device = embeddings.device
        with _new_tensors_on(embeddings.device):
            value: Tensor = self.loss(embeddings, labels, self.mine(embeddings, labels))
        if self.training:
            self.steps += 1
        # Where no tuple counts, the library leaves the loss's own weights without a gradient; the
        # optimiser and DDP need a zero.
        for weight in self.parameters():
            value = value + 0 * weight.sum()
        return value

    def mine(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, ...] | None:
        """Return the tuples of this step; None if the loss takes all."""
        if self.miner is None:
            return None
        with _seeded((self.seed, self.steps), embeddings.device):
            tuples: tuple[Tensor, ...] = self.miner(embeddings, labels)
        return tuples

    def tuple_share(self) -> Tensor | None:
        """Return the share of the last call's pairs or triplets that gave a gradient.

        It stays on the device, is 0 if the batch had no tuples, and None if the loss uses none.
        """
        everything = list(self._losses.values())
        parts = [
            part
            for part in everything
            if part["reduction_type"] in TUPLES and torch.is_tensor(part["losses"])
        ]
        if not parts:
            empty = all(
                part["reduction_type"] == "already_reduced" and part["indices"] is None
                for part in everything
            )
            if not (everything and empty):
                return None
            return torch.zeros((), dtype=torch.float64, device=self._device)
        active = torch.stack([(part["losses"] > 0).sum() for part in parts]).sum()
        return active.double() / max(1, sum(len(part["losses"]) for part in parts))

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[f"{prefix}steps"] = torch.tensor(self.steps)

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *rest: Any) -> None:
        self.steps = int(state[f"{prefix}steps"])
        others = {key: value for key, value in state.items() if key != f"{prefix}steps"}
        super()._load_from_state_dict(others, prefix, *rest)

    def _keep(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        """Keep one loss for each tuple, before the library's reducer takes their mean."""

        def detached(losses: Any) -> Any:
            return losses.detach() if torch.is_tensor(losses) else losses

        self._losses = {
            name: {**part, "losses": detached(part["losses"])} for name, part in inputs[0].items()
        }


def _take_both(positive: Tensor, negative: Tensor) -> None:
    """Skip the library's check that no pair is both, which labels cannot make; it waits for it."""


def _new_tensors_on(device: torch.device) -> AbstractContextManager[Any]:
    """Let constants of the library, which names no device, be made on this one and not copied."""
    return nullcontext() if device.type == "cpu" else device


@contextmanager
def _seeded(key: tuple[int, int], device: torch.device) -> Iterator[None]:
    """Seed the global generators by key inside; outside they continue as if nothing was drawn."""
    seed = int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.default_generator.manual_seed(seed)
        if device.type == "cuda":
            torch.cuda.manual_seed(seed)
        yield


# (classes, embedding size, *, the card's parameters) -> Objective
Builder = Callable[..., Objective]
