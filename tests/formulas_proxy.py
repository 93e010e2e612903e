"""The losses over proxies, from their printed formulas, in plain Python loops."""

import math
from collections.abc import Callable

from formulas_pair import Vectors, cosine


def proxy_anchor(x: Vectors, y: list[int], proxies: Vectors, *, margin: float, alpha: float, weights_lr: float) -> float:
    """2.31: the pull is the mean over the proxies that have an image in the batch, the push over all proxies."""
    pull = push = 0.0
    for c, proxy in enumerate(proxies):
        similar = [cosine(v, proxy) for v in x]
        pull += math.log(1 + sum(math.exp(-alpha * (s - margin)) for s, label in zip(similar, y, strict=True) if label == c))
        push += math.log(1 + sum(math.exp(alpha * (s + margin)) for s, label in zip(similar, y, strict=True) if label != c))
    return pull / len(set(y)) + push / len(proxies)


FORMULAS: dict[str, Callable[..., float]] = {"proxy_anchor": proxy_anchor}
