"""Check a dataset: every image decodes and is unchanged, and no image is in both halves."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from trainables.contract import DatasetRef
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.decode import BrokenImageError, decode
from trainables.datasets.indexing import Index, index
from trainables.datasets.manifest import read_manifest
from trainables.fetch import ProgressCallback, hash_file

FEW = 500  # images; fewer are decoded before other processes have started


@dataclass(frozen=True)
class Findings:
    """Hold what `fairtrial data check` found."""

    index: Index
    broken: dict[str, str]  # file -> why
    twins: tuple[tuple[str, str], ...]  # the same bytes in a class to train on and in one to test
    lone: tuple[str, ...]  # classes with one image, which has no match


def check_dataset(dataset_ref: DatasetRef, progress: ProgressCallback) -> Findings:
    """Read and decode every file once. Raise ValueError if the dataset is missing or incomplete."""
    found = index(dataset_ref)
    expected: dict[str, str] = {}
    if found.files and not DATASETS[dataset_ref.dataset].needs_root:
        manifest = read_manifest(dataset_ref.dataset)
        expected = dict(zip(manifest.listing.files, manifest.hashes, strict=True))
    broken: dict[str, str] = {}
    hashes: dict[str, str] = {}  # of the good ones
    for file, digest, reason in _examine_all(found.root, found.files):
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


def _examine_all(root: Path, files: Sequence[str]) -> Iterator[tuple[str, str, str | None]]:
    examine = partial(_examine, root)
    if len(files) < FEW:
        yield from map(examine, files)
        return
    # Decoding holds the interpreter's lock, so threads would not help; a fork of a process that
    # draws a progress bar may hang.
    pool = ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"))
    try:
        yield from pool.map(examine, files, chunksize=32)
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest


def _examine(root: Path, file: str) -> tuple[str, str, str | None]:
    """Return the file, its SHA-256, and why it is broken, if it is."""
    try:
        digest = hash_file(root / file)
        decode(root, file)
    except BrokenImageError as error:
        return file, digest, error.reason
    except OSError as error:
        return file, "", error.strerror or str(error)
    return file, digest, None


def _twins(found: Index, hashes: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of good images with the same bytes: (to train on, to test)."""
    train, test = (
        [found.files[i] for i in found.ids(half) if found.files[i] in hashes]
        for half in (found.train, found.test)
    )
    first = {hashes[file]: file for file in reversed(train)}
    return tuple((first[hashes[file]], file) for file in test if hashes[file] in first)
