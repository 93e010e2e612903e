"""Write files so that a power loss leaves the old one or the new one: synced, then renamed."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Replace a file in one step: after any crash, the old one or the new one is there."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """Replace a file as replace_text() does."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_bytes(content)
    sync_to_disk(draft)
    draft.replace(path)
    sync_to_disk(path.parent)


def link(file: Path, target: Path) -> None:
    """Give a file a second name, which needs no space; copy it where the disk has no links."""
    draft = target.with_name(f"{target.name}.new")
    draft.unlink(missing_ok=True)
    try:
        os.link(file, draft)
    except OSError:
        shutil.copyfile(file, draft)
    sync_to_disk(draft)
    draft.replace(target)
    with suppress(FileNotFoundError):
        draft.unlink()  # a rename between two names of one file does nothing


def sync_to_disk(path: Path) -> None:
    """Wait until the file, or the names in the folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
