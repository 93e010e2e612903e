"""Find clusters by k-means on the device of the rows, in bounded memory, as scikit-learn does.

scikit-learn itself takes half an hour for the 11,316 classes of SOP on one thread of a CPU.
"""

import math

import torch
from torch import Tensor

ROUNDS = 300  # at most
TOLERANCE = 1e-4  # of the mean variance: centres that move less than this, all together, stay
BLOCK_BYTES = 256 * 2**20  # of the distances that are held at a time


def k_means(rows: Tensor, count: int) -> Tensor:
    """Return each row's cluster, from one greedy k-means++ start that is the same each time."""
    centres = _spread(rows, count)
    enough = TOLERANCE * rows.double().var(dim=0, correction=0).mean()
    found, apart = _assign(rows, centres)
    for _ in range(ROUNDS):
        moved = _centres(rows, found, apart, count)
        shift = (moved.double() - centres.double()).square().sum()
        centres, before = moved, found
        found, apart = _assign(rows, centres)
        if bool((shift <= enough) | (found == before).all()):  # the one wait of a round
            break
    return found


def _spread(rows: Tensor, count: int) -> Tensor:
    """Return first centres: each is the best of a few rows drawn by their squared distance."""
    trials = 2 + int(math.log(count))
    generator = torch.Generator().manual_seed(0)  # on the CPU: the same draws on every device
    draws = torch.rand(count, trials, generator=generator).double().to(rows.device)
    lengths = rows.square().sum(1)
    first = (draws[0, :1] * len(rows)).long()
    chosen = [first]
    nearest = _squared(rows, lengths, first).squeeze(1)
    for number in range(1, count):
        until = nearest.double().cumsum(0)
        candidates = torch.searchsorted(until, draws[number] * until[-1], right=True)
        candidates = candidates.clamp(max=len(rows) - 1)
        closer = torch.minimum(nearest[:, None], _squared(rows, lengths, candidates))
        best = closer.sum(0).argmin().view(1)
        chosen.append(candidates[best])
        nearest = closer.index_select(1, best).squeeze(1)
    return rows[torch.cat(chosen)]


def _squared(rows: Tensor, lengths: Tensor, chosen: Tensor) -> Tensor:
    """Return the squared distances of all rows (down) to some of them (across)."""
    apart = lengths[:, None] + lengths[chosen] - 2 * (rows @ rows[chosen].T)
    return apart.clamp(min=0)


def _assign(rows: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's nearest centre, and the squared distance to it."""
    size = max(1, BLOCK_BYTES // (rows.element_size() * len(centres)))
    offsets, turned = centres.square().sum(1), centres.T
    parts = [
        torch.addmm(offsets, some, turned, alpha=-2).min(dim=1) for some in torch.split(rows, size)
    ]
    apart = torch.cat([part.values for part in parts]) + rows.square().sum(1)
    return torch.cat([part.indices for part in parts]), apart


def _centres(rows: Tensor, found: Tensor, apart: Tensor, count: int) -> Tensor:
    """Return the mean of each cluster; an empty one moves to the row farthest from its centre.

    The means are summed in double precision, because a device adds up in any order.
    """
    sums = torch.zeros(count, rows.shape[1], dtype=torch.float64, device=rows.device)
    sums.index_add_(0, found, rows.double())
    ones = torch.ones_like(found, dtype=torch.float64)
    sizes = torch.zeros(count, dtype=torch.float64, device=rows.device).index_add_(0, found, ones)
    empty = sizes == 0
    farthest = apart.argsort(descending=True, stable=True)[:count]
    instead = rows[farthest[(empty.cumsum(0) - 1).clamp(min=0)]]
    means = (sums / sizes.clamp(min=1)[:, None]).to(rows.dtype)
    return torch.where(empty[:, None], instead, means)
