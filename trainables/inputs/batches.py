"""Draw one global batch per step, the same for any number of workers; each rank takes its part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

Rows = NDArray[np.int64]
NEIGHBOURS = 10  # of every image to keep
NEIGHBOUR_BLOCK = 1024  # images whose similarities to all others are held at a time


def balanced(
    labels: Rows, rng: np.random.Generator, *, size: int, per_class: int
) -> Iterator[Rows]:
    """Yield batches of size // per_class classes, per_class images each, without end.

    Every class comes once before any comes again. A class with fewer images than per_class gives
    each of them once before any of them again.
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
    rounds = -(-count // len(members))
    return np.concatenate([rng.permutation(members) for _ in range(rounds)])[:count]


def random(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int) -> Iterator[Rows]:
    """Yield batches in shuffled order without end; every image comes once before any again."""
    size = min(size, len(labels))
    queue = np.empty(0, dtype=np.int64)
    while True:
        if len(queue) < size:
            queue = _refill(queue, rng.permutation(len(labels)), size)
        chosen, queue = queue[:size], queue[size:]
        yield chosen


def half_labelled(
    known: NDArray[np.bool_], rng: np.random.Generator, *, size: int
) -> Iterator[Rows]:
    """Yield batches without end: half of rows with a known label, then half of the others.

    Both halves are drawn as random() draws.
    """
    rows = [np.flatnonzero(known), np.flatnonzero(~known)]
    sizes = [size - size // 2, size // 2]
    streams = [random(r, rng, size=n, per_class=1) for r, n in zip(rows, sizes, strict=True)]
    for drawn in zip(*streams, strict=True):
        yield np.concatenate([r[places] for r, places in zip(rows, drawn, strict=True)])


def labelled(labels: Rows, share: float, seed: int) -> NDArray[np.bool_]:
    """Return which rows keep their label: this share of every class, but two rows at least.

    Which ones depends on the class and the seed alone; a larger share holds those of a smaller one.
    """
    known = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        rows = np.random.default_rng((seed, int(label))).permutation(
            np.flatnonzero(labels == label)
        )
        known[rows[: max(2, round(share * len(rows)))]] = True
    return known


def triplets(
    labels: Rows, rng: np.random.Generator, *, size: int, per_class: int
) -> Iterator[Rows]:
    """Yield batches of size // 3 triplets: rows anchor, positive, negative, anchor, ...

    Every image of a class with two or more is an anchor once before any is again; its positive is
    another image of its class and its negative any image of another class, both at random. An image
    may come again as positive or negative.
    """
    classes, counts = np.unique(labels, return_counts=True)
    eligible = np.flatnonzero(np.isin(labels, classes[counts > 1]))
    if len(classes) < 2 or not len(eligible) or size < 3:
        raise ValueError(
            f"A triplet is two images of one class and one of another, but got {len(classes)} "
            f"classes, {len(eligible)} images with another of their class, and batches of {size}; "
            f"give two classes, one of them with two images, and a batch of 3 or more."
        )
    for anchors in random(eligible, rng, size=size // 3, per_class=per_class):
        yield np.concatenate([_triplet(eligible[anchor], labels, rng) for anchor in anchors])


def _triplet(anchor: np.int64, labels: Rows, rng: np.random.Generator) -> Rows:
    equal = labels == labels[anchor]
    others = np.flatnonzero(equal)
    return np.array(
        [anchor, rng.choice(others[others != anchor]), rng.choice(np.flatnonzero(~equal))]
    )


def mined(
    labels: Rows,
    rng: np.random.Generator,
    *,
    size: int,
    per_class: int,
    neighbours: Rows | None = None,
) -> Iterator[Rows]:
    """Yield batches: one half is balanced, the other the hardest neighbours of that half.

    neighbours: for every row the rows of other classes that were most similar to it after the last
    epoch, nearest first; None, as before the first epoch, gives balanced batches. All nearest
    neighbours come before any second nearest; where there are too few, rows at random fill the
    batch up to the size of a balanced one.
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
    """Return for every row the rows of other classes most similar to it, nearest first."""
    import torch
    from torch.nn import functional as F

    with torch.no_grad():
        unit = F.normalize(embeddings)
        count = min(NEIGHBOURS, int((labels != labels.mode().values).sum()))
        found = []
        for rows in torch.split(torch.arange(len(unit), device=unit.device), NEIGHBOUR_BLOCK):
            equal = labels[rows, None] == labels
            similarity = (unit[rows] @ unit.T).masked_fill_(equal, -torch.inf)
            found.append(similarity.topk(count, dim=1).indices)
        neighbours: Rows = torch.cat(found).cpu().numpy()
    return neighbours


def _refill(queue: Rows, fresh: Rows, size: int) -> Rows:
    """Append the next round to the queue, with nothing twice in the batch that spans both."""
    first = fresh[~np.isin(fresh, queue)][: size - len(queue)]
    return np.concatenate([queue, first, fresh[~np.isin(fresh, first)]])


BATCHES: dict[str, Callable[..., Iterator[Rows]]] = {
    "balanced": balanced,
    "random": random,
    "triplets": triplets,
    "mined": mined,
}
