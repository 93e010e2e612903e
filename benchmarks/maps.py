"""How long embedding maps take: joint t-SNE of 12,000 images (goal: three minutes) and yoked t-SNE of 6,000 (goal: five), on two cores.

uv run python benchmarks/maps.py
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import numpy as np

from analysis.maps.plane import joint_tsne, umap
from analysis.maps.yoked import yoked_tsne

CLASSES = 100


def made(images: int, size: int, seed: int) -> np.ndarray:
    """Unit vectors in groups that touch."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(CLASSES, size))[np.arange(images) % CLASSES] + rng.normal(size=(images, size))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def timed(name: str, work: Callable[[], object], *, goal: int | None = None) -> None:
    """goal: seconds by the clock, on two cores that have nothing else to do."""
    start, spent = time.perf_counter(), time.process_time()
    work()
    clock, cores = time.perf_counter() - start, time.process_time() - spent
    told = f"   goal {goal} s: {'met' if clock <= goal else 'missed'}" if goal else ""
    print(f"{name:<44}{clock:7.1f} s by the clock {cores:8.1f} core-seconds{told}", flush=True)


def main() -> None:
    print("load before: {:.1f}, {:.1f}, {:.1f} (1, 5 and 15 minutes)".format(*os.getloadavg()), flush=True)
    joint_tsne(made(300, 16, 0))  # imports and compiles
    timed("joint t-SNE, 12,000 images, 64 dimensions", lambda: joint_tsne(made(12_000, 64, 0)), goal=180)
    timed("yoked t-SNE, 6,000 images, 64 and 512", lambda: yoked_tsne([made(6_000, 64, 0), made(6_000, 512, 1)]), goal=300)
    timed("UMAP, 12,000 images, 64 dimensions", lambda: umap(made(12_000, 64, 0)))


if __name__ == "__main__":
    main()
