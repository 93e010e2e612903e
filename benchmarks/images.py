"""Measure the input path on one core: images per second from a warm cache, pages of a cold one.

One core draws boxes, asks the disk for the pixels of the next batch and cuts this one at 224 x 224
into a reused buffer, from which a GPU copies it. The buffer is pinned where CUDA is there, and
plain memory elsewhere. Rates are per second and per core-second of the process: other work on the
machine lowers the first and hardly the second.

Cold: the same after the system has forgotten the file, with pages and milliseconds per image; and
again with every page read when it is touched, as versions up to 0.5 did. Medians are printed.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from trainables.inputs.images import Images
    from trainables.inputs.loader import Pending

BATCH, SIDE, CACHE_SIDE = 64, 224, 256
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SECONDS = 4.0  # of one measurement, after a warm-up
CLASSES = 8
PHOTO, PANORAMA = (500, 375), (1500, 375)  # width and height
# The sizes that follow each other in a dataset, and so are mixed in its batches.
SIZES = {
    "photos": (PHOTO,),
    "portraits": (PHOTO[::-1],),
    "panoramas of 4:1": (PANORAMA,),
    "one panorama in 64": (PANORAMA, *[PHOTO] * 63),
}


def make_files(root: Path, count: int, sizes: tuple[tuple[int, int], ...] = (PHOTO,)) -> None:
    """Write JPEGs of smooth colours with edges and grain: about 60 kB each, like photos."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for i in range(count):
        folder = root / f"class {i % CLASSES}"
        folder.mkdir(parents=True, exist_ok=True)
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        photo = np.asarray(
            Image.fromarray(coarse).resize(sizes[i % len(sizes)], Image.Resampling.BICUBIC)
        ).astype(np.int16)
        photo = photo + rng.normal(0, 6, photo.shape).astype(np.int16)
        Image.fromarray(photo.clip(0, 255).astype(np.uint8)).save(
            folder / f"{i:05}.jpg", quality=90
        )


def decoded(root: str, *, in_memory: bool = False) -> Images:
    """Return the images of the cache, as a trial reads them."""
    from trainables.contract import DatasetRef, ImageTransform
    from trainables.datasets.pixels import Dataset, Pixels, load
    from trainables.inputs.images import Images

    data = load(DatasetRef("image_folder", root), CACHE_SIDE)
    if in_memory:
        flat = np.concatenate([data.pixels[i].ravel() for i in range(len(data.pixels))])
        data = Dataset(data.index, Pixels(flat, data.pixels.shapes))
    transform = ImageTransform(
        SIDE, CACHE_SIDE, 0.875, "resized", (0.08, 1.0), (3 / 4, 4 / 3), 0, flip=True
    )
    return Images(data, data.index.ids(range(CLASSES)), transform)


def shuffled(images: Images, *, scoring: bool = False) -> Iterator[Pending]:
    """Yield batches without end, every image once before any again."""
    epoch = 0
    while True:
        epoch += 1
        order, numbers = np.arange(len(images)), images.draws((0, epoch))
        if not scoring:
            order = np.random.default_rng(epoch).permutation(order)
        for i in range(0, len(order) - BATCH + 1, BATCH):
            rows = order[i : i + BATCH]
            yield images.plain(rows) if scoring else images.augmented(rows, numbers)


def input_path(root: str, *, scoring: bool = False) -> Iterator[int]:
    """Yield the sizes of endless batches, cut into reused buffers with the next one announced."""
    import torch

    from trainables.inputs.loader import AHEAD

    cuda = torch.cuda.is_available()
    size = BATCH * 3 * SIDE * SIDE
    buffers = [
        torch.empty(size, dtype=torch.uint8, pin_memory=cuda).zero_() for _ in range(AHEAD + 1)
    ]
    for number, (batch, _) in enumerate(pairwise(shuffled(decoded(root), scoring=scoring))):
        yield len(batch.into(buffers[number % len(buffers)]))


def measure(
    pipeline: Callable[..., Iterator[int]],
    root: str,
    cores: list[int],
    barrier: Any,
    answers: Any,
    options: dict[str, Any],
) -> None:
    """Answer with the images per second and per core-second of this process."""
    os.sched_setaffinity(0, cores)

    from trainables.distributed.process import prepare_process

    prepare_process()
    batches = pipeline(root, **options)
    for _ in range(8):
        next(batches)
    barrier.wait()
    began, worked, done = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < SECONDS:
        done += next(batches)
    answers.put((done / (time.perf_counter() - began), done / (time.process_time() - worked)))
    batches.close()  # type: ignore[attr-defined]


def rates(
    pipeline: Callable[..., Iterator[int]],
    root: str,
    cores: list[int],
    processes: int = 1,
    **options: Any,
) -> tuple[float, float]:
    """Return the images per second of all processes together, and per core-second of each."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(processes), context.Queue()
    workers = [
        context.Process(target=measure, args=(pipeline, root, cores, barrier, answers, options))
        for _ in range(processes)
    ]
    for process in workers:
        process.start()
    found = [answers.get(timeout=300) for _ in workers]
    for process in workers:
        process.join()
    return sum(each for each, _ in found), statistics.mean(each for _, each in found)


def read_cold(root: str, as_touched: bool, answers: Any) -> None:
    """Answer with the pages waited for, the pages mapped and the ms per image, cold and warm."""
    from trainables.datasets.pixels import Pixels
    from trainables.distributed.process import prepare_process

    prepare_process()
    if as_touched:
        Pixels.expect = lambda *_: None  # type: ignore[method-assign]
    images = decoded(root)
    pixels = images._pixels
    assert pixels._mapped is not None
    if as_touched:
        pixels._mapped.madvise(mmap.MADV_RANDOM)
    found = []
    for temperature in ("cold", "warm"):
        if temperature == "cold":
            forget(root)
        batches = pairwise(shuffled(images))
        before, began, done = getrusage(RUSAGE_SELF), time.perf_counter(), 0
        while done < len(images) - 2 * BATCH:
            done += len(next(batches)[0].now())
        seconds, after = time.perf_counter() - began, getrusage(RUSAGE_SELF)
        pages = after.ru_majflt - before.ru_majflt, after.ru_minflt - before.ru_minflt
        found.append((*(each / done for each in pages), 1000 * seconds / done))
    answers.put(found)


def forget(root: str) -> None:
    """Let the system drop the decoded images from its memory."""
    from trainables.contract import DatasetRef
    from trainables.datasets.pixels import ROWS, cache_folder

    with (cache_folder(DatasetRef("image_folder", root), CACHE_SIDE) / ROWS).open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def show_path(folder: str, options: argparse.Namespace) -> None:
    on = sorted(os.sched_getaffinity(0))[:1]
    print(f"\nInput path on one core            images/s   per core-second   (batches of {BATCH})")
    for name, sizes in SIZES.items():
        root = prepared(folder, name, options.images, sizes)
        for scoring in (False, True):
            tried = [rates(input_path, root, on, scoring=scoring) for _ in range(options.repeats)]
            wall, core = (statistics.median(each) for each in zip(*tried, strict=True))
            what = f"{name}, {'scoring' if scoring else 'training'}"
            print(f"{what:<30} {wall:>11,.0f} {core:>17,.0f}")


def show_cold(folder: str, options: argparse.Namespace) -> None:
    root = prepared(folder, "photos", options.images, SIZES["photos"])
    print("\nReading photos, per image        pages waited for   pages mapped     ms")
    for name, as_touched in (("asked for ahead", False), ("read as touched", True)):
        tried = [in_new_process(read_cold, root, as_touched) for _ in range(options.repeats)]
        for i, temperature in enumerate(("cold", "warm")):
            of_runs = zip(*(each[i] for each in tried), strict=True)
            waited, mapped, ms = (statistics.median(each) for each in of_runs)
            print(f"{temperature}, {name:<26} {waited:>15.2f} {mapped:>14.2f} {ms:>6.2f}")


def in_new_process(work: Callable[..., None], *args: Any) -> Any:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=work, args=(*args, answers))
    process.start()
    found = answers.get(timeout=300)
    process.join()
    return found


def prepared(folder: str, name: str, count: int, sizes: tuple[tuple[int, int], ...]) -> str:
    """Return the folder of these images, written and decoded once."""
    from trainables.contract import DatasetRef
    from trainables.datasets.pixels import decode_once

    root = Path(folder) / name
    if not root.exists():
        make_files(root, count, sizes)
        decode_once(DatasetRef("image_folder", str(root)), CACHE_SIDE)
    return str(root)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["FAIRTRIAL_DATA"] = f"{folder}/cache"
        show_path(folder, options)
        show_cold(folder, options)


if __name__ == "__main__":
    main()
