"""Write and read a prepared dataset's manifest: every file with its label, size and SHA-256."""

import hashlib
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trainables.datasets.listing import Listing
from trainables.fetch import ProgressCallback, explain_disk_errors, hash_file, home

VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """Hold what was found when the dataset was prepared."""

    dataset: str
    listing: Listing
    sizes: tuple[int, ...]  # bytes
    hashes: tuple[str, ...]  # SHA-256

    def content(self) -> dict[str, Any]:
        """Return everything but the folder that holds the dataset."""
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
        """Return the SHA-256 of the content."""
        return fingerprint(self.content())


def fingerprint(content: Any) -> str:
    """Return the SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def dataset_folder(dataset: str) -> Path:
    """Return the folder on this node that holds a prepared dataset."""
    return home() / "datasets" / dataset


def manifest_path(dataset: str) -> Path:
    """Return where the dataset's manifest is, or will be."""
    return dataset_folder(dataset) / "manifest.json"


def write_manifest(manifest: Manifest) -> Path:
    """Write the manifest in one step: a reader finds the old one or the new one."""
    target = manifest_path(manifest.dataset)
    head = {
        "version": VERSION,
        "fingerprint": manifest.fingerprint,
        "root": str(manifest.listing.root),
    }
    text = json.dumps({**head, **manifest.content()}, indent=0)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    with explain_disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
    return target


def read_manifest(dataset: str) -> Manifest:
    """Return the manifest of a prepared dataset.

    Raise FileNotFoundError if there is none, and ValueError if it is damaged, belongs to another
    dataset, or lists files that are gone.
    """
    path = manifest_path(dataset)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["version"] != VERSION:
            raise ValueError(f"version {data['version']}, where {VERSION} is read")
        if data["dataset"] != dataset:
            raise ValueError(f"it is that of {data['dataset']}")
        files, labels, sizes, hashes = (
            tuple(column) for column in zip(*data["files"], strict=True)
        )
        listing = Listing(
            Path(data["root"]),
            files,
            labels,
            tuple(data["names"]),
            tuple(data["train"]),
            tuple(data["test"]),
        )
        manifest = Manifest(dataset, listing, sizes, hashes)
        if manifest.fingerprint != data["fingerprint"]:
            raise ValueError("its content does not give its fingerprint")
    except FileNotFoundError:
        raise
    # JSON and UTF-8 errors are ValueErrors.
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = str(error) if type(error) is ValueError else "it is damaged"
        raise ValueError(
            f"{path} is not a valid manifest of {dataset} ({reason}); {_command(dataset)} writes a "
            f"new one."
        ) from None
    _check_ends(manifest)
    return manifest


def _check_ends(manifest: Manifest) -> None:
    """Look only at the first and the last file; `fairtrial data check` reads all."""
    root, files = manifest.listing.root, manifest.listing.files
    if not root.is_dir():
        raise ValueError(
            f"{manifest.dataset} was prepared from {root}, but that folder is gone; bring it back, "
            f"or run {_command(manifest.dataset)}."
        )
    for i in (0, -1):
        file = root / files[i]
        if not file.is_file() or file.stat().st_size != manifest.sizes[i]:
            raise ValueError(
                f"{file} is gone or was changed since {manifest.dataset} was prepared; run "
                f"{_command(manifest.dataset)}."
            )


def _command(dataset: str) -> str:
    return f"`fairtrial data prepare {dataset} --from PATH`"


def make_manifest(dataset: str, listing: Listing, progress: ProgressCallback) -> Manifest:
    """Read all these files and return their manifest. Raise ValueError if some are missing."""
    missing = [file for file in listing.files if not (listing.root / file).is_file()]
    if missing:
        raise ValueError(
            f"{len(missing):,} of the {len(listing.files):,} images of {dataset} are not in "
            f"{listing.root}; the first is {missing[0]}."
        )
    sizes = tuple((listing.root / file).stat().st_size for file in listing.files)
    return Manifest(dataset, listing, sizes, _hashes(listing.root, listing.files, progress))


def _hashes(root: Path, files: Sequence[str], progress: ProgressCallback) -> tuple[str, ...]:
    found: list[str] = []
    pool = ThreadPoolExecutor(os.cpu_count())  # hashing and reading release the interpreter's lock
    try:
        for hashed in pool.map(lambda file: hash_file(root / file), files):
            found.append(hashed)
            progress(len(found), len(files))
    finally:
        pool.shutdown(cancel_futures=True)  # Ctrl-C does not wait for the rest
    return tuple(found)
