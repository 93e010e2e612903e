"""Gather the embeddings of all ranks, in rank order, with exact gradients."""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from trainables.distributed.team import Team


class _Gather(torch.autograd.Function):
    """Gather forward; slice and scale backward.

    All ranks hold all rows and compute the same loss, so each rank's slice of the gradient is
    already complete. DDP then averages over ranks what should be a sum, so the slice is scaled by
    the number of ranks. Loss parameters see the whole batch on every rank and need no factor.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, team: Team, total: int) -> Tensor:
        ctx.team, ctx.counts = team, team.counts(total)
        # Parts may differ by one row, but all_gather needs equal sizes.
        padded = rows.new_zeros(max(ctx.counts), *rows.shape[1:])
        padded[: len(rows)] = rows
        parts = [torch.empty_like(padded) for _ in ctx.counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, ctx.counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        start = sum(ctx.counts[: ctx.team.rank])
        return grads[0][start : start + ctx.counts[ctx.team.rank]] * ctx.team.world, None, None


def gather(rows: Tensor, team: Team, total: int) -> Tensor:
    """Return the rows of all ranks, `total` of them; this rank holds its team.part()."""
    if team.world == 1:
        return rows
    gathered: Tensor = _Gather.apply(rows, team, total)
    return gathered
