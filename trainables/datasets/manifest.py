"""The manifest of a prepared dataset: every file with its label, size and SHA-256, in home()/datasets/NAME/manifest.json."""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trainables.datasets.layouts import Listing
from trainables.fetch import Progress, home, room

VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """What was found when the dataset was prepared."""

    dataset: str
    listing: Listing
    sizes: tuple[int, ...]  # bytes
    hashes: tuple[str, ...]  # SHA-256

    def content(self) -> dict[str, Any]:
        """All but where it lies."""
        listing = self.listing
        return {
            "dataset": self.dataset,
            "names": listing.names,
            "train": listing.train,
            "test": listing.test,
            "files": list(zip(listing.files, listing.labels, self.sizes, self.hashes, strict=True)),
        }

    @cached_property
    def fingerprint(self) -> str:
        return fingerprint(self.content())


def fingerprint(content: Any) -> str:
    """The SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def folder(dataset: str) -> Path:
    return home() / "datasets" / dataset


def path(dataset: str) -> Path:
    return folder(dataset) / "manifest.json"


def write(manifest: Manifest) -> Path:
    """In one step: a reader finds the old one or the new one."""
    target = path(manifest.dataset)
    head = {"version": VERSION, "fingerprint": manifest.fingerprint, "root": str(manifest.listing.root)}
    text = json.dumps({**head, **manifest.content()}, indent=0)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with room(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return target


def read(dataset: str) -> Manifest:
    """FileNotFoundError: there is none. ValueError: it is damaged, or not this dataset's, or what it lists is gone."""
    place = path(dataset)
    try:
        data = json.loads(place.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}, where {VERSION} is read")
        if data["dataset"] != dataset:
            raise ValueError(f"it is that of {data['dataset']}")
        files, labels, sizes, hashes = (tuple(column) for column in zip(*data["files"], strict=True))
        listing = Listing(Path(data["root"]), files, labels, tuple(data["names"]), tuple(data["train"]), tuple(data["test"]))
        manifest = Manifest(dataset, listing, sizes, hashes)
        if manifest.fingerprint != data["fingerprint"]:
            raise ValueError("its content does not give its fingerprint")
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:  # ValueError: also JSON and UTF-8
        reason = str(error) if type(error) is ValueError else "it is damaged"
        raise ValueError(f"{place} is no good manifest of {dataset} ({reason}); {_again(dataset)} writes it anew.") from None
    _look(manifest)
    return manifest


def _look(manifest: Manifest) -> None:
    """Cheap: the first and the last file. `fairtrial data check` reads all."""
    root, files = manifest.listing.root, manifest.listing.files
    if not root.is_dir():
        raise ValueError(
            f"{manifest.dataset} was prepared from {root}, but that folder is gone; bring it back, or {_again(manifest.dataset)}."
        )
    for at in (0, -1):
        file = root / files[at]
        if not file.is_file() or file.stat().st_size != manifest.sizes[at]:
            raise ValueError(f"{file} is gone or was changed since {manifest.dataset} was prepared; {_again(manifest.dataset)}.")


def _again(dataset: str) -> str:
    return f"`fairtrial data prepare {dataset} --from PATH`"


def digest(file: Path) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def take_down(dataset: str, listing: Listing, progress: Progress) -> Manifest:
    """The manifest of these files; all are read. ValueError: some are not there."""
    missing = [file for file in listing.files if not (listing.root / file).is_file()]
    if missing:
        raise ValueError(
            f"{len(missing):,} of the {len(listing.files):,} images of {dataset} are not in {listing.root}; the first is {missing[0]}."
        )
    sizes = tuple((listing.root / file).stat().st_size for file in listing.files)
    return Manifest(dataset, listing, sizes, _hashes(listing.root, listing.files, progress))


def _hashes(root: Path, files: Sequence[str], progress: Progress) -> tuple[str, ...]:
    found: list[str] = []
    pool = ThreadPoolExecutor(os.cpu_count())  # hashing and reading leave the interpreter's lock alone
    try:
        for hashed in pool.map(lambda file: digest(root / file), files):
            found.append(hashed)
            progress(len(found), len(files))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest
    return tuple(found)
