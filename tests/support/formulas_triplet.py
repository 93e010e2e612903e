"""Compute the losses over triplets and the NCA forms from their printed formulas."""

import math
from collections.abc import Callable

from tests.support.formulas_pair import (
    Vectors,
    cosine,
    distance,
    mean,
    mean_of_positive,
    positives_and_negatives,
)
from tests.support.formulas_proxy import log_sum

Triplets = list[tuple[int, int, int]]


def nearest(
    x: Vectors, y: list[int], a: int, apart: Callable[..., float], beyond: float = -math.inf
) -> int | None:
    """Return the nearest image of another class that is farther away than beyond."""
    best, found = math.inf, None
    for n in positives_and_negatives(a, y)[1]:
        if beyond < apart(x[a], x[n]) < best:
            best, found = apart(x[a], x[n]), n
    return found


def opposite(a: list[float], b: list[float]) -> float:
    return -cosine(a, b)


def semi_hard(x: Vectors, y: list[int]) -> Triplets:
    """2.20: each pair gets the most similar negative that is less similar than its positive."""
    pairs = [(a, p) for a in range(len(x)) for p in positives_and_negatives(a, y)[0]]
    triplets = [(a, p, nearest(x, y, a, opposite, beyond=opposite(x[a], x[p]))) for a, p in pairs]
    return [(a, p, n) for a, p, n in triplets if n is not None]


def all_triplets(y: list[int]) -> Triplets:
    return [
        (a, p, n)
        for a in range(len(y))
        for p in positives_and_negatives(a, y)[0]
        for n in positives_and_negatives(a, y)[1]
    ]


def triplet(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    """2.17: [S_an - S_ap + margin]+, the mean over what is not zero."""
    return mean_of_positive(
        [cosine(x[a], x[n]) - cosine(x[a], x[p]) + margin for a, p, n in semi_hard(x, y)]
    )


def triplet_euclidean(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    return mean_of_positive(
        [distance(x[a], x[p]) - distance(x[a], x[n]) + margin for a, p, n in all_triplets(y)]
    )


def batch_triplets(x: Vectors, y: list[int], apart: Callable[..., float], mining: str) -> Triplets:
    """Return rows 0 1 2, 3 4 5, ...; with mining a pair takes its negative from the whole batch."""
    triplets = []
    for a in range(0, len(x) - 2, 3):
        p, n = a + 1, a + 2
        if y[a] != y[p]:
            continue
        if mining == "none" and y[n] == y[a]:
            continue
        if mining == "easy":
            n = nearest(x, y, a, lambda u, v: -apart(u, v))
        elif mining == "hard":
            n = nearest(x, y, a, apart)
        elif mining == "semi_hard":
            n = nearest(x, y, a, apart, beyond=apart(x[a], x[p]))
        if n is not None:
            triplets.append((a, p, n))
    return triplets


def batch_triplet_hinge(
    x: Vectors, y: list[int], apart: Callable[..., float], *, margin: float, swap: bool, mining: str
) -> float:
    """[d_ap - d_an + margin]+, the mean over all triplets; swap: min(d_an, d_pn) for d_an."""
    each = []
    for a, p, n in batch_triplets(x, y, apart, mining):
        far = min(apart(x[a], x[n]), apart(x[p], x[n])) if swap else apart(x[a], x[n])
        each.append(max(0.0, apart(x[a], x[p]) - far + margin))
    return mean(each)


def triplet_p_norm(
    x: Vectors, y: list[int], _: Vectors, *, p: float, margin: float, swap: bool, mining: str
) -> float:
    return batch_triplet_hinge(
        x, y, lambda a, b: distance(a, b, p), margin=margin, swap=swap, mining=mining
    )


def triplet_distance(
    x: Vectors, y: list[int], _: Vectors, *, distance: str, margin: float, swap: bool, mining: str
) -> float:
    return batch_triplet_hinge(x, y, DISTANCES[distance], margin=margin, swap=swap, mining=mining)


DISTANCES: dict[str, Callable[[list[float], list[float]], float]] = {
    "cosine": lambda a, b: 1 - cosine(a, b),
    "euclidean": distance,
    "squared_euclidean": lambda a, b: distance(a, b) ** 2,
}


def softmax_of_pairs(x: Vectors, y: list[int], similar: Callable[..., float]) -> float:
    """Return -log of the softmax of each class's first pair among all positives, the mean."""
    firsts = {c: [i for i in range(len(y)) if y[i] == c][:2] for c in set(y)}
    pairs = [pair for pair in firsts.values() if len(pair) == 2]
    each = [
        math.log(sum(math.exp(similar(x[a], x[other]) - similar(x[a], x[p])) for _, other in pairs))
        for a, p in pairs
    ]
    return mean(each)


def n_pair(x: Vectors, y: list[int], _: Vectors, *, l2: float) -> float:
    """2.22 as in the paper: raw dot products, a pair per class, and l2 times the squared length."""
    pairs = softmax_of_pairs(x, y, lambda a, b: sum(u * v for u, v in zip(a, b, strict=True)))
    return pairs + l2 * mean([sum(u * u for u in v) for v in x])


def against_negatives(
    x: Vectors, y: list[int], positive: Callable[..., float], negative: Callable[..., float]
) -> float:
    """log(1 + sum over negatives of exp(negative - positive)), the mean over equal pairs."""
    each = []
    for a in range(len(x)):
        equal, different = positives_and_negatives(a, y)
        each += [
            log_sum([0.0, *(negative(x[a], x[p], x[n]) - positive(x[a], x[p]) for n in different)])
            for p in equal
            if different
        ]
    return mean(each)


def nt_xent(x: Vectors, y: list[int], _: Vectors, *, temperature: float) -> float:
    return against_negatives(
        x, y, lambda a, p: cosine(a, p) / temperature, lambda a, _, n: cosine(a, n) / temperature
    )


def tuplet_margin(x: Vectors, y: list[int], _: Vectors, *, margin: float, scale: float) -> float:
    """As nt_xent with a scale, the positive's angle less margin degrees."""

    def spared(a: list[float], p: list[float]) -> float:
        return scale * math.cos(math.acos(cosine(a, p)) - math.radians(margin))

    return against_negatives(x, y, spared, lambda a, _, n: scale * cosine(a, n))


def angular(x: Vectors, y: list[int], _: Vectors, *, alpha: float) -> float:
    """4 tan^2(alpha) (a + p)'n - 2 (1 + tan^2(alpha)) a'p of unit vectors."""
    steep = math.tan(math.radians(alpha)) ** 2
    return against_negatives(
        x,
        y,
        lambda a, p: 2 * (1 + steep) * cosine(a, p),
        lambda a, p, n: 4 * steep * (cosine(a, n) + cosine(p, n)),
    )


def nca(x: Vectors, triplets: Triplets, temperature: float) -> float:
    return mean(
        [
            math.log(1 + math.exp((cosine(x[a], x[n]) - cosine(x[a], x[p])) / temperature))
            for a, p, n in triplets
        ]
    )


def batch_all_nca(x: Vectors, y: list[int], _: Vectors, *, temperature: float) -> float:
    return nca(x, all_triplets(y), temperature)


def n_pair_nca(x: Vectors, y: list[int], _: Vectors, *, temperature: float) -> float:
    return softmax_of_pairs(x, y, lambda a, b: cosine(a, b) / temperature)


def semi_hard_negative_nca(
    x: Vectors, y: list[int], _: Vectors, *, temperature: float, held: Triplets
) -> float:
    return nca(x, held, temperature)


def easy_positive_semi_hard_negative(
    x: Vectors, y: list[int], _: Vectors, *, temperature: float
) -> float:
    triplets = []
    for a in range(len(x)):
        p = max(
            positives_and_negatives(a, y)[0], key=lambda j, a=a: cosine(x[a], x[j]), default=None
        )
        n = None if p is None else nearest(x, y, a, opposite, beyond=opposite(x[a], x[p]))
        if n is not None:
            triplets.append((a, p, n))
    return nca(x, triplets, temperature)


FORMULAS: dict[str, Callable[..., float]] = {
    "triplet": triplet,
    "triplet_euclidean": triplet_euclidean,
    "triplet_p_norm": triplet_p_norm,
    "triplet_distance": triplet_distance,
    "n_pair": n_pair,
    "nt_xent": nt_xent,
    "tuplet_margin": tuplet_margin,
    "angular": angular,
    "batch_all_nca": batch_all_nca,
    "n_pair_nca": n_pair_nca,
    "semi_hard_negative_nca": semi_hard_negative_nca,
    "easy_positive_semi_hard_negative": easy_positive_semi_hard_negative,
}
