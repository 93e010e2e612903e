"""List and remove what this machine keeps to save work: pixels, features, vectors and weights."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from search_spaces import pick
from trainables.datasets import pixels
from trainables.fetch import home
from trainables.inputs import feature_cache

KINDS = ("pixels", "features", "vectors", "weights")  # folders below home()
LEFTOVERS = (".unfinished", ".parts", ".part")  # of what a killed process was making
LOCK = ".lock"
ALL, UNFINISHED = "all", "unfinished"  # what find_caches() takes in place of a name


@dataclass(frozen=True)
class Cached:
    """Describe something that this machine keeps and can make or fetch again.

    used: when it was last read, in seconds since 1970; on disks that do not note reading, when it
    was written.
    """

    name: str  # KIND/FILE below home()
    holds: str
    bytes: int
    used: float
    finished: bool
    in_work: bool  # a process is making it now

    @property
    def path(self) -> Path:
        """Return its file or folder."""
        return home() / self.name


def list_caches() -> list[Cached]:
    """Return all that this machine keeps, by kind and name."""
    return [
        _describe(kind, path)
        for kind in KINDS
        if (home() / kind).is_dir()
        for path in sorted((home() / kind).iterdir())
        if not path.name.endswith(LOCK) and not path.name.startswith(".")
    ]


def find_caches(name: str) -> list[Cached]:
    """Return the cache of this name, all of them, or what killed processes left unfinished.

    Raise ValueError if there is none of this name.
    """
    found = list_caches()
    if name == ALL:
        return found
    if name == UNFINISHED:
        return [each for each in found if not each.finished and not each.in_work]
    if not found:
        raise ValueError(f"There is no cache '{name}': {home()} has none.")
    return [pick({each.name: each for each in found}, name, "cache")]


def remove(cached: Cached) -> None:
    """Remove a cache; studies that need it make or fetch it again.

    Raise ValueError if a process is making it now. A process that reads it keeps what it has open.
    """
    lock = _lock(cached.path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"A cache can be removed while nobody makes it, but a process is at work on "
            f"{cached.name}; wait until it is finished, or end that process."
        ) from None
    try:
        if cached.path.is_dir():
            # A folder that is half removed must not be taken for a whole one.
            gone = cached.path.with_name(_whole_name(cached.path.name) + LEFTOVERS[0])
            if gone != cached.path:
                shutil.rmtree(gone, ignore_errors=True)
                cached.path.rename(gone)
            shutil.rmtree(gone)
        else:
            cached.path.unlink(missing_ok=True)
    finally:
        lock.release()


def _whole_name(name: str) -> str:
    """Return the name that a leftover would have got."""
    return next((name.removesuffix(end) for end in LEFTOVERS if name.endswith(end)), name)


def _lock(path: Path) -> FileLock:
    """Return the lock of whoever makes it."""
    return FileLock(path.with_name(_whole_name(path.name) + LOCK))


def _is_locked(path: Path) -> bool:
    lock = _lock(path)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=0):
            return False
    except Timeout:
        return True


def _describe(kind: str, path: Path) -> Cached:
    stats = [file.stat() for file in _files(path)]
    # Listing reads the small files, so the largest one tells when a study last did.
    largest = max(stats, key=lambda stat: stat.st_size, default=path.stat())
    finished, in_work = path.name == _whole_name(path.name), _is_locked(path)
    return Cached(
        f"{kind}/{path.name}",
        HOLDS[kind](path) if finished else f"unfinished {kind}, {_fate(path, in_work)}",
        sum(stat.st_size for stat in stats),
        max(largest.st_atime, largest.st_mtime),
        finished,
        in_work,
    )


def _fate(path: Path, in_work: bool) -> str:
    if in_work:
        return "which a process is making now"
    if path.name.endswith(LEFTOVERS[0]):
        return "left by a process that was killed"
    return "left by a process that was killed; the next one continues there"


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
    for folder, _, names in os.walk(path):
        yield from (Path(folder) / name for name in names)


def _pixels(path: Path) -> str:
    """Return what the name and the shapes tell; older caches do not say whose images they hold."""
    name = re.fullmatch(r"(.+)-(\d+(?:x\d+)?)-[0-9a-f]{16}(-\d+)?", path.name)
    if not name or not (path / pixels.SHAPES).exists():
        return "images"
    count = np.load(path / pixels.SHAPES, allow_pickle=False).prod(axis=1).astype(bool).sum()
    root = _read(path / pixels.ABOUT).get("root")
    return f"{count:,} images of {name[1]} at {name[2]} pixels" + (f", from {root}" if root else "")


def _features(path: Path) -> str:
    about = _read(path / feature_cache.ABOUT)
    if not about or not (path / feature_cache.IDS).exists():
        return "features"
    count = len(np.load(path / feature_cache.IDS, mmap_mode="r", allow_pickle=False))
    view, side = about["view"], about["transform"]["image_size"]
    crop = "centre crops" if view is None else f"view {view + 1}"
    return (
        f"features of {count:,} images of {about['dataset']} at {side} pixels through "
        f"{about['backbone']}, {crop}"
    )


def _vectors(path: Path) -> str:
    converted = (path / "rows.npy").exists()
    return "vectors of your own, converted" if converted else "the check of your own vectors"


def _weights(path: Path) -> str:
    return "fetched weights"


HOLDS = {"pixels": _pixels, "features": _features, "vectors": _vectors, "weights": _weights}


def _read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file; nothing if there is none."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
