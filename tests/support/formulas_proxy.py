"""Compute the losses over learned proxies from their printed formulas, in plain loops."""

import math
from collections.abc import Callable

Vectors = list[list[float]]


def dot(a: list[float], b: list[float]) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: list[float]) -> list[float]:
    length = math.sqrt(dot(a, a))
    return [x / length for x in a]


def cosine(a: list[float], b: list[float]) -> float:
    return dot(unit(a), unit(b))


def columns(weights: Vectors) -> Vectors:
    """Return the transpose: the library keeps some weights as size x classes."""
    return [list(column) for column in zip(*weights, strict=True)]


def log_sum(exponents: list[float]) -> float:
    """Return log of the sum of exp without overflow."""
    top = max(exponents)
    return top + math.log(sum(math.exp(e - top) for e in exponents))


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def proxy_nca(x: Vectors, y: list[int], proxies: Vectors, *, weights_lr: float) -> float:
    """2.27 with squared distances: -log(exp(-d(x, w_y)) / sum of exp(-d(x, w)) over other w)."""
    total = 0.0
    for v, label in zip(x, y, strict=True):
        squared = [
            sum((a - b) ** 2 for a, b in zip(unit(v), unit(w), strict=True)) for w in proxies
        ]
        denominator = sum(math.exp(-d) for c, d in enumerate(squared) if c != label)
        total -= math.log(math.exp(-squared[label]) / denominator)
    return total / len(x)


def proxy_nca_pml(
    x: Vectors, y: list[int], proxies: Vectors, *, softmax_scale: float, weights_lr: float
) -> float:
    """The same with the own proxy in the denominator, and a scale."""
    total = 0.0
    for v, label in zip(x, y, strict=True):
        squared = [
            sum((a - b) ** 2 for a, b in zip(unit(v), unit(w), strict=True)) for w in proxies
        ]
        total += softmax_scale * squared[label] + log_sum([-softmax_scale * d for d in squared])
    return total / len(x)


def soft_triple(
    x: Vectors,
    y: list[int],
    weights: Vectors,
    *,
    margin: float,
    alpha: float,
    gamma: float,
    tau: float,
    centers: float,
    weights_lr: float,
) -> float:
    """Qian et al., equations 7 to 9: a class's centres count by softmax(similarity / gamma)."""
    k = int(centers)
    flat = columns(weights)
    classes = [flat[start : start + k] for start in range(0, len(flat), k)]
    total = 0.0
    for v, label in zip(x, y, strict=True):
        logits = []
        for c, own in enumerate(classes):
            similar = [cosine(v, w) for w in own]
            weight = [math.exp(s / gamma - log_sum([t / gamma for t in similar])) for s in similar]
            logits.append(
                alpha
                * (
                    sum(p * s for p, s in zip(weight, similar, strict=True))
                    - (margin if c == label else 0)
                )
            )
        total += log_sum(logits) - logits[label]
    apart = 0.0
    for own in classes:
        for s in range(k):
            for t in range(s + 1, k):
                apart += math.sqrt(2 - 2 * cosine(own[s], own[t]))
    return total / len(x) + tau * apart / (len(classes) * k * (k - 1))


def pull(x: Vectors, y: list[int], proxies: Vectors, *, margin: float, alpha: float) -> float:
    """Return the pull of 2.31, 6.1 and 6.2: over the proxies with an image in the batch."""
    values = []
    for c, w in enumerate(proxies):
        exponents = [
            -alpha * (cosine(v, w) - margin) for v, label in zip(x, y, strict=True) if label == c
        ]
        if exponents:
            values.append(log_sum([0.0, *exponents]))
    return mean(values)


def proxy_anchor(
    x: Vectors, y: list[int], proxies: Vectors, *, margin: float, alpha: float, weights_lr: float
) -> float:
    """2.31: the pull is a mean over the proxies with an image in the batch, the push over all."""
    push = []
    for c, w in enumerate(proxies):
        exponents = [
            alpha * (cosine(v, w) + margin) for v, label in zip(x, y, strict=True) if label != c
        ]
        push.append(log_sum([0.0, *exponents]))
    return pull(x, y, proxies, margin=margin, alpha=alpha) + mean(push)


def thesis_loss_1(
    x: Vectors, y: list[int], proxies: Vectors, *, margin: float, alpha: float, weights_lr: float
) -> float:
    """6.1: every proxy is pushed away from every other."""
    push = []
    for c, w in enumerate(proxies):
        exponents = [
            alpha * (cosine(w, other) + margin) for o, other in enumerate(proxies) if o != c
        ]
        push.append(log_sum([0.0, *exponents]))
    return pull(x, y, proxies, margin=margin, alpha=alpha) + mean(push)


def thesis_loss_2(
    x: Vectors, y: list[int], proxies: Vectors, *, margin: float, alpha: float, weights_lr: float
) -> float:
    """6.2: two proxies are as similar as the sum over the batch of (w'x)(x'w-)."""
    push = []
    for c, w in enumerate(proxies):
        exponents = []
        for o, other in enumerate(proxies):
            if o != c:
                seen = sum(cosine(w, v) * cosine(v, other) for v in x)
                exponents.append(alpha * (seen + margin))
        push.append(log_sum([0.0, *exponents]))
    return pull(x, y, proxies, margin=margin, alpha=alpha) + mean(push)


def thesis_loss_3(
    x: Vectors,
    y: list[int],
    proxies: Vectors,
    *,
    margin: float,
    alpha: float,
    relations: float,
    weights_lr: float,
) -> float:
    """Ours: 6.1, and its two terms once more with every image in the place of a proxy."""
    between = []
    for i, (v, label) in enumerate(zip(x, y, strict=True)):
        near, far = [0.0], [0.0]
        for j, (other, its) in enumerate(zip(x, y, strict=True)):
            if its != label:
                far.append(alpha * (cosine(v, other) + margin))
            elif j != i:
                near.append(-alpha * (cosine(v, other) - margin))
        between.append(log_sum(near) + log_sum(far))
    first = thesis_loss_1(x, y, proxies, margin=margin, alpha=alpha, weights_lr=weights_lr)
    return first + relations * mean(between)


FORMULAS: dict[str, Callable[..., float]] = {
    "proxy_nca": proxy_nca,
    "proxy_nca_pml": proxy_nca_pml,
    "soft_triple": soft_triple,
    "proxy_anchor": proxy_anchor,
    "thesis_loss_1": thesis_loss_1,
    "thesis_loss_2": thesis_loss_2,
    "thesis_loss_3": thesis_loss_3,
}
