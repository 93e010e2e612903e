"""Decode images into one memory-mapped file per dataset and node, once, for all trials there."""

import json
import mmap
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trainables.contract import DatasetRef, Resize
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.decode import decode, resized
from trainables.datasets.indexing import Index, class_disjoint, index
from trainables.fetch import ProgressCallback, home

# Bytes of the file that may count as this process's memory before it gives them back.
RESIDENT = 128 * 2**20
UNUSED = (0, 0, 3)  # the shape of an image of a class that the study leaves out
TYPICAL_RATIO = 4 / 3  # of a photo's sides; for the estimate of a cache that is not there yet

ROWS, SHAPES, ABOUT = "pixels.bin", "shapes.npy", "about.json"

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Result = TypeVar("Result")


class Pixels:
    """Hold images of any size in one buffer: pixels[i] is image i as (height, width, channels)."""

    def __init__(self, flat: Bytes, shapes: Ints, *, mapped: mmap.mmap | None = None) -> None:
        self._flat, self.shapes, self._mapped = flat, shapes, mapped
        self._ends = shapes.prod(axis=1).cumsum()
        self._touched = 0

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, image: int) -> Bytes:
        """Return a read-only view."""
        end, shape = self._ends[image], self.shapes[image]
        size = int(shape.prod())
        self._give_back(size)
        return self._flat[end - size : end].reshape(shape)

    def expect(self, images: Ints, top: Ints, bottom: Ints) -> None:
        """Ask the system to read these rows of these images from the disk, without waiting.

        Else each of their pages would be waited for on its own when it is first touched.
        """
        if not self._mapped:
            return
        shapes = self.shapes[images]
        begin, row = self._ends[images] - shapes.prod(axis=1), shapes[:, 1] * shapes[:, 2]
        first = begin + np.clip(top, 0, shapes[:, 0] - 1) * row
        end = begin + np.clip(bottom, 1, shapes[:, 0]) * row
        first -= first % mmap.PAGESIZE
        for start, size in zip(first.tolist(), (end - first).tolist(), strict=True):
            self._mapped.madvise(mmap.MADV_WILLNEED, start, size)

    def _give_back(self, size: int) -> None:
        """Unmap pages now and then; those that only this process touched count as its memory.

        They stay in the page cache.
        """
        self._touched += size
        if self._mapped and self._touched > RESIDENT:
            self._mapped.madvise(mmap.MADV_DONTNEED)
            self._touched = 0


@dataclass(frozen=True)
class Dataset:
    """Hold what a dataset consists of, and its decoded images."""

    index: Index
    pixels: Pixels


@cache
def load(dataset_ref: DatasetRef, side: int, resize: Resize = "shorter") -> Dataset:
    """Return the dataset with its images at this shorter side, or squashed; read once per process.

    The first process on a node decodes the images.
    """
    listed, shipped = index(dataset_ref), DATASETS[dataset_ref.dataset].pixels
    if shipped:
        images = shipped()
        return Dataset(
            listed, Pixels(images.reshape(-1), np.array([images.shape[1:]] * len(images)))
        )
    if not DATASETS[dataset_ref.dataset].has_image_files:
        raise ValueError(
            f"{dataset_ref.dataset} has vectors, not images, so no backbone can be trained on it; "
            f"train a head only, or choose a dataset of images."
        )
    decode_once(dataset_ref, side, resize=resize)
    return Dataset(listed, _open(cache_folder(dataset_ref, side, resize)))


def decode_once(
    dataset_ref: DatasetRef,
    side: int,
    progress: ProgressCallback | None = None,
    *,
    resize: Resize = "shorter",
) -> None:
    """Decode every image, unless this node has. Raise BrokenImageError at the first bad image."""
    if not DATASETS[dataset_ref.dataset].has_image_files:
        return
    listed = index(dataset_ref)
    files = [listed.files[i] for i in listed.ids(listed.train + listed.test)]
    images = in_order(lambda file: decode_at(listed.root, file, side, resize=resize), files)
    keep_images(dataset_ref, side, images, progress=progress, resize=resize)


def decode_at(root: Path, file: str, side: int, *, resize: Resize = "shorter") -> Bytes:
    """Return the pixels that the cache holds of an image. Raise BrokenImageError if it is bad."""
    return np.asarray(resized(decode(root, file), side, resize))


def keep_images(
    dataset_ref: DatasetRef,
    side: int,
    images: Iterator[Bytes],
    *,
    progress: ProgressCallback | None = None,
    resize: Resize = "shorter",
) -> None:
    """Write the images of the classes in use, in file order, unless this node has them.

    Nothing is written if the iterator raises.
    """
    if is_decoded(dataset_ref, side, resize):
        return
    folder = cache_folder(dataset_ref, side, resize)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_suffix(".lock")):
        if not folder.exists():  # while this one waited, another process did it
            _build(index(class_disjoint(dataset_ref)), folder, images, progress)


def is_decoded(dataset_ref: DatasetRef, side: int, resize: Resize = "shorter") -> bool:
    """Return whether this node has the images that the reference uses."""
    return cache_folder(dataset_ref, side, resize).exists()


def cache_folder(dataset_ref: DatasetRef, side: int, resize: Resize = "shorter") -> Path:
    """Return the folder of the decoded images; it depends on files, labels and sizes.

    With max_classes it holds the images of these classes only, unless all are there already.
    """
    found = index(class_disjoint(dataset_ref))
    size = f"{side}x{side}" if resize == "squash" else side
    whole = home() / "pixels" / f"{dataset_ref.dataset}-{size}-{found.fingerprint[:16]}"
    if dataset_ref.max_classes is None or whole.exists():
        return whole
    return whole.with_name(f"{whole.name}-{dataset_ref.max_classes}")


def cache_bytes(dataset_ref: DatasetRef, side: int, resize: Resize = "shorter") -> int:
    """Return the size of the cache on disk: 0 without image files, an estimate before it exists."""
    if not DATASETS[dataset_ref.dataset].has_image_files:
        return 0
    file = cache_folder(dataset_ref, side, resize) / ROWS
    if file.exists():
        return file.stat().st_size
    found = index(dataset_ref)
    ratio = 1 if resize == "squash" else TYPICAL_RATIO
    return round(len(found.ids(found.train + found.test)) * side * side * ratio * 3)


def _open(folder: Path) -> Pixels:
    with (folder / ROWS).open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return Pixels(
        np.frombuffer(mapped, np.uint8),
        np.load(folder / SHAPES, allow_pickle=False),
        mapped=mapped,
    )


def _build(
    listed: Index, folder: Path, images: Iterator[Bytes], progress: ProgressCallback | None
) -> None:
    """Write everything into a folder beside this one, and rename that when it is complete."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir()
    try:
        with (unfinished / ROWS).open("wb") as file:
            shapes = list(_write(listed, images, file, progress))
            os.fsync(file.fileno())
        np.save(unfinished / SHAPES, np.array(shapes, dtype=np.int64))
        # For people, who see it in a list of caches.
        (unfinished / ABOUT).write_text(json.dumps({"root": str(listed.root)}) + "\n")
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(
    listed: Index, images: Iterator[Bytes], file: IO[bytes], progress: ProgressCallback | None
) -> Iterator[tuple[int, ...]]:
    """Write the images of the classes in use to the file, and yield the shape of every image.

    The others are empty.
    """
    used = listed.ids(listed.train + listed.test)
    done, wanted = 0, set(used.tolist())
    for i in range(len(listed.files)):
        if i not in wanted:
            yield UNUSED
            continue
        image = next(images)
        file.write(image.tobytes())
        done += 1
        if progress:
            progress(done, len(used))
        yield image.shape


def in_order(work: Callable[[str], Result], files: Sequence[str]) -> Iterator[Result]:
    """Yield work(file) for all files in order, computed on all cores a few ahead of the reader.

    Threads suffice, because Pillow decodes outside Python's lock.
    """
    threads = os.cpu_count() or 1
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for file in files:
                waiting.append(pool.submit(work, file))
                if len(waiting) > 4 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
