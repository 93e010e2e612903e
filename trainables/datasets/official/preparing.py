"""Prepare a dataset: fetch or find it, recognise its layout, count, hash, write its manifest."""

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from search_spaces.space import pick
from trainables.datasets.catalogue import DATASETS, check_counts, how_to_get
from trainables.datasets.indexing import index
from trainables.datasets.manifest import (
    Manifest,
    dataset_folder,
    make_manifest,
    read_manifest,
    write_manifest,
)
from trainables.datasets.official.archives import extract
from trainables.datasets.official.layouts import LAYOUTS, read_layout
from trainables.fetch import ProgressCallback, download, explain_disk_errors

# (what begins now, its unit: bytes or images) -> the callback that its progress goes to
Stages = Callable[[str, str], ProgressCallback]


def is_prepared(name: str) -> bool:
    """Return whether what an earlier prepare_dataset() wrote is still valid."""
    try:
        check_counts(name, read_manifest(name).listing)
    except (FileNotFoundError, ValueError):
        return False
    return True


def prepare_dataset(name: str, path: Path | None, stages: Stages) -> Manifest:
    """Write and return the manifest of the dataset at path, or download it if there is no path.

    A folder stays where it is; an archive is extracted into home().
    """
    info = pick(DATASETS, name, "dataset")
    if name not in LAYOUTS:
        where = (
            "ships with Fair Trial"
            if info.pixels
            else f"is read where it lies; `fairtrial data check {name} --root PATH` looks at it"
        )
        raise ValueError(f"There is nothing to prepare: {name} {where}.")
    if path is None and info.url is None:
        raise ValueError(f"{name} is not here yet: {how_to_get(name)}")
    if path is not None and not path.exists():
        raise ValueError(f"There is no {path}; --from takes {info.wanted}.")
    folder = dataset_folder(name)
    with explain_disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=0):
            done = _take(name, path.absolute(), stages) if path else _fetch(name, stages)
    except Timeout:
        raise ValueError(
            f"Another `fairtrial data prepare {name}` is running; wait for it to end."
        ) from None
    index.cache_clear()
    return done


def _fetch(name: str, stages: Stages) -> Manifest:
    info = DATASETS[name]
    assert info.url is not None
    unpacked = dataset_folder(name) / "files"
    if unpacked.exists():  # an earlier prepare was interrupted while it hashed
        try:
            return _write(name, unpacked, stages)
        except ValueError:
            shutil.rmtree(unpacked)
    archive = dataset_folder(name) / info.url.rsplit("/", 1)[1]
    progress = stages(f"fetching {archive.name}", "bytes")
    download(info.url, archive, checksum=info.checksum, progress=progress)
    done = _take(name, archive, stages)
    archive.unlink()  # we downloaded it, and it takes as much space as the files in it
    return done


def _take(name: str, path: Path, stages: Stages) -> Manifest:
    if path.is_dir():
        return _write(name, path, stages)
    progress = stages(f"extracting {path.name}", "bytes")
    unpacked = extract(path, dataset_folder(name) / "files", progress)
    try:
        return _write(name, unpacked, stages)
    except ValueError:
        shutil.rmtree(unpacked)
        raise


def _write(name: str, folder: Path, stages: Stages) -> Manifest:
    listing = read_layout(name, folder, DATASETS[name].train_classes or 0)
    check_counts(name, listing)
    manifest = make_manifest(name, listing, stages("hashing", "images"))
    write_manifest(manifest)
    return manifest
