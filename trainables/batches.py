"""One global batch per step, the same for any number of workers; each rank takes its part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Rows = NDArray[np.int64]
NEIGHBOURS = 10  # kept of every image
NEIGHBOUR_BLOCK = 1024  # images whose similarities to all others are held at a time


def balanced(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int) -> Iterator[Rows]:
    """Endless batches of size // per_class classes, per_class images each; every class once before any comes again.

    A class with fewer images gives each of them once before any of them again.
    """
    order = np.argsort(labels, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(labels[order])) + 1)
    wanted = min(size // per_class, len(members))
    queue = np.empty(0, dtype=np.int64)
    while True:
        if len(queue) < wanted:
            queue = _refill(queue, rng.permutation(len(members)), wanted)
        chosen, queue = queue[:wanted], queue[wanted:]
        yield np.concatenate([_some(members[c], per_class, rng) for c in chosen])


def _some(members: Rows, count: int, rng: np.random.Generator) -> Rows:
    if len(members) >= count:
        return rng.choice(members, count, replace=False)
    return np.concatenate([rng.permutation(members) for _ in range(-(-count // len(members)))])[:count]


def random(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int) -> Iterator[Rows]:
    """Endless batches in shuffled order; every image once before any comes again."""
    size = min(size, len(labels))
    queue = np.empty(0, dtype=np.int64)
    while True:
        if len(queue) < size:
            queue = _refill(queue, rng.permutation(len(labels)), size)
        chosen, queue = queue[:size], queue[size:]
        yield chosen


def triplets(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int) -> Iterator[Rows]:
    """Endless batches of rows anchor, positive, negative, anchor, positive, negative, ...: size // 3 triplets.

    Every image of a class with two or more is an anchor once before any is again; its positive is another image of its class
    and its negative any image of another class, both at random. An image may come again as positive or negative.
    """
    classes, counts = np.unique(labels, return_counts=True)
    eligible = np.flatnonzero(np.isin(labels, classes[counts > 1]))
    if len(classes) < 2 or not len(eligible) or size < 3:
        raise ValueError(
            f"A triplet is two images of one class and one of another, but got {len(classes)} classes, {len(eligible)} images with "
            f"another of their class, and batches of {size}; give two classes, one of them with two images, and a batch of 3 or more."
        )
    for anchors in random(eligible, rng, size=size // 3, per_class=per_class):
        yield np.concatenate([_triplet(eligible[anchor], labels, rng) for anchor in anchors])


def _triplet(anchor: np.int64, labels: Rows, rng: np.random.Generator) -> Rows:
    equal = labels == labels[anchor]
    others = np.flatnonzero(equal)
    return np.array([anchor, rng.choice(others[others != anchor]), rng.choice(np.flatnonzero(~equal))])


def mined(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int, neighbours: Rows | None = None) -> Iterator[Rows]:
    """Endless batches of which one half is balanced and the other the hardest neighbours of that half.

    neighbours: for every row the rows of other classes that were most similar to it after the last epoch, nearest first;
    None, as before the first epoch, gives balanced batches. All nearest neighbours come before any second nearest; where
    there are too few, rows at random fill the batch, so that it has the size of a balanced one.
    """
    whole = min(size // per_class, len(np.unique(labels))) * per_class
    seeds = whole if neighbours is None else max(1, whole // per_class // 2) * per_class
    for seed in balanced(labels, rng, size=seeds, per_class=per_class):
        yield seed if neighbours is None else _with_neighbours(seed, neighbours, rng, whole)


def _with_neighbours(seed: Rows, neighbours: Rows, rng: np.random.Generator, size: int) -> Rows:
    hard = neighbours[seed].T.flatten()
    candidates = np.concatenate([hard, rng.permutation(len(neighbours))])
    fresh = candidates[~np.isin(candidates, seed)]
    _, first = np.unique(fresh, return_index=True)
    return np.concatenate([seed, fresh[np.sort(first)][: size - len(seed)]])


def hardest_neighbours(embeddings: Tensor, labels: Tensor) -> Rows:
    """For every row the rows of other classes that are most similar to it, nearest first: what mined batches are filled with."""
    import torch
    from torch.nn import functional as F

    with torch.no_grad():
        unit = F.normalize(embeddings)
        found = []
        for rows in torch.split(torch.arange(len(unit), device=unit.device), NEIGHBOUR_BLOCK):
            similarity = (unit[rows] @ unit.T).masked_fill_(labels[rows, None] == labels, -torch.inf)
            found.append(similarity.topk(min(NEIGHBOURS, int((labels != labels.mode().values).sum())), dim=1).indices)
        neighbours: Rows = torch.cat(found).cpu().numpy()
    return neighbours


def _refill(queue: Rows, fresh: Rows, size: int) -> Rows:
    """The rest of one round and the whole next one; what still waits does not come again within this batch."""
    first = fresh[~np.isin(fresh, queue)][: size - len(queue)]
    return np.concatenate([queue, first, fresh[~np.isin(fresh, first)]])


BATCHES: dict[str, Callable[..., Iterator[Rows]]] = {"balanced": balanced, "random": random, "triplets": triplets, "mined": mined}
