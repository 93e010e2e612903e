"""Rank the nearest match among as many classes as another set has, so that both share a scale."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from trainables.metrics.ranking import blocks

ROUNDS = 10  # random divisions of all classes into galleries; each scores every query once


def nearest_match_ranks(unit: Tensor, labels: Tensor, *, classes: int, depth: int) -> Tensor:
    """Return the rank of each row's nearest match in its gallery, for each round.

    Ranks count from 0 and are exact up to depth; without a match they are beyond everything.
    """
    count = int(labels.max()) + 1
    found = torch.full((ROUNDS, len(labels)), torch.iinfo(torch.int64).max, device=labels.device)
    for number in range(ROUNDS):
        order = np.random.default_rng((0, number)).permutation(count).tolist()
        for own, filling in deal(order, classes):
            role = torch.zeros(count, dtype=torch.int8)
            role[own], role[filling] = 2, 1
            roles = role.to(labels.device)[labels]
            gallery = torch.nonzero(roles).flatten()
            for block in blocks(unit[gallery], labels[gallery], first=depth, every=None):
                rows, scored = gallery[block.rows], roles[gallery[block.rows]] == 2
                found[number, rows[scored]] = block.ranks[scored, 0]
    return found


def deal(order: list[int], size: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield galleries of `size` classes in this order.

    Each is the classes whose queries are scored, and the classes from the start of the order that
    fill up the last gallery.
    """
    for begin in range(0, len(order), size):
        own = order[begin : begin + size]
        yield own, order[: size - len(own)]
