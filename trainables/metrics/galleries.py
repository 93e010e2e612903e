"""The nearest match among as many classes as another set has, so that validation and test are on one scale."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from trainables.metrics.ranking import blocks

ROUNDS = 10  # deals of all classes; every query is scored once in each


def places(unit: Tensor, labels: Tensor, *, classes: int, depth: int) -> Tensor:
    """For each round and row the place of its nearest match in its gallery, exact up to depth; beyond everything without a match."""
    count = int(labels.max()) + 1
    found = torch.full((ROUNDS, len(labels)), torch.iinfo(torch.int64).max, device=labels.device)
    for number in range(ROUNDS):
        for own, filling in deal(np.random.default_rng((0, number)).permutation(count).tolist(), classes):
            role = torch.zeros(count, dtype=torch.int8)
            role[own], role[filling] = 2, 1
            roles = role.to(labels.device)[labels]
            gallery = torch.nonzero(roles).flatten()
            for block in blocks(unit[gallery], labels[gallery], first=depth, every=None):
                rows, scored = gallery[block.rows], roles[gallery[block.rows]] == 2
                found[number, rows[scored]] = block.places[scored, 0]
    return found


def deal(order: list[int], size: int) -> Iterator[tuple[list[int], list[int]]]:
    """Galleries of size classes in this order: those whose queries are scored, and what fills the last one up from the start."""
    for begin in range(0, len(order), size):
        own = order[begin : begin + size]
        yield own, order[: size - len(own)]
