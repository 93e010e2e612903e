"""Check a dataset: every image decodes and is unchanged, and nothing is in both halves."""

import hashlib
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
from trainables.datasets.vectors import read_vectors
from trainables.fetch import ProgressCallback, hash_file

ROWS = 4096  # vectors that are measured at a time
FEW = 500  # images; fewer are decoded before other processes have started


@dataclass(frozen=True)
class Findings:
    """Hold what `fairtrial data check` found."""

    index: Index
    broken: dict[str, str]  # file -> why
    twins: tuple[tuple[str, str], ...]  # the same bytes in a class to train on and in one to test
    lone: tuple[str, ...]  # classes with one image, which has no match


@dataclass(frozen=True)
class VectorFindings:
    """Hold what `fairtrial data check features` found."""

    index: Index
    size: int  # numbers of each vector
    shortest: float  # the lengths of the vectors
    median: float
    longest: float
    repeats: int  # vectors that are the same as an earlier one
    twins: tuple[tuple[str, str], ...]  # the same vector in a class to train on and in one to test
    lone: tuple[str, ...]
    lost: tuple[str, ...]  # pictures that are not there


def check_vectors(dataset_ref: DatasetRef) -> VectorFindings:
    """Read every vector once. Raise ValueError if the file has one that cannot be used."""
    vectors, found = read_vectors(dataset_ref), index(dataset_ref)
    names = vectors.ids or tuple(f"row {row}" for row in range(len(vectors.rows)))
    lengths = np.concatenate(
        [
            np.linalg.norm(vectors.rows[start : start + ROWS], axis=1)
            for start in range(0, len(vectors.rows), ROWS)
        ]
    )
    hashes = [hashlib.blake2b(row, digest_size=16).digest() for row in vectors.rows]
    train, test = (found.ids(half).tolist() for half in (found.train, found.test))
    first = {hashes[row]: row for row in reversed(train)}
    twins = [(first[hashes[row]], row) for row in test if hashes[row] in first]
    return VectorFindings(
        found,
        vectors.rows.shape[1],
        float(lengths.min()),
        float(np.median(lengths)),
        float(lengths.max()),
        len(hashes) - len(set(hashes)),
        tuple((names[one], names[other]) for one, other in twins),
        _lone(found),
        tuple(file for file in found.pictures if not (found.root / file).is_file()),
    )


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
    return Findings(found, broken, _twins(found, hashes) if found.files else (), _lone(found))


def _lone(found: Index) -> tuple[str, ...]:
    counts = np.bincount(found.labels, minlength=len(found.names))
    return tuple(found.names[label] for label in np.flatnonzero(counts == 1))


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
