"""Make samples of a few losses with effects of classes, replicates and both."""

from __future__ import annotations

import numpy as np

from analysis.statistics import Sample


def sample(values: np.ndarray, counts: list[int] | None = None, first: int = 1) -> Sample:
    """values: (replicates, classes)."""
    replicates, classes = values.shape
    sizes = np.array(counts or [10] * classes, float)
    return Sample(np.asarray(values, float), sizes, tuple(range(first, first + replicates)))


def losses(
    seed: int, count: int = 4, replicates: int = 3, classes: int = 12, uneven: bool = False
) -> dict[str, Sample]:
    rng = np.random.default_rng(seed)
    sizes = [int(each) for each in rng.integers(2, 30, classes)] if uneven else None
    easy = rng.normal(0.5, 0.15, (1, classes))
    return {
        f"loss {number}": sample(
            easy
            + rng.normal(0, 0.04, (1, classes))
            + rng.normal(0, 0.01 * (1 + number), (replicates, 1))
            + rng.normal(0, 0.05, (replicates, classes)),
            sizes,
        )
        for number in range(count)
    }
