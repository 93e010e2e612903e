"""Read vectors from anywhere: find their files, check every number once, map them into memory."""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trainables.contract import DatasetRef
from trainables.datasets.classes import MIN_CLASSES, choose_halves, divide_by_split, name_classes
from trainables.datasets.listing import Listing
from trainables.datasets.manifest import fingerprint
from trainables.datasets.vector_files import OPENERS, FeatureFile, Source, open_source
from trainables.fetch import explain_disk_errors, home

KINDS = ".npz, .npy or .parquet"
SHORTEST = 1e-12  # torch.nn.functional.normalize does not bring a shorter vector to length one
VERSION = 1  # of the checks and of what they write

# What is wrong with a vector, and what to do about it.
PROBLEMS = {
    "hold NaN or infinity": "leave them out, or compute them again",
    "are zero": "they were probably never computed: leave them out, or compute them again",
    "are too long for float32": "divide all vectors by one large number",
}

Rows = NDArray[np.float32]
# Path, size and time of every file: another state is checked and converted again.
State = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, eq=False)
class Vectors:
    """Hold the vectors of a file or folder with what is known about each."""

    root: Path  # the folder of the files
    rows: Rows  # (vectors, numbers of each), mapped read-only
    labels: tuple[str, ...]  # the class name of every row
    split: tuple[str, ...]  # train or test; empty, as those below, if the files do not say
    ids: tuple[str, ...]
    pictures: tuple[str, ...]  # below root, for people to look at
    digest: str  # SHA-256 of the rows as float32, whatever file holds them


@cache
def load_vectors(dataset_ref: DatasetRef) -> Rows:
    """Return the vectors of dataset=features, in the order of index(dataset_ref).labels.

    All processes of a node share one read-only map of a file.
    """
    return read_vectors(dataset_ref).rows


def read_vectors(dataset_ref: DatasetRef) -> Vectors:
    """Return the vectors at the reference's root, or raise ValueError.

    The first process on a node checks every number, and converts them if they cannot be mapped
    where they are.
    """
    assert dataset_ref.root is not None
    root = Path(dataset_ref.root).expanduser().absolute()
    sources = find_sources(root)
    return _read(root, sources, _state(sources))


def list_vectors(dataset_ref: DatasetRef, vectors: Vectors) -> Listing:
    """Return the classes and halves of the vectors, which have no files of their own.

    The halves come from the reference's lists, else from split, else the first half of the sorted
    classes is for training. Raise ValueError if there are too few classes.
    """
    root = Path(dataset_ref.root or "")
    names, labels = name_classes(vectors.labels)
    if len(names) < MIN_CLASSES:
        classes = "1 class" if len(names) == 1 else f"{len(names)} classes"
        raise ValueError(
            f"{root} has {classes} ({', '.join(names)}), but two to train on and two to test are "
            f"needed; add vectors of others."
        )
    listing = Listing.in_order(
        vectors.root, files=(), labels=labels, names=names, train_classes=len(names) // 2
    )
    chosen = dataset_ref.train_classes, dataset_ref.test_classes
    if vectors.split and not any(chosen):
        train, test = divide_by_split(names, labels, vectors.split, path=root)
        listing = Listing(vectors.root, (), labels, names, train, test)
    return choose_halves(listing, *chosen)


def find_sources(root: Path) -> tuple[Source, ...]:
    """Return the files of features at this path, sorted by name. Raise ValueError if it has none.

    The labels of X.npy are in X.labels.npy or X.csv; those of a single .npy file may also be in
    labels.npy or labels.csv, all in the same folder.
    """
    if not root.exists():
        raise ValueError(f"There is no file or folder {root}.")
    if not root.is_dir():
        if root.suffix.lower() not in OPENERS:
            raise ValueError(
                f"features takes a {KINDS} file or a folder of them, but got {root}; save the "
                f"vectors as one of these."
            )
        files = [root]
    else:
        files = sorted(path for path in root.iterdir() if _holds_features(path))
        kinds = sorted({path.suffix.lower() for path in files})
        if not kinds:
            raise ValueError(f"The folder {root} has no {KINDS} file; give one that has.")
        if len(kinds) > 1:
            raise ValueError(
                f"The files of a folder must be of one kind, but {root} has {' and '.join(kinds)}; "
                f"keep one kind, or give a single file."
            )
    alone = len(files) == 1
    return tuple(
        Source(path, _beside(path, alone) if path.suffix.lower() == ".npy" else None)
        for path in files
    )


def _holds_features(path: Path) -> bool:
    labels = path.name.lower() == "labels.npy" or path.name.lower().endswith(".labels.npy")
    hidden = path.name.startswith(".")
    return not labels and not hidden and path.suffix.lower() in OPENERS and path.is_file()


def _beside(path: Path, alone: bool) -> Path:
    """Return the file with the labels of a .npy file: one named after it, before labels.*."""
    own = [path.with_suffix(".labels.npy"), path.with_suffix(".csv")]
    shared = [path.with_name("labels.npy"), path.with_name("labels.csv")] if alone else []
    for names in (own, shared):
        found = [name for name in names if name.is_file()]
        if len(found) > 1:
            raise ValueError(
                f"{path} must have its labels in one file, but {found[0].name} and "
                f"{found[1].name} are beside it; remove one."
            )
        if found:
            return found[0]
    wanted = " or ".join(name.name for name in (*own, *shared))
    raise ValueError(f"{path} needs its labels beside it: {wanted}, but there is none.")


def _state(sources: Sequence[Source]) -> State:
    files = [file for each in sources for file in (each.features, each.labels) if file]
    stats = [(file, file.stat()) for file in files]
    return tuple((str(file), stat.st_size, stat.st_mtime_ns) for file, stat in stats)


@cache
def _read(root: Path, sources: tuple[Source, ...], state: State) -> Vectors:
    files = [open_source(source) for source in sources]
    _check_alike(root, files)
    folder = home() / "vectors" / f"features-{fingerprint([VERSION, state])[:16]}"
    in_place = files[0].mapped if len(files) == 1 else None
    if not folder.exists():
        with explain_disk_errors(folder.parent):
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(folder.with_suffix(".lock")):
                if not folder.exists():  # while this one waited, another process did it
                    _build(files, folder, convert=in_place is None)
    rows = np.load(folder / "rows.npy", mmap_mode="r") if in_place is None else in_place
    return Vectors(
        root if root.is_dir() else root.parent,
        rows,
        labels=tuple(label for file in files for label in file.labels),
        split=tuple(side for file in files for side in file.split),
        ids=tuple(each for file in files for each in file.ids),
        pictures=tuple(picture for file in files for picture in file.pictures),
        digest=json.loads((folder / "checked.json").read_text())["sha256"],
    )


def _check_alike(root: Path, files: Sequence[FeatureFile]) -> None:
    """Raise ValueError unless all files have vectors of one size and the same columns."""
    first = files[0]
    for file in files[1:]:
        if file.size != first.size:
            raise ValueError(
                f"All vectors must have the same size, but those of {first.path} have "
                f"{first.size} numbers and those of {file.path} {file.size}; make them with one "
                f"model."
            )
        for name, column in (("split", "split"), ("ids", "id"), ("pictures", "image")):
            if bool(getattr(file, name)) != bool(getattr(first, name)):
                raise ValueError(
                    f"All files of {root} must have the same columns, but only some have {column}: "
                    f"compare {first.path.name} and {file.path.name}, and give it to all or none."
                )


def _build(files: Sequence[FeatureFile], folder: Path, *, convert: bool) -> None:
    """Check everything, into a folder beside this one, and rename that when it is complete."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
    unfinished.mkdir()
    digest = hashlib.sha256()
    try:
        with ExitStack() as stack:
            target = stack.enter_context((unfinished / "rows.npy").open("wb")) if convert else None
            if target:
                shape = (sum(file.rows for file in files), files[0].size)
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_1_0(target, header)
            for block in (block for file in files for block in _checked(file)):
                digest.update(block.data)
                if target:
                    target.write(block.data)
            if target:
                target.flush()
                os.fsync(target.fileno())
        (unfinished / "checked.json").write_text(json.dumps({"sha256": digest.hexdigest()}))
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _checked(file: FeatureFile) -> Iterator[Rows]:
    """Yield the rows of a file as float32. Raise ValueError after the last one if some cannot be
    compared with others.
    """
    wrong: dict[str, list[int]] = {problem: [] for problem in PROBLEMS}
    start = 0
    for block in file.blocks():
        with np.errstate(over="ignore", invalid="ignore"):
            rows = np.ascontiguousarray(block, dtype="<f4")
            lengths = np.linalg.norm(rows, axis=1)
        finite = np.isfinite(block).all(axis=1)
        found = ~finite, finite & (lengths < SHORTEST), finite & ~np.isfinite(lengths)
        for numbers, bad in zip(wrong.values(), found, strict=True):
            numbers += (start + np.flatnonzero(bad)).tolist()
        start += len(rows)
        yield rows
    for problem, numbers in wrong.items():
        if numbers:
            raise ValueError(
                f"Vectors are compared by their direction, but {len(numbers):,} of {file.rows:,} "
                f"in {file.path} {problem} (the first is row {numbers[0]}, counted from 0); "
                f"{PROBLEMS[problem]}."
            )
