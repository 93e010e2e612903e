"""Check a dataset: every image decodes and is unchanged, and nothing is in both halves."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trainables.contract import DatasetRef
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.decode import BrokenImageError
from trainables.datasets.indexing import Index, index
from trainables.datasets.manifest import read_manifest
from trainables.datasets.pixels import Bytes, decode_at, in_order, is_decoded, keep_images
from trainables.datasets.vectors import read_vectors
from trainables.fetch import ProgressCallback, hash_file

ROWS = 4096  # vectors that are measured at a time
CHANGED = "it was changed since it was prepared"


@dataclass(frozen=True)
class Findings:
    """Hold what `fairtrial data check` found."""

    index: Index
    broken: dict[str, str]  # file -> why
    twins: tuple[tuple[str, str], ...]  # the same bytes in a class to train on and in one to test
    lone: tuple[str, ...]  # classes with one image, which has no match
    not_kept: str | None  # why the decoded images are not on disk, if they could not be written


@dataclass(frozen=True)
class Examined:
    """Hold what reading and decoding one file gave."""

    file: str
    digest: str  # SHA-256
    reason: str | None  # why it is broken, if it is
    image: Bytes | None  # as the cache of decoded images holds it


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


def check_dataset(dataset_ref: DatasetRef, side: int, progress: ProgressCallback) -> Findings:
    """Read and decode every file once, and keep the images at this shorter side for studies.

    Raise ValueError if the dataset is missing or incomplete.
    """
    found = index(dataset_ref)
    expected: dict[str, str] = {}
    if found.files and not DATASETS[dataset_ref.dataset].needs_root:
        manifest = read_manifest(dataset_ref.dataset)
        expected = dict(zip(manifest.listing.files, manifest.hashes, strict=True))
    broken: dict[str, str] = {}
    hashes: dict[str, str] = {}  # of the good ones

    def noted() -> Iterator[Examined]:
        for each in in_order(lambda file: _examine(found.root, file, side), found.files):
            changed = each.reason is None and expected.get(each.file, each.digest) != each.digest
            if reason := CHANGED if changed else each.reason:
                broken[each.file] = reason
            else:
                hashes[each.file] = each.digest
            progress(len(hashes) + len(broken), len(found.files))
            yield each

    not_kept, examined = None, noted()
    used = set(found.ids(found.train + found.test).tolist())

    def good() -> Iterator[Bytes]:
        for i, each in enumerate(examined):
            if each.file in broken:  # a cache with a gap is none
                raise BrokenImageError(each.file, broken[each.file])
            if i in used and each.image is not None:
                yield each.image

    if found.files and not is_decoded(dataset_ref, side):
        try:
            keep_images(dataset_ref, side, good())
        except BrokenImageError:
            pass  # it is noted, as those are that follow
        except OSError as error:  # the images can be checked nevertheless
            not_kept = error.strerror or str(error)
    for _ in examined:
        pass
    twins = _twins(found, hashes) if found.files else ()
    return Findings(found, broken, twins, _lone(found), not_kept)


def _lone(found: Index) -> tuple[str, ...]:
    counts = np.bincount(found.labels, minlength=len(found.names))
    return tuple(found.names[label] for label in np.flatnonzero(counts == 1))


def _examine(root: Path, file: str, side: int) -> Examined:
    try:
        digest = hash_file(root / file)
    except OSError as error:
        return Examined(file, "", error.strerror or str(error), None)
    try:
        return Examined(file, digest, None, decode_at(root, file, side))
    except BrokenImageError as error:
        return Examined(file, digest, error.reason, None)


def _twins(found: Index, hashes: dict[str, str]) -> tuple[tuple[str, str], ...]:
    """Return pairs of good images with the same bytes: (to train on, to test)."""
    train, test = (
        [found.files[i] for i in found.ids(half) if found.files[i] in hashes]
        for half in (found.train, found.test)
    )
    first = {hashes[file]: file for file in reversed(train)}
    return tuple((first[hashes[file]], file) for file in test if hashes[file] in first)
