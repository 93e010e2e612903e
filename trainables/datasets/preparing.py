"""Preparing a dataset: fetched or taken from where it lies, recognised, counted, hashed, and written down in its manifest."""

import shutil
from collections.abc import Callable
from pathlib import Path

from filelock import FileLock, Timeout

from search_spaces.space import pick
from trainables.datasets import manifest
from trainables.datasets.archives import extract
from trainables.datasets.catalogue import DATASETS, check_counts, how_to_get, index
from trainables.datasets.layouts import LAYOUTS, read_layout
from trainables.datasets.manifest import Manifest
from trainables.fetch import Progress, download, room

Stages = Callable[[str, str], Progress]  # what begins now and its unit (bytes or images) -> where its progress goes


def prepared(name: str) -> bool:
    """Whether an earlier prepare still holds."""
    try:
        check_counts(name, manifest.read(name).listing)
    except (FileNotFoundError, ValueError):
        return False
    return True


def prepare(name: str, given: Path | None, stages: Stages) -> Manifest:
    """The manifest, written. A folder that the user has stays where it is; an archive is extracted into home()."""
    source = pick(DATASETS, name, "dataset")
    if name not in LAYOUTS:
        where = (
            "ships with Fair Trial" if source.pixels else f"is read where it lies; `fairtrial data check {name} --root PATH` looks at it"
        )
        raise ValueError(f"There is nothing to prepare: {name} {where}.")
    if given is None and source.url is None:
        raise ValueError(f"{name} is not here yet: {how_to_get(name)}")
    if given is not None and not given.exists():
        raise ValueError(f"There is no {given}; --from takes {source.wanted}.")
    place = manifest.folder(name)
    with room(place):
        place.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(place / "lock", timeout=0):
            done = _take(name, given.absolute(), stages) if given is not None else _fetch(name, stages)
    except Timeout:
        raise ValueError(f"Another `fairtrial data prepare {name}` is at work; wait for it.") from None
    index.cache_clear()
    return done


def _fetch(name: str, stages: Stages) -> Manifest:
    source = DATASETS[name]
    assert source.url is not None
    unpacked = manifest.folder(name) / "files"
    if unpacked.exists():  # an earlier prepare was interrupted while it hashed
        try:
            return _write(name, unpacked, stages)
        except ValueError:
            shutil.rmtree(unpacked)
    archive = manifest.folder(name) / source.url.rsplit("/", 1)[1]
    download(source.url, archive, checksum=source.checksum, progress=stages(f"fetching {archive.name}", "bytes"))
    done = _take(name, archive, stages)
    archive.unlink()  # it was ours, and is as large as what came out of it
    return done


def _take(name: str, given: Path, stages: Stages) -> Manifest:
    if given.is_dir():
        return _write(name, given, stages)
    unpacked = extract(given, manifest.folder(name) / "files", stages(f"extracting {given.name}", "bytes"))
    try:
        return _write(name, unpacked, stages)
    except ValueError:
        shutil.rmtree(unpacked)
        raise


def _write(name: str, folder: Path, stages: Stages) -> Manifest:
    listing = read_layout(name, folder, DATASETS[name].train_classes or 0)
    check_counts(name, listing)
    done = manifest.take_down(name, listing, stages("hashing", "images"))
    manifest.write(done)
    return done
