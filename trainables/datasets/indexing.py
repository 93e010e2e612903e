"""Index a dataset: its files, labels, class names and halves, wherever they come from."""

import hashlib
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from search_spaces.space import pick
from trainables.contract import DatasetRef
from trainables.datasets.catalogue import (
    DATASETS,
    SKETCHES,
    DatasetInfo,
    check_counts,
    how_to_get,
)
from trainables.datasets.classes import train_flags
from trainables.datasets.folders import read_own
from trainables.datasets.listing import Listing
from trainables.datasets.manifest import fingerprint, read_manifest
from trainables.datasets.vectors import list_vectors, read_vectors

Halve = tuple[int, ...]  # classes


@dataclass(frozen=True, eq=False)
class Index:
    """Hold what a dataset consists of; no pixel has been read."""

    root: Path
    # Below root, '/' between folders (a CSV may list absolute paths); empty for shipped pixels and
    # for vectors.
    files: tuple[str, ...]
    labels: NDArray[np.int64]  # of every image or vector; indices of names
    names: tuple[str, ...]
    train: tuple[int, ...]  # classes
    test: tuple[int, ...]
    fingerprint: str  # of what the pixels are and how they are labelled, as hex
    channels: int
    ignored: tuple[str, ...] = ()  # files below root that belong to no class or are not images
    pictures: tuple[str, ...] = ()  # of vectors, for people to look at; below root, maybe gone

    def ids(self, classes: Sequence[int]) -> NDArray[np.int64]:
        """Return the images of these classes, in file order."""
        return np.flatnonzero(np.isin(self.labels, classes))


def halves(dataset_ref: DatasetRef) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the classes to train on and those to test. Official halves need no file."""
    info, most = _info(dataset_ref), dataset_ref.max_classes
    if info.classes is not None:
        sides = info.train[:most], info.test[:most]
        return _closed_halves(*sides, info.classes) if dataset_ref.closed_set else sides
    found = index(dataset_ref)
    return found.train, found.test


@cache
def index(dataset_ref: DatasetRef) -> Index:
    """Return what the dataset consists of, read once per process. Raise ValueError if it is
    invalid.
    """
    found, most = _whole_index(dataset_ref), dataset_ref.max_classes
    found = replace(found, train=found.train[:most], test=found.test[:most])
    return _closed(found, dataset_ref) if dataset_ref.closed_set else found


def class_disjoint(dataset_ref: DatasetRef) -> DatasetRef:
    """Return the same images with their classes divided: caches of images go by it."""
    return replace(dataset_ref, closed_set=False, train_share=None, share_seed=0)


def _closed(found: Index, dataset_ref: DatasetRef) -> Index:
    """Return the index of the closed-set task.

    A class's test images are a class of their own, so that no split can mix them with the others.
    """
    trains = train_flags(dataset_ref, found.labels, root=found.root, files=found.files)
    train, test = _closed_halves(found.train, found.test, len(found.names))
    return replace(
        found,
        labels=np.where(trains, found.labels, found.labels + len(found.names)),
        names=(*found.names, *(f"{name} (test images)" for name in found.names)),
        train=train,
        test=test,
        fingerprint=fingerprint([found.fingerprint, np.flatnonzero(trains).tolist()]),
    )


def _closed_halves(train: Halve, test: Halve, classes: int) -> tuple[Halve, Halve]:
    """Return all classes in use, and those of their test images, which follow all `classes`."""
    used = (*train, *test)
    return used, tuple(label + classes for label in used)


def _whole_index(dataset_ref: DatasetRef) -> Index:
    """Return the index of all classes."""
    info, name = _info(dataset_ref), dataset_ref.dataset
    if info.pixels is not None:
        return _shipped(name, info)
    if not info.channels:
        return _vectors(dataset_ref)
    if info.needs_root:
        listing = _without(read_own(dataset_ref), dataset_ref.exclude)
        return _index(listing, fingerprint([name, _state(listing)]), info.channels)
    try:
        found = read_manifest(name)
    except FileNotFoundError:
        raise ValueError(f"{name} is not here yet: {how_to_get(name)}") from None
    check_counts(name, found.listing)
    mark = found.fingerprint
    if dataset_ref.exclude:
        mark = fingerprint([mark, sorted(dataset_ref.exclude)])
    return _index(_without(found.listing, dataset_ref.exclude), mark, info.channels)


def _info(dataset_ref: DatasetRef) -> DatasetInfo:
    """Return the dataset's entry. Raise ValueError if the reference has a key that it does not
    take.
    """
    name = dataset_ref.dataset
    info = pick(DATASETS, name, "dataset")
    if info.needs_root and not dataset_ref.root:
        raise ValueError(
            f"{name} needs --set data_root=PATH (`fairtrial data`: --root PATH): {info.wanted}."
        )
    if not info.needs_root:
        for key in ("root", "train_classes", "test_classes"):
            if getattr(dataset_ref, key):
                raise ValueError(
                    f"{key} is for image_folder, csv and features; {name} has its own place and "
                    f"its official halves."
                )
    if not info.channels and dataset_ref.exclude:
        raise ValueError(
            f"exclude names image files, but {name} has none; remove the rows that "
            f"exclude='{dataset_ref.exclude[0]}' means from your file."
        )
    if info.pixels is not None and dataset_ref.exclude:
        raise ValueError(
            f"{name} ships without files, so exclude='{dataset_ref.exclude[0]}' can name none."
        )
    return info


def _vectors(dataset_ref: DatasetRef) -> Index:
    """Return the index of vectors; its fingerprint depends on content, not on paths and times."""
    vectors = read_vectors(dataset_ref)
    listing = list_vectors(dataset_ref, vectors)
    mark = fingerprint([vectors.digest, listing.labels, listing.names, listing.train, listing.test])
    found = _index(listing, mark, DATASETS[dataset_ref.dataset].channels)
    return replace(found, pictures=vectors.pictures)


def _index(listing: Listing, mark: str, channels: int) -> Index:
    return Index(
        listing.root,
        listing.files,
        np.asarray(listing.labels, dtype=np.int64),
        listing.names,
        listing.train,
        listing.test,
        mark,
        channels,
        listing.ignored,
    )


def _shipped(name: str, info: DatasetInfo) -> Index:
    with SKETCHES.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        labels, names = arrays["labels"].astype(np.int64), tuple(map(str, arrays["names"]))
    mark = hashlib.sha256(SKETCHES.read_bytes()).hexdigest()
    if (len(names), len(labels)) != (info.classes, info.images):
        raise ValueError(
            f"{name} has {info.classes} classes and {info.images} images, but {len(names)} and "
            f"{len(labels)} were found."
        )
    root = Path(str(SKETCHES)).parent
    return Index(root, (), labels, names, info.train, info.test, mark, info.channels)


def _state(listing: Listing) -> list[object]:
    """Return path, label, size and time of every file, and the halves."""
    stats = [(listing.root / file).stat() for file in listing.files]
    rows = [
        [file, label, stat.st_size, stat.st_mtime_ns]
        for file, label, stat in zip(listing.files, listing.labels, stats, strict=True)
    ]
    return [rows, listing.names, listing.train, listing.test]


def _without(listing: Listing, exclude: Sequence[str]) -> Listing:
    """Return the listing without these files. Raise ValueError if one does not exist."""
    if not exclude:
        return listing
    # Typed and stored letters may differ in code points.
    known = {normalize("NFC", file): file for file in listing.files}
    gone = set()
    for file in exclude:
        key = normalize("NFC", posixpath.normpath(file))
        if key not in known:
            raise ValueError(
                f"exclude names '{file}', but there is no such image in {listing.root}."
                f"{_did_you_mean(key, known)}"
            )
        gone.add(known[key])
    kept = [
        (file, label)
        for file, label in zip(listing.files, listing.labels, strict=True)
        if file not in gone
    ]
    if emptied := set(range(len(listing.names))) - {label for _, label in kept}:
        raise ValueError(
            f"exclude leaves no image of the class '{listing.names[min(emptied)]}'; a class needs "
            f"images."
        )
    files, labels = (tuple(column) for column in zip(*kept, strict=True))
    return replace(listing, files=files, labels=labels)


def _did_you_mean(key: str, known: dict[str, str]) -> str:
    """Look for a near name among files of the same name, then of the same folder, then all."""
    candidates = (
        [each for each in known if posixpath.basename(each) == posixpath.basename(key)]
        or [each for each in known if posixpath.dirname(each) == posixpath.dirname(key)]
        or list(known)[:2000]
    )
    near = get_close_matches(key, candidates, n=1, cutoff=0.4)
    return f" Did you mean '{known[near[0]]}'?" if near else ""
