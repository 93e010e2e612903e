"""The losses over a weight per class, from their printed formulas, in plain Python loops."""

from collections.abc import Callable

FORMULAS: dict[str, Callable[..., float]] = {}
