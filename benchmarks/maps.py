"""Measure how long embedding maps take: joint t-SNE, yoked t-SNE and UMAP.

The goals on two cores: three minutes for a joint map of 12,000 images, five for a yoked map of
6,000.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from analysis.maps.plane import joint_tsne, umap
from analysis.maps.yoked import yoked_tsne

CLASSES = 100


def clustered(images: int, size: int, seed: int) -> np.ndarray:
    """Return unit vectors in groups that touch."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(CLASSES, size))[np.arange(images) % CLASSES]
    raw = centres + rng.normal(size=(images, size))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32)


def timed(name: str, work: Callable[[], object], *, goal: int | None = None) -> None:
    """Print how long the work takes; goal: seconds by the clock on two idle cores."""
    start, spent = time.perf_counter(), time.process_time()
    work()
    clock, cores = time.perf_counter() - start, time.process_time() - spent
    verdict = f"   goal {goal} s: {'met' if clock <= goal else 'missed'}" if goal else ""
    print(f"{name:<44}{clock:7.1f} s by the clock {cores:8.1f} core-seconds{verdict}", flush=True)


def main() -> None:
    print(
        "load before: {:.1f}, {:.1f}, {:.1f} (1, 5 and 15 minutes)".format(*os.getloadavg()),
        flush=True,
    )
    joint_tsne(clustered(300, 16, 0))  # imports and compiles
    timed(
        "joint t-SNE, 12,000 images, 64 dimensions",
        lambda: joint_tsne(clustered(12_000, 64, 0)),
        goal=180,
    )
    timed(
        "yoked t-SNE, 6,000 images, 64 and 512",
        lambda: yoked_tsne([clustered(6_000, 64, 0), clustered(6_000, 512, 1)]),
        goal=300,
    )
    timed("UMAP, 12,000 images, 64 dimensions", lambda: umap(clustered(12_000, 64, 0)))


if __name__ == "__main__":
    main()
