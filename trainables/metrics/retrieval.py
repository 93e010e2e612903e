"""Exact metrics of retrieval and clustering: self excluded by index, ties broken against the query, lone queries counted."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from search_spaces import pick

if TYPE_CHECKING:  # both are slow to import, and a wrong name must be answered in a second
    from torch import Tensor

    from trainables.metrics.ranking import Block

POOLED = "pooled_"  # before a metric's name: the same from the network's pooled features


@dataclass(frozen=True)
class Retrieval:
    """One value per scored query and metric, and their means; nmi and f1 have one value for all, so they are in means only."""

    means: dict[str, float]
    queries: dict[str, Tensor]
    scored: Tensor  # rows of the queries that have a match
    lone: int


def retrieval(embeddings: Tensor, labels: Tensor, metrics: tuple[str, ...], *, gallery_classes: int | None = None) -> Retrieval:
    """Every row is a query against all other rows; a query without a match is counted as lone and not scored.

    gallery_classes: how many classes a gallery of matched_recall_at_K has; None or too many: all of them, so that it is recall_at_K.
    Where nothing can be asked the answer is 0: every metric without a scored query, and what compares with other classes if there
    are none.
    """
    import torch

    from trainables.metrics.ranking import directions

    if gallery_classes is not None and gallery_classes < 2:
        raise ValueError(f"A gallery must hold at least two classes, or nothing can be mistaken in it, but got {gallery_classes=}.")
    unit, (classes, labels) = directions(embeddings), torch.unique(labels, return_inverse=True)
    scored = torch.nonzero(torch.bincount(labels)[labels] > 1).flatten()
    size = min(gallery_classes or len(classes), len(classes))
    clustered = [name for name in metrics if _split(name)[0] not in SCORES]
    dealt = [name for name in metrics if name.startswith("matched_") and size < len(classes)]
    values = _ranked(unit, labels, [name for name in metrics if name not in (*clustered, *dealt)])
    if dealt:
        values |= _dealt(unit, labels, dealt, classes=size)
    queries = {name: values[name][scored] for name in metrics if name in values}
    means = dict.fromkeys(metrics, 0.0)
    if len(scored):
        means |= {name: float(each.double().mean()) for name, each in queries.items()}
        means |= _clustered(unit, labels, clustered) if clustered else {}
    return Retrieval(means, queries, scored, lone=len(labels) - len(scored))


def _ranked(unit: Tensor, labels: Tensor, names: list[str]) -> dict[str, Tensor]:
    """A value for each row that has a match, all names in one pass."""
    from trainables.metrics.ranking import blocks

    split = {name: _split(name) for name in names}
    first = max([k for key, k in split.values() if key in NEAREST], default=0)
    every = [len(labels) if key == "triplet_accuracy" else k for key, k in split.values() if key not in NEAREST]
    values = {name: unit.new_zeros(len(labels)) for name in names}
    for block in blocks(unit, labels, first=max(1, first), every=max(every, default=None)) if names else ():
        for name, (key, k) in split.items():
            values[name][block.rows] = SCORES[key](block, k).to(unit.dtype)
    return values


def _dealt(unit: Tensor, labels: Tensor, names: list[str], *, classes: int) -> dict[str, Tensor]:
    from trainables.metrics.galleries import places

    ks = {name: _split(name)[1] for name in names}
    found = places(unit, labels, classes=classes, depth=max(ks.values()))
    return {name: (found < k).to(unit.dtype).mean(0) for name, k in ks.items()}


def _clustered(unit: Tensor, labels: Tensor, names: list[str]) -> dict[str, float]:
    from trainables.metrics.clustering import CLUSTERING, cluster

    truth = labels.cpu().numpy()
    found = cluster(unit, int(truth.max()) + 1)
    return {name: CLUSTERING[name](truth, found) for name in names}


def _split(name: str) -> tuple[str, int]:
    """recall_at_10 -> recall_at_K, 10."""
    found = re.fullmatch(r"(.*_at_)(\d+)", name)
    return (f"{found[1]}K", int(found[2])) if found else (name, 0)


def _recall(block: Block, k: int) -> Tensor:
    return block.places[:, 0] < k


def _precision(block: Block, k: int) -> Tensor:
    return (block.places < k).sum(1).double() / k


def _r_precision(block: Block, k: int) -> Tensor:
    return (block.places < block.matches[:, None]).sum(1).double() / block.matches


def _map_at_r(block: Block, k: int) -> Tensor:
    within = block.places < block.matches[:, None]
    return (within * within.cumsum(1) / (block.places.double() + 1)).sum(1) / block.matches


def _triplet_accuracy(block: Block, k: int) -> Tensor:
    """Of all triplets of the query, not of a sample: what is ahead of its i-th match, beside i matches, is a wrong triplet each."""
    matches_ahead = block.matches * (block.matches - 1) // 2
    wrong = (block.places * block.there).sum(1) - matches_ahead
    triplets = block.matches * block.others
    return (triplets - wrong).double() / triplets.clamp(min=1)


def _positive_cosine(block: Block, k: int) -> Tensor:
    return _sum_of_positives(block) / block.matches


def _negative_cosine(block: Block, k: int) -> Tensor:
    return ((block.toward - _sum_of_positives(block)) / block.others.clamp(min=1)) * (block.others > 0)


def _sum_of_positives(block: Block) -> Tensor:
    return block.cosines.double().where(block.there, 0.0).sum(1)


METRICS: dict[str, str] = {
    "recall_at_K": "share of queries with a match among their K nearest; any K, as in recall_at_1",
    "precision_at_K": "share of matches among the K nearest; any K",
    "r_precision": "share of matches among the R nearest, R being the number of matches that exist",
    "map_at_r": "mean over the first R places of the precision there, counted where a match stands",
    "matched_recall_at_K": "recall_at_K in random galleries with as many classes as the validation set has: one scale for both sets",
    "triplet_accuracy": "share of triplets whose anchor is nearer to the positive than to the negative; all triplets, no sample",
    "positive_cosine": "mean cosine of a query and its matches",
    "negative_cosine": "mean cosine of a query and all images of other classes",
    "nmi": "normalised mutual information of the classes and as many clusters found by k-means",
    "f1": "F1 of pairs: two images of one k-means cluster should be of one class, and the other way round",
}
SCORES: dict[str, Callable[[Block, int], Tensor]] = {
    "recall_at_K": _recall,
    "precision_at_K": _precision,
    "r_precision": _r_precision,
    "map_at_r": _map_at_r,
    "matched_recall_at_K": _recall,
    "triplet_accuracy": _triplet_accuracy,
    "positive_cosine": _positive_cosine,
    "negative_cosine": _negative_cosine,
}
NEAREST = ("recall_at_K", "matched_recall_at_K", "positive_cosine", "negative_cosine")  # need the place of no match but the nearest


def feature_of(name: str) -> tuple[Literal["embedding", "pooled"], str]:
    """What a metric is taken from, and its name without that: pooled_recall_at_1 -> pooled, recall_at_1."""
    bare = name.removeprefix(POOLED)
    return ("embedding" if bare == name else "pooled"), bare


def check_metric(name: str) -> str:
    """The name itself, or a ValueError with the near one."""
    _, bare = feature_of(name)
    if bare.endswith("_at_K"):
        raise ValueError(f"{name} needs a number in the place of K, as in {name[:-1]}1.")
    if not re.fullmatch(r"((matched_)?recall|precision)_at_[1-9]\d*", bare):
        pick(METRICS, bare, "metric")
    return name
