"""One global batch per step, the same for any number of workers; each rank takes its part."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def balanced(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int) -> Iterator[Rows]:
    """Endless batches of size // per_class classes, per_class images each; every class once before any comes again.

    A class with fewer images gives some of them twice.
    """
    members = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    wanted = min(size // per_class, len(members))
    queue = np.empty(0, dtype=np.int64)
    while True:
        if len(queue) < wanted:
            queue = _refill(queue, rng.permutation(len(members)), wanted)
        chosen, queue = queue[:wanted], queue[wanted:]
        yield np.concatenate([rng.choice(members[c], per_class, replace=len(members[c]) < per_class) for c in chosen])


def random(labels: Rows, rng: np.random.Generator, *, size: int, per_class: int) -> Iterator[Rows]:
    """Endless batches in shuffled order; every image once before any comes again."""
    size = min(size, len(labels))
    queue = np.empty(0, dtype=np.int64)
    while True:
        if len(queue) < size:
            queue = _refill(queue, rng.permutation(len(labels)), size)
        chosen, queue = queue[:size], queue[size:]
        yield chosen


def _refill(queue: Rows, fresh: Rows, size: int) -> Rows:
    """The rest of one round and the whole next one; what still waits does not come again within this batch."""
    first = fresh[~np.isin(fresh, queue)][: size - len(queue)]
    return np.concatenate([queue, first, fresh[~np.isin(fresh, first)]])


def share(batch: Rows, rank: int, world: int) -> Rows:
    """This rank's equal, consecutive part of the global batch."""
    if len(batch) % world:
        raise ValueError(f"A batch of {len(batch)} images does not divide between {world} workers; choose a multiple of {world}.")
    part = len(batch) // world
    return batch[rank * part : (rank + 1) * part]


BATCHES: dict[str, Callable[..., Iterator[Rows]]] = {"balanced": balanced, "random": random}
