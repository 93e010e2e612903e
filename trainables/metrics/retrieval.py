"""Score retrieval and clustering exactly: no self matches, ties broken against the query."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from search_spaces import pick

if TYPE_CHECKING:  # both are slow to import, and a wrong name must be answered in a second
    from torch import Tensor

    from trainables.metrics.ranking import QueryBlock

LOSS_VALUE = "loss_value"  # a trial computes it, because it needs its loss
POOLED_PREFIX = "pooled_"  # of a metric that is taken from the network's pooled features


@dataclass(frozen=True)
class Retrieval:
    """Hold the means of all metrics, and one value per scored query where a metric has one."""

    means: dict[str, float]
    queries: dict[str, Tensor]  # without nmi and f1, which have one value for all queries
    scored: Tensor  # rows of the queries that have a match
    lone: int  # queries without a match


def score_retrieval(
    embeddings: Tensor,
    labels: Tensor,
    metrics: tuple[str, ...],
    *,
    gallery_classes: int | None = None,
) -> Retrieval:
    """Score every row as a query against all other rows; count queries without a match as lone.

    gallery_classes: how many classes a gallery of matched_recall_at_K has; None or too many: all
    of them, so that it is recall_at_K. A metric is 0 if no query is scored, or if it compares with
    other classes and there are none.
    """
    import torch

    from trainables.metrics.ranking import directions

    if gallery_classes is not None and gallery_classes < 2:
        raise ValueError(
            f"A gallery must hold at least two classes, or nothing can be mistaken in it, but got "
            f"{gallery_classes=}."
        )
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
    """Return a value for each row that has a match, for all names in one pass."""
    from trainables.metrics.ranking import blocks

    split = {name: _split(name) for name in names}
    first = max([k for key, k in split.values() if key in NEAREST], default=0)
    every = [
        len(labels) if key == "triplet_accuracy" else k
        for key, k in split.values()
        if key not in NEAREST
    ]
    if not names:
        return {}
    values = {name: unit.new_zeros(len(labels)) for name in names}
    for block in blocks(unit, labels, first=max(1, first), every=max(every, default=None)):
        for name, (key, k) in split.items():
            values[name][block.rows] = SCORES[key](block, k).to(unit.dtype)
    return values


def _dealt(unit: Tensor, labels: Tensor, names: list[str], *, classes: int) -> dict[str, Tensor]:
    from trainables.metrics.galleries import nearest_match_ranks

    ks = {name: _split(name)[1] for name in names}
    found = nearest_match_ranks(unit, labels, classes=classes, depth=max(ks.values()))
    return {name: (found < k).to(unit.dtype).mean(0) for name, k in ks.items()}


def _clustered(unit: Tensor, labels: Tensor, names: list[str]) -> dict[str, float]:
    from trainables.metrics.clustering import CLUSTERING, cluster

    truth = labels.cpu().numpy()
    found = cluster(unit, int(truth.max()) + 1)
    return {name: CLUSTERING[name](truth, found) for name in names}


def _split(name: str) -> tuple[str, int]:
    """Split a metric's name into its key and its K: recall_at_10 -> recall_at_K, 10."""
    found = re.fullmatch(r"(.*_at_)(\d+)", name)
    return (f"{found[1]}K", int(found[2])) if found else (name, 0)


def _recall(block: QueryBlock, k: int) -> Tensor:
    return block.ranks[:, 0] < k


def _precision(block: QueryBlock, k: int) -> Tensor:
    return (block.ranks < k).sum(1).double() / k


def _r_precision(block: QueryBlock, k: int) -> Tensor:
    return (block.ranks < block.matches[:, None]).sum(1).double() / block.matches


def _map_at_r(block: QueryBlock, k: int) -> Tensor:
    within = block.ranks < block.matches[:, None]
    return (within * within.cumsum(1) / (block.ranks.double() + 1)).sum(1) / block.matches


def _triplet_accuracy(block: QueryBlock, k: int) -> Tensor:
    """Count all triplets of the query, not a sample.

    Each image ahead of the i-th match, beside the i nearer matches, is a wrong triplet.
    """
    matches_ahead = block.matches * (block.matches - 1) // 2
    wrong = (block.ranks * block.there).sum(1) - matches_ahead
    triplets = block.matches * block.others
    return (triplets - wrong).double() / triplets.clamp(min=1)


def _positive_cosine(block: QueryBlock, k: int) -> Tensor:
    return _sum_of_positives(block) / block.matches


def _negative_cosine(block: QueryBlock, k: int) -> Tensor:
    return ((block.toward - _sum_of_positives(block)) / block.others.clamp(min=1)) * (
        block.others > 0
    )


def _sum_of_positives(block: QueryBlock) -> Tensor:
    return block.cosines.double().where(block.there, 0.0).sum(1)


METRICS: dict[str, str] = {
    "recall_at_K": "share of queries with a match among their K nearest; any K, as in recall_at_1",
    "precision_at_K": "share of matches among the K nearest; any K",
    "r_precision": "share of matches among the R nearest, R being the number of matches that exist",
    "map_at_r": "mean over the first R places of the precision there, counted at each match",
    "matched_recall_at_K": (
        "recall_at_K in random galleries with as many classes as the validation set has: one scale "
        "for both sets"
    ),
    "triplet_accuracy": (
        "share of triplets whose anchor is nearer to the positive than to the negative; all "
        "triplets, no sample"
    ),
    "positive_cosine": "mean cosine of a query and its matches",
    "negative_cosine": "mean cosine of a query and all images of other classes",
    "nmi": "normalised mutual information of the classes and as many clusters found by k-means",
    "f1": (
        "F1 of pairs: two images of one k-means cluster should be of one class, and the other way "
        "round"
    ),
    LOSS_VALUE: (
        "the loss's own value, in batches like those of training: lower is better; for losses "
        "without weights of classes"
    ),
}
SCORES: dict[str, Callable[[QueryBlock, int], Tensor]] = {
    "recall_at_K": _recall,
    "precision_at_K": _precision,
    "r_precision": _r_precision,
    "map_at_r": _map_at_r,
    "matched_recall_at_K": _recall,
    "triplet_accuracy": _triplet_accuracy,
    "positive_cosine": _positive_cosine,
    "negative_cosine": _negative_cosine,
}
# Metrics that need the rank of no match but the nearest.
NEAREST = ("recall_at_K", "matched_recall_at_K", "positive_cosine", "negative_cosine")


def feature_of(name: str) -> tuple[Literal["embedding", "pooled"], str]:
    """Split a metric's name into its feature and the rest: pooled_nmi -> pooled, nmi."""
    bare = name.removeprefix(POOLED_PREFIX)
    return ("embedding" if bare == name else "pooled"), bare


def check_metric(name: str) -> str:
    """Return the name, or raise ValueError with the nearest known one."""
    feature, bare = feature_of(name)
    if bare == LOSS_VALUE and feature == "pooled":
        raise ValueError(f"A loss sees embeddings, but {name} is of pooled features; use {bare}.")
    if bare.endswith("_at_K"):
        raise ValueError(f"{name} needs a number in place of K, as in {name[:-1]}1.")
    if not re.fullmatch(r"((matched_)?recall|precision)_at_[1-9]\d*", bare):
        pick(METRICS, bare, "metric")
    return name
