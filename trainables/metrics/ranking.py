"""Rank the matches of each query: exactly, in bounded memory, ties broken against the query."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

# Bytes of one block of similarities. The product is fastest with about a thousand queries.
BLOCK_BYTES = 256 * 2**20
# Bytes of a block that are compared at a time: little memory, yet few points at which threads wait,
# which costs much on a busy machine.
STRIPE_BYTES = 32 * 2**20
GROUP = 32  # rows that are represented by their maximum until one of them may matter
PICKING = 64  # similarities that can be streamed in the time that picking one out takes
LANES = 64  # a block whose width is a multiple of this is multiplied a third faster
SLACK = 16  # units of rounding at a cosine of 1 within which two similarities are a tie


@dataclass(frozen=True)
class QueryBlock:
    """Hold some queries, one per row, and what is known about their matches, nearest first."""

    rows: Tensor
    matches: Tensor  # how many there are
    others: Tensor  # how many rows are neither the query nor a match
    cosines: Tensor  # to each match; -inf where there is none
    ranks: Tensor  # of each match in the full list, from 0; beyond everything where there is none
    toward: Tensor  # sum of the cosines to all rows but the query

    @property
    def there(self) -> Tensor:
        """Return where there is a match."""
        return self.cosines > -torch.inf


@dataclass(frozen=True)
class ClassMembers:
    """Hold the rows of each class, without a table as wide as the largest class."""

    labels: Tensor
    counts: Tensor  # rows of each label
    order: Tensor  # rows sorted by label
    starts: Tensor  # where a label begins in that order

    @classmethod
    def of(cls, labels: Tensor) -> "ClassMembers":
        """Sort the rows by label."""
        counts = torch.bincount(labels)
        return cls(labels, counts, labels.argsort(stable=True), counts.cumsum(0) - counts)

    def members(self, rows: Tensor, width: int) -> Tensor:
        """Return the rows of each row's class; a smaller class is filled up with the row itself."""
        columns, own = torch.arange(width, device=rows.device), self.labels[rows][:, None]
        members = self.order[(self.starts[own] + columns).clamp(max=len(self.order) - 1)]
        return torch.where(columns < self.counts[own], members, rows[:, None])


def directions(embeddings: Tensor) -> Tensor:
    """Return unit vectors. What has no direction (zero, infinite, NaN) becomes the origin."""
    return F.normalize(embeddings.detach()).nan_to_num_(0.0, 0.0, 0.0)


def blocks(unit: Tensor, labels: Tensor, *, first: int, every: int | None) -> Iterator[QueryBlock]:
    """Yield all queries that have a match, those with the most matches first.

    The rank of the nearest match is exact up to `first`, or known to be beyond. The ranks of all
    matches are exact up to `every` and up to the number of matches; with every=None only the
    nearest match has a rank.
    """
    classes, total = ClassMembers.of(labels), unit.sum(0, dtype=torch.float64)
    matches = classes.counts[labels] - 1
    rows = matches.argsort(descending=True, stable=True)[: int((matches > 0).sum())]
    height = -(-len(unit) // GROUP) * GROUP
    capacity = max(BLOCK_BYTES // unit.element_size(), height)
    buffer = unit.new_empty(min(capacity, height * len(rows)))
    while len(rows):
        most = int(matches[rows[0]])
        # Finding and sorting the matches also takes memory.
        width = max(1, min(len(rows), capacity // (height + 12 * most)))
        queries, rows = rows.tensor_split([width - width % LANES or width])
        # The gallery runs down and the queries across: that makes the product faster, and all that
        # reduces over the gallery.
        similarity = buffer[: height * len(queries)].view(height, len(queries))
        similarity[len(unit) :] = -torch.inf
        torch.mm(unit, unit[queries].T, out=similarity[: len(unit)])
        cosines = _take_matches(similarity, queries, classes.members(queries, most + 1))
        own = unit[queries].double()
        yield QueryBlock(
            rows=queries,
            matches=matches[queries],
            others=len(unit) - 1 - matches[queries],
            cosines=cosines,
            ranks=_ranks(similarity, cosines, first=first, every=every),
            toward=own @ total - own.square().sum(1),
        )


def _take_matches(similarity: Tensor, queries: Tensor, members: Tensor) -> Tensor:
    """Return the similarities of the matches, nearest first, and remove them from the block.

    The block keeps only those of the other rows, without the query itself.
    """
    cosines = similarity.gather(0, members.T).T.masked_fill(members == queries[:, None], -torch.inf)
    similarity.scatter_(0, members.T, -torch.inf)
    return cosines.sort(dim=1, descending=True).values[:, :-1]


def _ranks(others: Tensor, cosines: Tensor, *, first: int, every: int | None) -> Tensor:
    """Return the rank of each match: i for the i-th, plus the others at least as similar.

    A tie counts against the query. One matrix product gives equal vectors similarities that differ
    by rounding, so a tie is anything within SLACK.
    """
    bars = cosines - SLACK * torch.finfo(cosines.dtype).eps
    if every is None:
        return _ahead(others, bars[:, :1], first)
    depth = max(every, cosines.shape[1])
    ahead = _ahead(others, bars, depth)
    if first > depth:
        ahead[:, :1] = _ahead(others, bars[:, :1], first)
    ranks = ahead + torch.arange(cosines.shape[1], device=cosines.device)
    return ranks.masked_fill_(cosines == -torch.inf, torch.iinfo(ranks.dtype).max)


def _ahead(others: Tensor, bars: Tensor, depth: int) -> Tensor:
    """Return how many others reach each bar, by the cheaper method; beyond depth any number."""
    if bars.shape[1] * len(others) <= PICKING * min(depth * GROUP, len(others)):
        return torch.stack([_count(others, bar) for bar in bars.T.contiguous()], dim=1)
    # Queries at a time: sorting takes several times their memory.
    some = LANES if 2 * depth * GROUP >= len(others) else len(bars)
    parts = zip(torch.split(others, some, dim=1), torch.split(bars, some), strict=True)
    return torch.cat(
        [torch.searchsorted(-_nearest(part, depth), -bar, right=True) for part, bar in parts]
    )


def _count(others: Tensor, bar: Tensor) -> Tensor:
    """Count in one pass, with answers as floats, because summing booleans is many times slower."""
    stripes = torch.split(others, max(1, STRIPE_BYTES // (others.element_size() * len(bar))))
    reached = torch.empty_like(stripes[0])
    count = torch.zeros(len(bar), dtype=torch.float64, device=bar.device)
    for stripe in stripes:
        count += torch.ge(stripe, bar, out=reached[: len(stripe)]).sum(0)
    return count.long()


def _nearest(others: Tensor, depth: int) -> Tensor:
    """Return each query's greatest similarities, all of which are in the greatest groups."""
    if 2 * depth * GROUP >= len(others):
        return others.T.contiguous().topk(min(depth, len(others)), dim=1).values
    groups = others.view(-1, GROUP, others.shape[1])
    chosen = groups.amax(1).T.contiguous().topk(depth, dim=1, sorted=False).indices
    queries = torch.arange(len(chosen), device=chosen.device)
    return groups[chosen, :, queries[:, None]].flatten(1).topk(depth, dim=1).values
