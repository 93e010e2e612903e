"""Compute the losses that classify from their printed formulas, in plain loops."""

import math
from collections.abc import Callable

from tests.support.formulas_proxy import Vectors, columns, cosine, dot, log_sum


def cross_entropy(logits: list[list[float]], y: list[int]) -> float:
    return sum(log_sum(row) - row[label] for row, label in zip(logits, y, strict=True)) / len(y)


def angle_between(a: list[float], b: list[float]) -> float:
    return math.acos(max(-1.0, min(1.0, cosine(a, b))))  # rounding leaves [-1, 1]


def softmax(x: Vectors, y: list[int], weights: Vectors, *, weights_lr: float) -> float:
    """2.25 and 2.26: logits w'x of the raw embedding."""
    return cross_entropy([[dot(w, v) for w in weights] for v in x], y)


def normalized_softmax(
    x: Vectors, y: list[int], weights: Vectors, *, temperature: float, weights_lr: float
) -> float:
    return cross_entropy([[cosine(w, v) / temperature for w in columns(weights)] for v in x], y)


def arcface(
    x: Vectors, y: list[int], weights: Vectors, *, margin: float, scale: float, weights_lr: float
) -> float:
    """2.29, the margin in degrees; beyond 180 degrees as the released code continues it."""
    wider = math.radians(margin)
    logits = []
    for v, label in zip(x, y, strict=True):
        row = [scale * cosine(w, v) for w in columns(weights)]
        own = cosine(columns(weights)[label], v)
        angle = angle_between(columns(weights)[label], v)
        row[label] = scale * (
            math.cos(angle + wider) if angle + wider <= math.pi else own - wider * math.sin(wider)
        )
        logits.append(row)
    return cross_entropy(logits, y)


def cosface(
    x: Vectors, y: list[int], weights: Vectors, *, margin: float, scale: float, weights_lr: float
) -> float:
    logits = [
        [
            scale * (cosine(w, v) - (margin if c == label else 0))
            for c, w in enumerate(columns(weights))
        ]
        for v, label in zip(x, y, strict=True)
    ]
    return cross_entropy(logits, y)


def sphereface(
    x: Vectors, y: list[int], weights: Vectors, *, margin: float, weights_lr: float
) -> float:
    """Liu et al., equation 7: psi(angle) = (-1)^k cos(m angle) - 2k, k = floor(m angle / pi)."""
    m = int(margin)
    logits = []
    for v, label in zip(x, y, strict=True):
        length = math.sqrt(dot(v, v))
        row = [length * cosine(w, v) for w in columns(weights)]
        angle = angle_between(columns(weights)[label], v)
        k = math.floor(angle * m / math.pi)
        row[label] = length * ((-1) ** k * math.cos(m * angle) - 2 * k)
        logits.append(row)
    return cross_entropy(logits, y)


FORMULAS: dict[str, Callable[..., float]] = {
    "softmax": softmax,
    "normalized_softmax": normalized_softmax,
    "arcface": arcface,
    "cosface": cosface,
    "sphereface": sphereface,
}
