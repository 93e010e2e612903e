"""Measure images per second on CPUs: our pipeline against ImageFolder + Pillow + DataLoader.

Both read the same JPEGs of 500 x 375, as CUB's are, and make normalised batches of 224 x 224 by a
random resized crop and a flip. Ours reads the decoded cache and transforms whole batches; the
library decodes each file each time, with the number of workers that suits it best. "In memory" is
our transform on arrays that need no reading: the most that the machine allows. Runs are
interleaved; the benchmark prints medians.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.images import (
    BATCH,
    CACHE_SIDE,
    MEAN,
    SIDE,
    SIZES,
    STD,
    decoded,
    prepared,
    rates,
    shuffled,
)


def library(root: str, *, workers: int, resize_first: bool) -> Iterator[int]:
    """Yield the sizes of endless batches, made by torchvision."""
    import torch
    from torchvision import datasets, transforms

    steps = [transforms.Resize(CACHE_SIDE)] * resize_first
    steps += [
        transforms.RandomResizedCrop(SIDE),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize(MEAN, STD),
    ]
    folder = datasets.ImageFolder(root, transforms.Compose(steps))
    loader = torch.utils.data.DataLoader(
        folder,
        BATCH,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context="fork" if workers else None,
    )
    while True:
        for images, _ in loader:
            yield len(images)


def ours(root: str, *, in_memory: bool) -> Iterator[int]:
    """Yield the sizes of endless batches, made and normalised as a trial does on a CPU."""
    import torch

    from trainables.inputs.loader import on_device
    from trainables.networks.backbones import Entry
    from trainables.networks.network import InputLayer

    normalize, images = InputLayer(Entry(MEAN, STD)), decoded(root, in_memory=in_memory)
    for batch in on_device(shuffled(images), torch.device("cpu")):
        yield len(normalize(batch))


def show_library(folder: str, options: argparse.Namespace) -> None:
    root = prepared(folder, "photos", options.images, SIZES["photos"])
    for cores in options.cores:
        on = sorted(os.sched_getaffinity(0))[:cores]
        tried: dict[str, list[float]] = {name: [] for name in pipelines(cores)}
        for _ in range(options.repeats):
            for name, (pipeline, processes, choices) in pipelines(cores).items():
                tried[name].append(rates(pipeline, root, on, processes, **choices)[0])
        medians = {name: statistics.median(found) for name, found in tried.items()}
        best = max(value for name, value in medians.items() if "workers" in name)
        ending = "s" * (cores > 1)
        print(f"\n{cores} core{ending}                     images/s   against the best ImageFolder")
        for name, value in medians.items():
            print(f"{name:<24} {value:>10.0f}   {value / best:>6.2f}")
        print(
            f"ours: {medians['ours'] / best:.1f} times the library; "
            f"{medians['ours'] / medians['ours, in memory']:.0%} of the transform in memory"
        )


def pipelines(cores: int) -> dict[str, tuple[Callable[..., Iterator[int]], int, dict[str, Any]]]:
    """Return what is compared: each pipeline, its processes and its options."""
    return {
        **{
            f"ImageFolder, {workers} workers": (
                library, 1, {"workers": workers, "resize_first": False},
            )
            for workers in range(cores + 2)
        },
        "ImageFolder, 256 first": (library, 1, {"workers": cores, "resize_first": True}),
        "ours": (ours, cores, {"in_memory": False}),
        "ours, in memory": (ours, cores, {"in_memory": True}),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FAIRTRIAL_DATA"] = f"{folder}/cache"
        show_library(folder, options)


if __name__ == "__main__":
    main()
