"""Where the matches of each query stand in its full list: exact, in blocks of bounded memory, ties broken against the query."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK_BYTES = 256 * 2**20  # of one block of similarities; the product wants about a thousand queries at a time
STRIPE_BYTES = 32 * 2**20  # of a block compared at a time: little room, yet few ends at which threads wait, which is dear on a busy machine
GROUP = 32  # rows seen only through the greatest of them until it is known to matter
PICKING = 64  # similarities that can be streamed through in the time that picking one out takes
LANES = 64  # a block as wide as a multiple of this is multiplied a third faster than one of odd width
SLACK = 16  # units of rounding at a cosine of 1 within which two similarities are a tie


@dataclass(frozen=True)
class Block:
    """Some queries, one per row, and what is known of their matches, nearest first."""

    rows: Tensor
    matches: Tensor  # how many there are
    others: Tensor  # how many rows are neither the query nor a match
    cosines: Tensor  # to each match; -inf where there is none
    places: Tensor  # of each match in the full list, from 0; beyond everything where there is none
    toward: Tensor  # sum of the cosines to all rows but the query

    @property
    def there(self) -> Tensor:
        return self.cosines > -torch.inf


@dataclass(frozen=True)
class Classes:
    """Which rows belong together, without a table as wide as the largest class."""

    labels: Tensor
    counts: Tensor  # rows of each label
    order: Tensor  # rows sorted by label
    starts: Tensor  # where a label begins in that order

    @classmethod
    def of(cls, labels: Tensor) -> "Classes":
        counts = torch.bincount(labels)
        return cls(labels, counts, labels.argsort(stable=True), counts.cumsum(0) - counts)

    def members(self, rows: Tensor, width: int) -> Tensor:
        """The rows of each row's class; a smaller class is filled up with the row itself."""
        places, own = torch.arange(width, device=rows.device), self.labels[rows][:, None]
        members = self.order[(self.starts[own] + places).clamp(max=len(self.order) - 1)]
        return torch.where(places < self.counts[own], members, rows[:, None])


def directions(embeddings: Tensor) -> Tensor:
    """Unit vectors. What has no direction (zero, infinite, not a number) becomes the origin, whose cosine to all is 0."""
    return F.normalize(embeddings.detach()).nan_to_num_(0.0, 0.0, 0.0)


def blocks(unit: Tensor, labels: Tensor, *, first: int, every: int | None) -> Iterator[Block]:
    """All queries that have a match, those with the most matches first.

    The place of the nearest match is exact up to first, or known to be beyond. Those of all matches are exact up to every and up to
    the number of matches; with every=None only the nearest match has a place.
    """
    classes, total = Classes.of(labels), unit.sum(0, dtype=torch.float64)
    matches = classes.counts[labels] - 1
    rows = matches.argsort(descending=True, stable=True)[: int((matches > 0).sum())]
    height = -(-len(unit) // GROUP) * GROUP
    room = max(BLOCK_BYTES // unit.element_size(), height)
    buffer = unit.new_empty(min(room, height * len(rows)))
    while len(rows):
        most = int(matches[rows[0]])
        width = max(1, min(len(rows), room // (height + 12 * most)))  # finding and sorting a match takes room, too
        queries, rows = rows.tensor_split([width - width % LANES or width])
        # The gallery runs down and the queries across: the product is faster that way round, and so is all that reduces the gallery.
        similarity = buffer[: height * len(queries)].view(height, len(queries))
        similarity[len(unit) :] = -torch.inf
        torch.mm(unit, unit[queries].T, out=similarity[: len(unit)])
        cosines = _take_matches(similarity, queries, classes.members(queries, most + 1))
        own = unit[queries].double()
        yield Block(
            rows=queries,
            matches=matches[queries],
            others=len(unit) - 1 - matches[queries],
            cosines=cosines,
            places=_places(similarity, cosines, first=first, every=every),
            toward=own @ total - own.square().sum(1),
        )


def _take_matches(similarity: Tensor, queries: Tensor, members: Tensor) -> Tensor:
    """The similarities of the matches, nearest first; the block keeps only those of the others, the query itself not among them."""
    cosines = similarity.gather(0, members.T).T.masked_fill(members == queries[:, None], -torch.inf)
    similarity.scatter_(0, members.T, -torch.inf)
    return cosines.sort(dim=1, descending=True).values[:, :-1]


def _places(others: Tensor, cosines: Tensor, *, first: int, every: int | None) -> Tensor:
    """The place of the i-th match is i plus the number of others at least as similar: a tie counts against the query.

    One matrix product gives equal vectors similarities that differ by rounding, so a tie is anything within SLACK.
    """
    bars = cosines - SLACK * torch.finfo(cosines.dtype).eps
    if every is None:
        return _ahead(others, bars[:, :1], first)
    depth = max(every, cosines.shape[1])
    ahead = _ahead(others, bars, depth)
    if first > depth:
        ahead[:, :1] = _ahead(others, bars[:, :1], first)
    places = ahead + torch.arange(cosines.shape[1], device=cosines.device)
    return places.masked_fill_(cosines == -torch.inf, torch.iinfo(places.dtype).max)


def _ahead(others: Tensor, bars: Tensor, depth: int) -> Tensor:
    """How many others reach each bar, by whichever is cheaper; more than depth of them need not be counted."""
    if bars.shape[1] * len(others) <= PICKING * min(depth * GROUP, len(others)):
        return torch.stack([_count(others, bar) for bar in bars.T.contiguous()], dim=1)
    some = LANES if 2 * depth * GROUP >= len(others) else len(bars)  # queries at a time: sorting takes several times their room
    parts = zip(torch.split(others, some, dim=1), torch.split(bars, some), strict=True)
    return torch.cat([torch.searchsorted(-_nearest(part, depth), -bar, right=True) for part, bar in parts])


def _count(others: Tensor, bar: Tensor) -> Tensor:
    """One pass. Answers are written as numbers, because summing truth values is many times slower."""
    stripes = torch.split(others, max(1, STRIPE_BYTES // (others.element_size() * len(bar))))
    reached, count = torch.empty_like(stripes[0]), torch.zeros(len(bar), dtype=torch.float64, device=bar.device)
    for stripe in stripes:
        count += torch.ge(stripe, bar, out=reached[: len(stripe)]).sum(0)
    return count.long()


def _nearest(others: Tensor, depth: int) -> Tensor:
    """The greatest similarities of each query: they are all in the groups with the greatest maxima."""
    if 2 * depth * GROUP >= len(others):
        return others.T.contiguous().topk(min(depth, len(others)), dim=1).values
    groups = others.view(-1, GROUP, others.shape[1])
    chosen = groups.amax(1).T.contiguous().topk(depth, dim=1, sorted=False).indices
    queries = torch.arange(len(chosen), device=chosen.device)
    return groups[chosen, :, queries[:, None]].flatten(1).topk(depth, dim=1).values
