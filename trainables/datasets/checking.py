"""Whether every image of a dataset decodes and is what was prepared, and what else one should know of it."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from trainables.contract import Origin
from trainables.datasets import manifest
from trainables.datasets.catalogue import DATASETS, Index, index
from trainables.datasets.decode import BrokenImageError, decode
from trainables.fetch import Progress

FEW = 500  # images that are decoded before other processes would have started


@dataclass(frozen=True)
class Findings:
    """What `fairtrial data check` found."""

    index: Index
    broken: dict[str, str]  # file -> why
    twins: tuple[tuple[str, str], ...]  # the same bytes in a class to train on and in one to test
    lone: tuple[str, ...]  # classes with one image: it has no match


def check(origin: Origin, progress: Progress) -> Findings:
    """Every file is read and decoded once. ValueError: the dataset is not there or not in order."""
    found = index(origin)
    expected: dict[str, str] = {}
    if found.files and not DATASETS[origin.dataset].needs_root:
        known = manifest.read(origin.dataset)
        expected = dict(zip(known.listing.files, known.hashes, strict=True))
    broken: dict[str, str] = {}
    hashes: dict[str, str] = {}  # of the good ones
    for file, digest, reason in _looks(found.root, found.files):
        if reason is None and expected.get(file, digest) != digest:
            reason = "it was changed since it was prepared"
        if reason is None:
            hashes[file] = digest
        else:
            broken[file] = reason
        progress(len(hashes) + len(broken), len(found.files))
    counts = np.bincount(found.labels, minlength=len(found.names))
    lone = tuple(found.names[label] for label in np.flatnonzero(counts == 1))
    return Findings(found, broken, _twins(found, hashes) if found.files else (), lone)


def _looks(root: Path, files: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    look = partial(_look, root)
    if len(files) < FEW:
        yield from map(look, files)
        return
    # Decoding holds the interpreter's lock, so threads would not help; a fork of a process that draws a progress bar may hang.
    pool = ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))
    try:
        yield from pool.map(look, files, chunksize=32)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest


def _look(root: Path, file: str) -> tuple[str, str, str | None]:
    """File, SHA-256, and why it is broken."""
    try:
        digest = manifest.digest(root / file)
        decode(root, file)
    except BrokenImageError as error:
        return file, digest, error.reason
    except OSError as error:
        return file, "", error.strerror or str(error)
    return file, digest, None


def _twins(found: Index, hashes: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Of the good images: (to train on, to test)."""
    train, test = ([found.files[i] for i in found.ids(half) if found.files[i] in hashes] for half in (found.train, found.test))
    first = {hashes[file]: file for file in reversed(train)}
    return tuple((first[hashes[file]], file) for file in test if hashes[file] in first)
