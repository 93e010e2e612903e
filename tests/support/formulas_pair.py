"""Compute the losses over pairs from their printed formulas, in plain loops."""

import math
from collections.abc import Callable

Vectors = list[list[float]]


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def distance(a: list[float], b: list[float], p: float = 2) -> float:
    return sum(abs(x - y) ** p for x, y in zip(a, b, strict=True)) ** (1 / p)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def mean_of_positive(values: list[float]) -> float:
    return mean([value for value in values if value > 0])


def positives_and_negatives(i: int, y: list[int]) -> tuple[list[int], list[int]]:
    """Return the others of i's class, and the images of all other classes."""
    return [j for j in range(len(y)) if j != i and y[j] == y[i]], [
        j for j in range(len(y)) if y[j] != y[i]
    ]


def by_margins(
    x: Vectors, y: list[int], apart: Callable[..., float], *, pos_margin: float, neg_margin: float
) -> float:
    """Return [d_p - pos_margin]+ + [neg_margin - d_n]+, each a mean over what is not zero."""
    pull, push = [], []
    for i in range(len(x)):
        equal, different = positives_and_negatives(i, y)
        pull += [max(0.0, apart(x[i], x[j]) - pos_margin) for j in equal]
        push += [max(0.0, neg_margin - apart(x[i], x[j])) for j in different]
    return mean_of_positive(pull) + mean_of_positive(push)


def contrastive(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    """2.15: (1 - I) [S - margin]+ - I S, with the constant 1 added to I S."""
    return by_margins(x, y, lambda a, b: -cosine(a, b), pos_margin=-1, neg_margin=-margin)


def contrastive_euclidean(
    x: Vectors, y: list[int], _: Vectors, *, pos_margin: float, neg_margin: float
) -> float:
    return by_margins(x, y, distance, pos_margin=pos_margin, neg_margin=neg_margin)


def variance(a: list[float]) -> float:
    return mean([(v - mean(a)) ** 2 for v in a])


def snr_contrastive(
    x: Vectors, y: list[int], _: Vectors, *, pos_margin: float, neg_margin: float, zero_mean: float
) -> float:
    """Var(a - b) / Var(a) as distance, and zero_mean times the mean of |sum of a vector|."""

    def noise(a: list[float], b: list[float]) -> float:
        return variance([u - v for u, v in zip(a, b, strict=True)]) / variance(a)

    return by_margins(x, y, noise, pos_margin=pos_margin, neg_margin=neg_margin) + zero_mean * mean(
        [abs(sum(v)) for v in x]
    )


def hinge_embedding(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    """d of equal pairs, [margin - d]+ of different ones; the mean over all of them."""
    each = []
    for i in range(len(x)):
        for j in range(i):
            d = distance(x[i], x[j])
            each.append(d if y[i] == y[j] else max(0.0, margin - d))
    return mean(each)


def margin(
    x: Vectors,
    y: list[int],
    weights: Vectors,
    *,
    margin: float,
    beta: float,
    weights_lr: float,
    held: list[tuple[int, int, int]],
) -> float:
    """[margin + I (d - beta)]+ with I = 1 or -1, on the drawn triplets.

    beta is learned: one for all classes, or one for each anchor's class.
    """
    (boundaries,) = weights
    each = []
    for a, p, n in held:
        boundary = boundaries[y[a]] if len(boundaries) > 1 else boundaries[0]
        each += [
            max(0.0, margin + distance(x[a], x[p]) - boundary),
            max(0.0, margin - distance(x[a], x[n]) + boundary),
        ]
    return mean_of_positive(each)


def multi_similarity(
    x: Vectors,
    y: list[int],
    _: Vectors,
    *,
    margin: float,
    alpha: float,
    beta: float,
    epsilon: float,
) -> float:
    """2.24, with the paper's mining.

    A pair stays if it is harder, within epsilon, than the hardest of the other kind.
    """
    total = 0.0
    for i in range(len(x)):
        equal, different = (
            [cosine(x[i], x[j]) for j in sort] for sort in positives_and_negatives(i, y)
        )
        hard_equal = [s for s in equal if different and s - epsilon < max(different)]
        hard_different = [s for s in different if equal and s + epsilon > min(equal)]
        total += multi_similarity_of(
            hard_equal, hard_different, margin=margin, alpha=alpha, beta=beta
        )
    return total / len(x)


def multi_similarity_of(
    equal: list[float], different: list[float], *, margin: float, alpha: float, beta: float
) -> float:
    pull = math.log(1 + sum(math.exp(-alpha * (s - margin)) for s in equal)) / alpha
    return pull + math.log(1 + sum(math.exp(beta * (s - margin)) for s in different)) / beta


def multi_similarity_no_miner(x: Vectors, y: list[int], _: Vectors, **setting: float) -> float:
    return mean(
        [
            multi_similarity_of(
                *([cosine(x[i], x[j]) for j in sort] for sort in positives_and_negatives(i, y)),
                **setting,
            )
            for i in range(len(x))
        ]
    )


def lifted_structure(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    """2.21, the mean over anchors; without positives or negatives an anchor's hinge is 0."""
    total = 0.0
    for i in range(len(x)):
        equal, different = (
            [cosine(x[i], x[j]) for j in sort] for sort in positives_and_negatives(i, y)
        )
        if equal and different:
            pull, push = (
                sum(math.exp(margin - s) for s in equal),
                sum(math.exp(s) for s in different),
            )
            total += max(0.0, math.log(pull) + math.log(push))
    return total / len(x)


def circle(
    x: Vectors, y: list[int], _: Vectors, *, margin: float, scale: float, held: Vectors
) -> float:
    """log(1 + sum exp(scale a_n (s_n - margin)) sum exp(-scale a_p (s_p - 1 + margin))).

    The weights a are constants, taken at held.
    """
    each = []
    for i in range(len(x)):
        equal, different = positives_and_negatives(i, y)
        if not (equal and different):
            continue
        pull = push = 0.0
        for j in equal:
            weight = max(0.0, 1 + margin - cosine(held[i], held[j]))
            pull += math.exp(-scale * weight * (cosine(x[i], x[j]) - (1 - margin)))
        for j in different:
            weight = max(0.0, cosine(held[i], held[j]) + margin)
            push += math.exp(scale * weight * (cosine(x[i], x[j]) - margin))
        each.append(math.log(1 + pull * push))
    return mean(each)


def fast_ap(x: Vectors, y: list[int], _: Vectors, *, bins: float) -> float:
    """1 - sum over bins of h+ H+ / H / N+, by triangular histograms of squared distances to 4."""
    width = 4 / bins
    each = []
    for i in range(len(x)):
        equal, different = positives_and_negatives(i, y)
        if not equal:
            continue
        precision = seen_equal = seen = 0.0
        for edge in range(int(bins) + 1):
            here = [
                sum(
                    max(0.0, 1 - abs(distance(x[i], x[j]) ** 2 - edge * width) / width)
                    for j in sort
                )
                for sort in (equal, different)
            ]
            seen_equal, seen = seen_equal + here[0], seen + sum(here)
            precision += here[0] * seen_equal / seen if seen else 0.0
        each.append(1 - precision / len(equal))
    return mean(each)


FORMULAS: dict[str, Callable[..., float]] = {
    "contrastive": contrastive,
    "contrastive_euclidean": contrastive_euclidean,
    "snr_contrastive": snr_contrastive,
    "hinge_embedding": hinge_embedding,
    "margin": margin,
    "margin_per_class": margin,
    "multi_similarity": multi_similarity,
    "multi_similarity_no_miner": multi_similarity_no_miner,
    "lifted_structure": lifted_structure,
    "circle": circle,
    "fast_ap": fast_ap,
}
