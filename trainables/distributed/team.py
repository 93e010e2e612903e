"""Describe the team of processes that train one trial together, as one of them sees it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

Payload = TypeVar("Payload")


@dataclass(frozen=True)
class Team:
    """Say which of `world` processes this one is; all of them have the same trial."""

    rank: int = 0
    world: int = 1

    def counts(self, total: int) -> list[int]:
        """Return how many of `total` rows each rank has: equal parts, the first larger by one."""
        each, more = divmod(total, self.world)
        return [each + (rank < more) for rank in range(self.world)]

    def part(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this rank's consecutive part of the rows."""
        counts = self.counts(len(rows))
        start = sum(counts[: self.rank])
        return rows[start : start + counts[self.rank]]

    def own_splits(self, count: int) -> Sequence[int]:
        """Return the splits that this rank trains: a single one with all ranks, else its own."""
        return [0] if count == 1 else range(self.rank, count, self.world)

    def gather_objects(self, value: Payload) -> list[Payload]:
        """Return the values of all ranks, in rank order. All ranks must call it."""
        if self.world == 1:
            return [value]
        values: list[Payload | None] = [None] * self.world
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def broadcast(self, tensors: Iterable[Tensor]) -> None:
        """Overwrite the tensors of all ranks with those of the first."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), 0)

    def average(self, tensors: Sequence[Tensor]) -> None:
        """Overwrite the tensors with their mean over the ranks; all ranks get the same bits."""
        if self.world > 1 and tensors:
            flat = torch.cat([tensor.flatten() for tensor in tensors])
            dist.all_reduce(flat)
            means = torch.split(flat / self.world, [tensor.numel() for tensor in tensors])
            for tensor, mean in zip(tensors, means, strict=True):
                tensor.copy_(mean.view_as(tensor))


ALONE = Team()
