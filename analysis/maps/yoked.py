"""Yoked t-SNE: one map per embedding of the same images, drawn together so that an image lies in about the same place in all of them.

The cost is that of Dynamic t-SNE (Rauber et al. 2016): the sum of the maps' own t-SNE costs, plus penalty / (2 n) times the squared
distances between an image's places in neighbouring maps.
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

from analysis.maps.kept import Floats
from analysis.maps.plane import PERPLEXITY, Plane, fitting, main_directions

PENALTY = 0.01
EARLY, LATE = 250, 500  # steps with and without exaggeration, as in other t-SNEs
EXAGGERATION = 12.0
BLOCK = 256  # rows of the distance matrix at a time: they fit into a core's cache
SMALLEST_GAIN = 0.01
START = 1e-4  # the spread of the first places


@dataclass(frozen=True, eq=False)
class Yoked:
    """A map per embedding, and the costs of their last step: each map's own, and the mean squared distance between neighbours."""

    maps: tuple[Plane, ...]
    divergences: tuple[float, ...]
    apart: float


@dataclass(frozen=True, eq=False)
class Affinities:
    """Who should lie near whom, as edges by row: the joint probabilities of t-SNE, summing to one."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    ends: Tensor  # where each row's edges start and stop

    @classmethod
    def of(cls, joint: sparse.csr_matrix, *, dtype: torch.dtype = torch.float32) -> Affinities:
        edges = joint.tocoo()
        rows, columns = torch.from_numpy(edges.row.astype(np.int64)), torch.from_numpy(edges.col.astype(np.int64))
        return cls(rows, columns, torch.from_numpy(edges.data).to(dtype), torch.from_numpy(joint.indptr.astype(np.int64)))


def yoked_tsne(embeddings: Sequence[Floats], *, penalty: float = PENALTY, perplexity: float = PERPLEXITY) -> Yoked:
    """embeddings: unit vectors of the same images in the same order, of any number of dimensions. Takes memory for one block only.

    penalty 0 is plain t-SNE from a common start; a large one makes all maps one.
    """
    sizes = {len(each) for each in embeddings}
    if len(sizes) != 1 or penalty < 0:
        raise ValueError(f"Yoked maps need the same images and a penalty of at least 0, but got {sorted(sizes)} images and {penalty=}.")
    count = sizes.pop()
    together = main_directions(np.hstack(list(embeddings)))
    if count < 8:
        return Yoked((together,) * len(embeddings), (0.0,) * len(embeddings), 0.0)
    start = torch.from_numpy(together / max(together[:, 0].std(), np.finfo(float).tiny) * START).float()
    joint = [Affinities.of(affinities(each, perplexity)) for each in embeddings]
    places = descend(joint, start.repeat(len(joint), 1, 1), penalty=penalty)
    costs = [divergence(each, place)[0] for each, place in zip(joint, places, strict=True)]
    apart = (places[1:] - places[:-1]).square().sum(-1).mean() if len(joint) > 1 else torch.zeros(())
    return Yoked(tuple(place.double().numpy() for place in places), tuple(costs), float(apart))


def affinities(units: Floats, perplexity: float) -> sparse.csr_matrix:
    from openTSNE.affinity import PerplexityBasedNN

    neighbours = PerplexityBasedNN(np.asarray(units, dtype=np.float64), fitting(perplexity, len(units)), method="exact", n_jobs=-1)
    return sparse.csr_matrix(neighbours.P)


def divergence(joint: Affinities, places: Tensor, exaggeration: float = 1.0) -> tuple[float, Tensor]:
    """The Kullback-Leibler divergence of one map, and its gradient: pulled by the edges, pushed by all."""
    away = places[joint.rows] - places[joint.columns]
    near = 1 / (1 + away.square().sum(1))
    pull = torch.segment_reduce((joint.values * near)[:, None] * away, "sum", offsets=joint.ends, axis=0)
    push, total = _push(places)
    cost = (joint.values * (joint.values.clamp(min=1e-30) / near).log()).sum() + total.log()
    return float(cost), 4 * (exaggeration * pull - push / total)


def _push(places: Tensor) -> tuple[Tensor, Tensor]:
    """Every image pushes every other; and the sum of all nearnesses, by which a push is divided. Each pair is looked at once."""
    lengths, ones = places.square().sum(1, keepdim=True), torch.ones_like(places[:, :1])
    one, other = torch.cat([-2 * places, ones, lengths], 1), torch.cat([places, lengths + 1, ones], 1).T  # product: 1 + distance squared
    counted = torch.cat([places, ones], 1)
    summed, total = torch.zeros_like(counted), places.new_zeros(())
    for start in range(0, len(places), BLOCK):
        rows, rest = slice(start, start + BLOCK), slice(start + BLOCK, len(places))
        near = (one[rows] @ other[:, start:]).reciprocal_()
        near[:, : len(near)].fill_diagonal_(0)  # none pushes itself
        total += near.sum() + near[:, BLOCK:].sum()
        summed[rows] += near.square_() @ counted[start:]
        summed[rest] += near[:, BLOCK:].T @ counted[rows]
    return places * summed[:, 2:] - summed[:, :2], total


def alignment(places: Tensor, penalty: float) -> tuple[float, Tensor]:
    """What lying apart costs, and its gradient. places: (maps, images, 2)."""
    steps = places[1:] - places[:-1]
    gradient = torch.zeros_like(places)
    gradient[:-1] -= steps
    gradient[1:] += steps
    share = penalty / places.shape[1]
    return float(share / 2 * steps.square().sum()), share * gradient


def descend(joint: Sequence[Affinities], places: Tensor, *, penalty: float, early: int = EARLY, late: int = LATE) -> Tensor:
    """Gradient steps with momentum and gains, as in other t-SNEs; the yoke is solved for exactly in each, so no penalty is too stiff."""
    speed, gains = torch.zeros_like(places), torch.ones_like(places)
    with _a_thread_per_map(len(joint)) as pool:
        for step in range(early + late):
            exaggeration, momentum = (EXAGGERATION, 0.5) if step < early else (1.0, 0.8)
            rate = places.shape[1] / exaggeration
            own = torch.stack(list(pool.map(lambda each, place, more=exaggeration: divergence(each, place, more)[1], joint, places)))
            uphill = (own + alignment(places, penalty)[1]) * speed > 0
            gains = torch.where(uphill, gains * 0.8, gains + 0.2).clamp(min=SMALLEST_GAIN)
            moved = places + momentum * speed - rate * gains * own
            moved = _pulled(moved, rate * penalty / places.shape[1] * gains) if penalty else moved
            moved = moved - moved.mean(dim=(0, 1) if penalty else 1, keepdim=True)
            speed, places = moved - places, moved
    return places


@contextmanager
def _a_thread_per_map(maps: int) -> Iterator[ThreadPoolExecutor]:
    """torch's own threads wait for each other in every small product, which costs more than they win (measured)."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(min(maps, before)) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)


def _pulled(places: Tensor, weights: Tensor) -> Tensor:
    """The implicit step of the penalty: (1 + weights x the chain's Laplacian) x new places = places, for each image and axis."""
    maps = len(places)
    chain = torch.zeros(maps, maps)
    for i in range(maps - 1):
        chain[i : i + 2, i : i + 2] += torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    system = torch.eye(maps) + weights.permute(1, 2, 0)[..., None] * chain
    solved: Tensor = torch.linalg.solve(system, places.permute(1, 2, 0)[..., None])
    return solved[..., 0].permute(2, 0, 1)


def zoom(maps: Sequence[Plane], rows: NDArray[np.int64], *, share: float = 0.35) -> list[tuple[float, float, float, float]]:
    """In each map a rectangle around these images, of at most this share of the map's sides: left, right, bottom, top."""
    found = []
    for plane in maps:
        low, high = np.quantile(plane[rows], (0.05, 0.95), axis=0)
        half = np.minimum(1.15 * (high - low), share * np.ptp(plane, axis=0)) / 2 + 1e-9
        middle = np.median(plane[rows], axis=0)
        found.append((float(middle[0] - half[0]), float(middle[0] + half[0]), float(middle[1] - half[1]), float(middle[1] + half[1])))
    return found
