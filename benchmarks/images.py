"""Measure images per second: our pipeline against ImageFolder + Pillow + DataLoader.

Both read the same JPEGs of 500 x 375, as CUB's are, and make normalised batches of 224 x 224 by a
random resized crop and a flip. Ours reads the decoded cache and transforms whole batches; the
library decodes each file each time, with the number of workers that suits it best. "In memory" is
our transform on arrays that need no reading: the most that the machine allows. Runs are
interleaved; the benchmark prints medians.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BATCH, SIDE, MEAN, STD = 64, 224, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SECONDS = 4.0  # of one measurement, after a warm-up
CLASSES = 8


def make_files(root: Path, count: int) -> None:
    """Write JPEGs of smooth colours with edges and grain: about 60 kB each, like photos."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(count):
        folder = root / f"class {i % CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        photo = np.asarray(
            Image.fromarray(coarse).resize((500, 375), Image.Resampling.BICUBIC)
        ).astype(np.int16)
        photo = photo + rng.normal(0, 6, photo.shape).astype(np.int16)
        Image.fromarray(photo.clip(0, 255).astype(np.uint8)).save(
            folder / f"{i:05}.jpg", quality=90
        )


def library(root: str, *, workers: int, resize_first: bool) -> Iterator[int]:
    """Yield the sizes of endless batches, made by torchvision."""
    import torch
    from torchvision import datasets, transforms

    steps = [transforms.Resize(256)] * resize_first
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
    """Yield the sizes of endless batches, made as a trial makes them."""
    import torch

    from trainables.contract import DatasetRef, ImageTransform
    from trainables.datasets.pixels import Dataset, Pixels, load
    from trainables.networks.backbones import Entry
    from trainables.networks.network import InputLayer
    from trainables.training.crops import draws
    from trainables.training.images import Images

    data = load(DatasetRef("image_folder", root), 256)
    if in_memory:
        flat = np.concatenate([data.pixels[i].ravel() for i in range(len(data.pixels))])
        data = Dataset(data.index, Pixels(flat, data.pixels.shapes))
    transform = ImageTransform(
        SIDE, 256, 0.875, "resized", (0.08, 1.0), (3 / 4, 4 / 3), 0, flip=True
    )
    images = Images(data, data.index.ids(range(CLASSES)), transform, torch.device("cpu"))
    normalize = InputLayer(Entry(MEAN, STD))
    rows, epoch = np.arange(len(images)), 0
    crops = draws((0, epoch), len(images))
    while True:
        if not in_memory:
            epoch += 1
            rows, crops = (
                np.random.default_rng(epoch).permutation(len(images)),
                draws((0, epoch), len(images)),
            )
        for i in range(0, len(rows) - BATCH + 1, BATCH):
            yield len(normalize(images.augmented(rows[i : i + BATCH], crops)))


def measure(
    pipeline: Callable[..., Iterator[int]],
    root: str,
    cores: list[int],
    barrier: Any,
    answers: Any,
    options: dict[str, Any],
) -> None:
    os.sched_setaffinity(0, cores)

    from trainables.distributed.process import prepare_process

    prepare_process()
    batches = pipeline(root, **options)
    for _ in range(8):
        next(batches)
    barrier.wait()
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < SECONDS:
        done += next(batches)
    answers.put(done / (time.perf_counter() - began))
    batches.close()  # type: ignore[attr-defined]


def rate(
    pipeline: Callable[..., Iterator[int]],
    root: str,
    cores: list[int],
    processes: int,
    **options: Any,
) -> float:
    """Return the images per second of all processes together."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=measure, args=(pipeline, root, cores, barrier, answers, options))
        for _ in range(processes)
    ]
    for process in workers:
        process.start()
    total = sum(answers.get(timeout=300) for _ in workers)
    for process in workers:
        process.join()
    return total


def pipelines(cores: int) -> dict[str, Callable[[str, list[int]], float]]:
    found: dict[str, Callable[[str, list[int]], float]] = {}
    for workers in range(cores + 2):
        found[f"ImageFolder, {workers} workers"] = lambda root, on, n=workers: rate(
            library, root, on, 1, workers=n, resize_first=False
        )
    found["ImageFolder, 256 first"] = lambda root, on: rate(
        library, root, on, 1, workers=cores, resize_first=True
    )
    found["ours"] = lambda root, on: rate(ours, root, on, cores, in_memory=False)
    found["ours, in memory"] = lambda root, on: rate(ours, root, on, cores, in_memory=True)
    return found


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
        root = f"{folder}/photos"
        make_files(Path(root), options.images)
        from trainables.contract import DatasetRef
        from trainables.datasets.pixels import decode_once

        began = time.perf_counter()
        decode_once(DatasetRef("image_folder", root), 256)
        seconds = time.perf_counter() - began
        print(
            f"{options.images} JPEGs of 500 x 375, decoded once in {seconds:.1f} s on "
            f"{os.cpu_count()} cores; batches of {BATCH}"
        )
        for cores in options.cores:
            on = sorted(os.sched_getaffinity(0))[:cores]
            tried: dict[str, list[float]] = {name: [] for name in pipelines(cores)}
            for _ in range(options.repeats):
                for name, pipeline in pipelines(cores).items():
                    tried[name].append(pipeline(root, on))
            show(cores, {name: statistics.median(rates) for name, rates in tried.items()})


def show(cores: int, rates: dict[str, float]) -> None:
    best = max(value for name, value in rates.items() if "workers" in name)
    print(
        f"\n{cores} core{'s' * (cores > 1)}                     images/s   against the best "
        f"ImageFolder"
    )
    for name, value in rates.items():
        print(f"{name:<24} {value:>10.0f}   {value / best:>6.2f}")
    print(
        f"ours: {rates['ours'] / best:.1f} times the library; "
        f"{rates['ours'] / rates['ours, in memory']:.0%} of the transform in memory"
    )


if __name__ == "__main__":
    main()
