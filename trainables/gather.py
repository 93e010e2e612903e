"""Embeddings and labels of all ranks, in rank order, with exact gradients."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


class _Gather(torch.autograd.Function):
    """All ranks hold all rows and compute the same loss, so each one's slice of the gradient is already whole.

    DDP then averages over ranks what should be a sum: the slice is scaled by the number of ranks. Loss parameters
    see the whole batch on every rank and need no factor.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, rows.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        world = dist.get_world_size()
        return grads[0].chunk(world)[dist.get_rank()] * world


def gather(rows: Tensor) -> Tensor:
    """The rows of all ranks in rank order; of this process alone when there is no group."""
    if not dist.is_initialized():
        return rows
    gathered: Tensor = _Gather.apply(rows)
    return gathered
