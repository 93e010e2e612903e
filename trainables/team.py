"""This process among those that train one trial together."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

Value = TypeVar("Value")


@dataclass(frozen=True)
class Team:
    """One of `world` processes, each with the same trial; alone unless told."""

    rank: int = 0
    world: int = 1

    def counts(self, total: int) -> list[int]:
        """How many of so many rows each rank has: equal parts, the first ones larger by one where that does not go."""
        each, more = divmod(total, self.world)
        return [each + (rank < more) for rank in range(self.world)]

    def part(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """This rank's consecutive part."""
        counts = self.counts(len(rows))
        start = sum(counts[: self.rank])
        return rows[start : start + counts[self.rank]]

    def everyone(self, value: Value) -> list[Value]:
        """What each rank has, in rank order. All ranks must ask."""
        if self.world == 1:
            return [value]
        values: list[Value | None] = [None] * self.world
        dist.all_gather_object(values, value)
        return values  # type: ignore[return-value]

    def agree(self, tensors: Iterable[Tensor]) -> None:
        """The first rank's values, on all of them."""
        if self.world > 1:
            for tensor in tensors:
                dist.broadcast(tensor.detach(), 0)


ALONE = Team()
