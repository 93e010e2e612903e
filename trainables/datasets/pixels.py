"""Decoded images: one memory-mapped file per dataset and node, made once, shared by all its trials through the page cache."""

import mmap
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trainables.contract import Origin
from trainables.datasets.catalogue import DATASETS, Index, index
from trainables.datasets.decode import decode, shrink
from trainables.fetch import home

RESIDENT = 128 * 2**20  # bytes of the file that may count as this process's memory before they are given back
TYPICAL_RATIO = 4 / 3  # of a photo's sides; for the estimate of a cache that is not there yet

Bytes = NDArray[np.uint8]
Progress = Callable[[int, int], None]  # images done, images in all


class Pixels:
    """Images of any size, one behind the other in one buffer: pixels[i] is image i as (height, width, channels)."""

    def __init__(self, flat: Bytes, shapes: NDArray[np.int64], *, mapped: mmap.mmap | None = None) -> None:
        self._flat, self.shapes, self._mapped = flat, shapes, mapped
        self._ends = shapes.prod(axis=1).cumsum()
        self._touched = 0

    def __len__(self) -> int:
        return len(self.shapes)

    def __getitem__(self, image: int) -> Bytes:
        """A view that no one may write to."""
        end, shape = self._ends[image], self.shapes[image]
        size = int(shape.prod())
        self._give_back(size)
        return self._flat[end - size : end].reshape(shape)

    def _give_back(self, size: int) -> None:
        """Pages that only this process has touched count as its own: unmapped now and then, they stay in the page cache."""
        self._touched += size
        if self._mapped and self._touched > RESIDENT:
            self._mapped.madvise(mmap.MADV_DONTNEED)
            self._touched = 0


@dataclass(frozen=True)
class Dataset:
    """What a dataset consists of, and its decoded images."""

    index: Index
    pixels: Pixels


@cache
def load(origin: Origin, side: int) -> Dataset:
    """The dataset with its images at this shorter side, once per process; the first process on a node decodes them."""
    listed, shipped = index(origin), DATASETS[origin.dataset].pixels
    if shipped:
        images = shipped()
        return Dataset(listed, Pixels(images.reshape(-1), np.array([images.shape[1:]] * len(images))))
    decode_once(origin, side)
    return Dataset(listed, _open(cache_folder(origin, side)))


def decode_once(origin: Origin, side: int, progress: Progress | None = None) -> None:
    """Decode every image, unless that was done before. A BrokenImageError names the first that cannot be."""
    if DATASETS[origin.dataset].pixels:
        return
    folder = cache_folder(origin, side)
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not folder.exists():  # while this one waited, another process did it
                _build(index(origin), side, folder, progress)


def cache_folder(origin: Origin, side: int) -> Path:
    """Named after what is in it: other files, labels or sizes are another folder."""
    return home() / "pixels" / f"{origin.dataset}-{side}-{index(origin).fingerprint[:16]}"


def cache_bytes(origin: Origin, side: int) -> int:
    """What the cache takes on disk; an estimate for photos if it is not there yet. Shipped images need none."""
    if DATASETS[origin.dataset].pixels:
        return 0
    file = cache_folder(origin, side) / "pixels.bin"
    return file.stat().st_size if file.exists() else round(len(index(origin).files) * side * side * TYPICAL_RATIO * 3)


def _open(folder: Path) -> Pixels:
    with (folder / "pixels.bin").open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    mapped.madvise(mmap.MADV_RANDOM)
    return Pixels(np.frombuffer(mapped, np.uint8), np.load(folder / "shapes.npy", allow_pickle=False), mapped=mapped)


def _build(listed: Index, side: int, folder: Path, progress: Progress | None) -> None:
    """Decode everything into a folder beside, and rename it when it is whole."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir()
    try:
        with (unfinished / "pixels.bin").open("wb") as file:
            shapes = list(_write(listed, side, file, progress))
            os.fsync(file.fileno())
        np.save(unfinished / "shapes.npy", np.array(shapes, dtype=np.int64))
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write(listed: Index, side: int, file: IO[bytes], progress: Progress | None) -> Iterator[tuple[int, ...]]:
    """Each image's shape, once its bytes are in the file."""
    for done, image in enumerate(_in_order(lambda name: np.asarray(shrink(decode(listed.root, name), side)), listed.files), start=1):
        file.write(image.tobytes())
        if progress:
            progress(done, len(listed.files))
        yield image.shape


def _in_order(work: Callable[[str], Bytes], files: Sequence[str]) -> Iterator[Bytes]:
    """work(file) for all files, in order, on all cores (Pillow decodes outside Python's lock), a few ahead of the reader."""
    threads = os.cpu_count() or 1
    waiting: deque[Future[Bytes]] = deque()
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
