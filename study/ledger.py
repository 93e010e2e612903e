"""The ledger: every trial, row and end of a study, one JSON line each, from which a study is rebuilt whatever happens to its processes."""

from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

Event = dict[str, Any]
LEDGER = "ledger.jsonl"


class Ledger:
    """Append-only. A line counts once it is on the disk with its end; what a crash left of a line is cut off by the next driver.

    After a write that failed it takes nothing more: what it holds stays the true beginning of the story. failure: what went wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.news = threading.Condition()
        self.failure: OSError | None = None
        self.size = _whole(path)
        self.file = path.open("ab", buffering=0)
        self.file.truncate(self.size)

    def note(self, event: str, **values: Any) -> Event:
        told: Event = {"event": event, "at": int(time.time() * 1000), **values}
        line = json.dumps(told, separators=(",", ":")).encode() + b"\n"
        with self.news:
            if not self.failure:
                self._write(line)
            self.news.notify_all()
        return told

    def _write(self, line: bytes) -> None:
        try:
            if os.fstat(self.file.fileno()).st_size != self.size:
                raise OSError(errno.EBUSY, "another driver has written to it", str(self.path))
            if self.file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
            os.fsync(self.file.fileno())
            self.size += len(line)
        except OSError as error:
            self.failure = OSError(error.errno, error.strerror, str(self.path))
            if error.errno != errno.EBUSY:
                with suppress(OSError):  # a disk that is read-only or broken refuses this, too; half a line does not count anyway
                    self.file.truncate(self.size)

    def close(self) -> None:
        self.file.close()


def _whole(path: Path) -> int:
    """The bytes of all lines that have their end."""
    try:
        return path.read_bytes().rfind(b"\n") + 1
    except (FileNotFoundError, NotADirectoryError):
        return 0


def read(path: Path, start: int = 0, end: int | None = None) -> Iterator[tuple[Event, int]]:
    """Every event from this byte on, and the byte after it; end: of what counts. ValueError: a line is broken, which no crash does."""
    try:
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return
    with file:
        file.seek(start)
        for line in file:
            if not line.endswith(b"\n") or (end is not None and start >= end):  # torn, or still being written
                return
            start += len(line)
            try:
                event: Event = json.loads(line)
            except ValueError:
                raise ValueError(f"{path} is broken before byte {start}: no crash does that; put back a copy of it.") from None
            yield event, start


def events(folder: Path) -> list[Event]:
    """All that a study's ledger tells so far; nothing if there is none."""
    return [event for event, _ in read(folder / LEDGER)]
