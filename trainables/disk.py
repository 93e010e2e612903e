"""Files that a power loss leaves as they were or as they are to be: on the disk before they are named."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """The old file or the new one, whatever happens in between."""
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(text)
    settle(draft)
    draft.replace(path)
    settle(path.parent)


def link(file: Path, target: Path) -> None:
    """The same file under a second name, which takes no room; a copy where the file system has no links."""
    draft = target.with_name(f"{target.name}.new")
    draft.unlink(missing_ok=True)
    try:
        os.link(file, draft)
    except OSError:
        shutil.copyfile(file, draft)
    settle(draft)
    draft.replace(target)
    with suppress(FileNotFoundError):
        draft.unlink()  # a rename between two names of one file does nothing


def settle(path: Path) -> None:
    """Returns when the file, or the names in the folder, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
