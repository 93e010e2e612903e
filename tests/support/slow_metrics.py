"""Compute every metric in plain Python, and make small embeddings that trip quick code."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from trainables.metrics.clustering import CLUSTERING
from trainables.metrics.retrieval import METRICS, SCORES

EVERY = tuple(
    name.replace("K", str(k))
    for name in METRICS
    if name in SCORES or name in CLUSTERING
    for k in ((1, 2, 5, 8) if name.endswith("K") else (0,))
)
PER_QUERY = tuple(name for name in EVERY if name not in CLUSTERING)
COSINES = ("positive_cosine", "negative_cosine")


def slow_score(name: str, matched: list[bool], cosines: list[float]) -> float:
    """Return one query's score; matched, cosines: of all other images, nearest first."""
    exist, k = (
        sum(matched),
        int(name.rsplit("_", 1)[1]) if name[-1].isdigit() and "_at_" in name else 0,
    )
    positives = [s for s, match in zip(cosines, matched, strict=True) if match]
    negatives = [s for s, match in zip(cosines, matched, strict=True) if not match]
    if "recall_at_" in name:
        return float(any(matched[:k]))
    if name.startswith("precision_at_"):
        return sum(matched[:k]) / k
    if name == "r_precision":
        return sum(matched[:exist]) / exist
    if name == "map_at_r":
        return sum(sum(matched[: i + 1]) / (i + 1) for i in range(exist) if matched[i]) / exist
    if name == "positive_cosine":
        return sum(positives) / len(positives)
    if name == "negative_cosine":
        return sum(negatives) / len(negatives) if negatives else 0.0
    assert name == "triplet_accuracy"
    return (
        sum(n < p for p in positives for n in negatives) / (len(positives) * len(negatives))
        if negatives
        else 0.0
    )


def slow_retrieval(
    embeddings: list[list[float]], labels: list[int], names: tuple[str, ...]
) -> tuple[dict[str, list[float]], list[int]]:
    """Return the scores by metric, and the rows of the queries that have a match.

    Each query sorts all other images; among equals the wrong ones come first.
    """
    unit = [[x / math.sqrt(sum(v * v for v in row)) for x in row] for row in embeddings]
    values: dict[str, list[float]] = {name: [] for name in names}
    scored = []
    for q in range(len(unit)):
        others = [i for i in range(len(unit)) if i != q]
        similarity = {
            i: round(sum(a * b for a, b in zip(unit[q], unit[i], strict=True)), 12) for i in others
        }
        others.sort(key=lambda i: (-similarity[i], labels[i] == labels[q]))
        matched = [labels[i] == labels[q] for i in others]
        if any(matched):
            scored.append(q)
            for name in names:
                values[name].append(slow_score(name, matched, [similarity[i] for i in others]))
    return values, scored


def data(
    seed: int, *, count: int = 60, classes: int = 7, size: int = 6, leaning: float = 0.7
) -> tuple[Tensor, Tensor]:
    """Return random embeddings of classes of unequal size."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(count, generator=generator).square() * classes).long()
    centres = torch.randn(classes, size, generator=generator, dtype=torch.float64)
    return leaning * centres[labels] + torch.randn(
        count, size, generator=generator, dtype=torch.float64
    ), labels


def tied(seed: int) -> tuple[Tensor, Tensor]:
    """Return forty images on six points of a circle: ties everywhere, right with wrong."""
    generator = torch.Generator().manual_seed(seed)
    angles = torch.randint(6, (40,), generator=generator) * math.pi / 3
    return torch.stack([angles.cos(), angles.sin()], dim=1).double(), torch.randint(
        4, (40,), generator=generator
    )


def lonely(seed: int) -> tuple[Tensor, Tensor]:
    """Return images of which three are alone in their class, the first and the last among them."""
    embeddings, labels = data(seed, count=30, classes=3)
    labels[[0, 12, 29]] = torch.tensor([10, 11, 12])
    return embeddings, labels


def duplicated(seed: int) -> tuple[Tensor, Tensor]:
    """Return every image twice in single precision, in its own class or in another."""
    embeddings, labels = data(seed, count=30, size=33)
    twins = torch.where(torch.arange(30) % 2 == 0, labels, labels.roll(1))
    return embeddings.float().repeat(2, 1), torch.cat([labels, twins])


CASES = {
    "random": data(0),
    "two": data(1, classes=2),
    "many": data(2, classes=25),
    "tied": tied(3),
    "more ties": tied(4),
    "lonely": lonely(5),
    "single precision": (data(6)[0].float(), data(6)[1]),
    "clustered": data(7, leaning=3),
    "duplicated": duplicated(8),
    "constant": (torch.ones(40, 17), torch.arange(40) % 4),
    "one class": (data(9)[0], torch.zeros(60, dtype=torch.long)),
}
