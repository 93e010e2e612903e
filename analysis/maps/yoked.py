"""Lay out several embeddings of the same images so that their maps can be compared: yoked t-SNE.

An image lies in about the same position in all maps. The cost is that of Dynamic t-SNE (Rauber et
al. 2016): the sum of the maps' own t-SNE costs, plus penalty / (2 n) times the squared distances
between an image's positions in neighbouring maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from analysis.maps.embeddings import Float32Array
from analysis.maps.plane import (
    FEWEST_IMAGES,
    PERPLEXITY,
    Plane,
    fitting_perplexity,
    main_directions,
)

PENALTY = 0.01
EARLY, LATE = 250, 500  # steps with and without exaggeration, as in other t-SNEs
EXAGGERATION = 12.0
BLOCK = 256  # rows of the distance matrix at a time: they fit into a core's cache
SMALLEST_GAIN = 0.01
START = 1e-4  # the standard deviation of the first positions


@dataclass(frozen=True, eq=False)
class Affinities:
    """Hold the joint probabilities of t-SNE as edges by row; they sum to one."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    ends: Tensor  # where each row's edges start and stop

    @classmethod
    def of(cls, joint: sparse.csr_matrix, *, dtype: torch.dtype = torch.float32) -> Affinities:
        edges = joint.tocoo()
        rows, columns = (
            torch.from_numpy(edges.row.astype(np.int64)),
            torch.from_numpy(edges.col.astype(np.int64)),
        )
        return cls(
            rows,
            columns,
            torch.from_numpy(edges.data).to(dtype),
            torch.from_numpy(joint.indptr.astype(np.int64)),
        )


def yoked_tsne(
    embeddings: Sequence[Float32Array], *, penalty: float = PENALTY, perplexity: float = PERPLEXITY
) -> tuple[Plane, ...]:
    """Return a map per embedding; memory is that of one block of the distance matrix.

    embeddings: unit vectors of the same images in the same order, of any number of dimensions.
    penalty: 0 gives plain t-SNE from a common start; a large one makes all maps equal.
    """
    sizes = {len(each) for each in embeddings}
    if len(sizes) != 1 or penalty < 0:
        raise ValueError(
            f"Yoked maps need the same images and a penalty of at least 0, but got {sorted(sizes)} "
            f"images and {penalty=}."
        )
    count = sizes.pop()
    together = main_directions(np.hstack(list(embeddings)))
    if count < FEWEST_IMAGES:
        return (together,) * len(embeddings)
    start = torch.from_numpy(
        together / max(together[:, 0].std(), np.finfo(float).tiny) * START
    ).float()
    joint = [Affinities.of(affinities(each, perplexity)) for each in embeddings]
    positions = descend(joint, start.repeat(len(joint), 1, 1), penalty=penalty)
    return tuple(plane.double().numpy() for plane in positions)


def affinities(units: Float32Array, perplexity: float) -> sparse.csr_matrix:
    from openTSNE.affinity import PerplexityBasedNN

    neighbours = PerplexityBasedNN(
        np.asarray(units, dtype=np.float64),
        fitting_perplexity(perplexity, len(units)),
        method="exact",
        n_jobs=-1,
    )
    return sparse.csr_matrix(neighbours.P)


def divergence(
    joint: Affinities, positions: Tensor, exaggeration: float = 1.0
) -> tuple[float, Tensor]:
    """Return the Kullback-Leibler divergence of one map, and its gradient."""
    away = positions[joint.rows] - positions[joint.columns]
    near = 1 / (1 + away.square().sum(1))
    pull = torch.segment_reduce(
        (joint.values * near)[:, None] * away, "sum", offsets=joint.ends, axis=0
    )
    push, total = _push(positions)
    cost = (joint.values * (joint.values.clamp(min=1e-30) / near).log()).sum() + total.log()
    return float(cost), 4 * (exaggeration * pull - push / total)


def _push(positions: Tensor) -> tuple[Tensor, Tensor]:
    """Return the push of all images on each, and the sum of all nearnesses, its divisor.

    Each pair is computed once.
    """
    lengths, ones = positions.square().sum(1, keepdim=True), torch.ones_like(positions[:, :1])
    # The product of the two is 1 + distance squared.
    one = torch.cat([-2 * positions, ones, lengths], 1)
    other = torch.cat([positions, lengths + 1, ones], 1).T
    counted = torch.cat([positions, ones], 1)
    summed, total = torch.zeros_like(counted), positions.new_zeros(())
    for start in range(0, len(positions), BLOCK):
        rows, rest = slice(start, start + BLOCK), slice(start + BLOCK, len(positions))
        near = (one[rows] @ other[:, start:]).reciprocal_()
        near[:, : len(near)].fill_diagonal_(0)  # no image pushes itself
        total += near.sum() + near[:, BLOCK:].sum()
        summed[rows] += near.square_() @ counted[start:]
        summed[rest] += near[:, BLOCK:].T @ counted[rows]
    return positions * summed[:, 2:] - summed[:, :2], total


def alignment(positions: Tensor, penalty: float) -> tuple[float, Tensor]:
    """Return the cost of lying apart, and its gradient. positions: (maps, images, 2)."""
    steps = positions[1:] - positions[:-1]
    gradient = torch.zeros_like(positions)
    gradient[:-1] -= steps
    gradient[1:] += steps
    share = penalty / positions.shape[1]
    return float(share / 2 * steps.square().sum()), share * gradient


def descend(
    joint: Sequence[Affinities],
    positions: Tensor,
    *,
    penalty: float,
    early: int = EARLY,
    late: int = LATE,
) -> Tensor:
    """Return the positions after gradient steps with momentum and gains, as in other t-SNEs.

    Every step solves for the yoke exactly, so no penalty is too stiff.
    """
    speed, gains = torch.zeros_like(positions), torch.ones_like(positions)
    with _a_thread_per_map(len(joint)) as pool:
        for step in range(early + late):
            exaggeration, momentum = (EXAGGERATION, 0.5) if step < early else (1.0, 0.8)
            rate = positions.shape[1] / exaggeration
            own = torch.stack(
                list(
                    pool.map(
                        lambda each, plane, more=exaggeration: divergence(each, plane, more)[1],
                        joint,
                        positions,
                    )
                )
            )
            uphill = (own + alignment(positions, penalty)[1]) * speed > 0
            gains = torch.where(uphill, gains * 0.8, gains + 0.2).clamp(min=SMALLEST_GAIN)
            moved = positions + momentum * speed - rate * gains * own
            moved = (
                _pulled(moved, rate * penalty / positions.shape[1] * gains) if penalty else moved
            )
            moved = moved - moved.mean(dim=(0, 1) if penalty else 1, keepdim=True)
            speed, positions = moved - positions, moved
    return positions


@contextmanager
def _a_thread_per_map(maps: int) -> Iterator[ThreadPoolExecutor]:
    """Give each map a thread: torch's own ones wait for each other in every small product."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(min(maps, before)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


def _pulled(positions: Tensor, weights: Tensor) -> Tensor:
    """Return the new positions of the penalty's implicit step, for each image and axis.

    They solve (1 + weights x the chain's Laplacian) x new positions = positions.
    """
    maps = len(positions)
    chain = torch.zeros(maps, maps)
    for i in range(maps - 1):
        chain[i : i + 2, i : i + 2] += torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    system = torch.eye(maps) + weights.permute(1, 2, 0)[..., None] * chain
    solved: Tensor = torch.linalg.solve(system, positions.permute(1, 2, 0)[..., None])
    return solved[..., 0].permute(2, 0, 1)


def zoom(
    maps: Sequence[Plane], rows: NDArray[np.int64], *, share: float = 0.35
) -> list[tuple[float, float, float, float]]:
    """Return a rectangle around these images in each map: left, right, bottom, top.

    share: the largest share of the map's sides that it may take.
    """
    boxes = []
    for plane in maps:
        low, high = np.quantile(plane[rows], (0.05, 0.95), axis=0)
        half = np.minimum(1.15 * (high - low), share * np.ptp(plane, axis=0)) / 2 + 1e-9
        middle = np.median(plane[rows], axis=0)
        boxes.append(
            (
                float(middle[0] - half[0]),
                float(middle[0] + half[0]),
                float(middle[1] - half[1]),
                float(middle[1] + half[1]),
            )
        )
    return boxes
