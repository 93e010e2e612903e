"""Append a study's events to its ledger, each on the disk before its effect, and read them back."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from analysis.record.checksums import chained, checked, sum_at
from analysis.record.commands import command
from analysis.record.events import AnyEvent, BrokenLine, decode, encode

LEDGER = "ledger.jsonl"
AnEvent = TypeVar("AnEvent", bound=AnyEvent)


class Ledger:
    """Append events to a study's ledger.

    A line counts once it is on the disk with its line end; the next driver cuts off what a crash
    left of a line. After a failed write the ledger takes nothing more, so that it holds the true
    beginning of the story; `failure` says what went wrong. Each line carries a checksum of itself
    and all lines before it.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / LEDGER
        self.news = threading.Condition()  # notified after every event
        self.failure: OSError | None = None
        self.size = whole_bytes(self.path)
        self.sum = sum_at(self.path, self.size)
        self.file = self.path.open("ab", buffering=0)
        self.file.truncate(self.size)

    def append(self, event: AnEvent) -> AnEvent:
        """Write the event and return it once it is on the disk."""
        with self.news:
            if not self.failure:
                line, total = chained(encode(event), self.sum)
                self._write(line)
                self.sum = total
            self.news.notify_all()
        return event

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
                # A read-only or broken disk also refuses this; half a line does not count.
                with suppress(OSError):
                    self.file.truncate(self.size)

    def close(self) -> None:
        self.file.close()


class LedgerReader:
    """Read a study's ledger, and later only what is new. offset: how far it has read."""

    def __init__(self, folder: Path, offset: int = 0) -> None:
        self.path, self.offset = folder / LEDGER, offset
        self.sum = sum_at(self.path, offset)

    def read(self, *, limit: int | None = None, end: int | None = None) -> list[AnyEvent]:
        """Return the events since the last call, at most `limit`, none at or after byte `end`.

        Raise ValueError if a line is broken or was changed, which no crash does, or if another
        version wrote it.
        """
        found: list[AnyEvent] = []
        try:
            file = self.path.open("rb")
        except (FileNotFoundError, NotADirectoryError):
            return found
        with file:
            file.seek(self.offset)
            for line in file:
                torn = not line.endswith(b"\n")  # or still being written
                if torn or len(found) == limit or (end is not None and self.offset >= end):
                    break
                try:
                    event, total = decode(line), checked(line, self.sum)
                except ValueError as error:
                    raise ValueError(
                        f"{self.path} cannot be read at byte {self.offset}: {error}"
                        f"{self._cure() if isinstance(error, BrokenLine) else '.'}"
                    ) from None
                found.append(event)
                self.offset, self.sum = self.offset + len(line), total
        return found

    def _cure(self) -> str:
        repair = command(f"repair {self.path.parent.name}", self.path.parent.parent)
        return f"; `{repair}` cuts it off there, and the study can be resumed."


def has_begun(folder: Path) -> bool:
    """Return whether the folder has a ledger with at least one whole line."""
    return whole_bytes(folder / LEDGER) > 0


def whole_bytes(path: Path) -> int:
    """Return the length of a ledger without what a crash left of its last line."""
    try:
        with path.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while end:
                start = max(0, end - 65536)
                file.seek(start)
                found = file.read(end - start).rfind(b"\n")
                if found >= 0:
                    return start + found + 1
                end = start
    except (FileNotFoundError, NotADirectoryError):
        pass
    return 0
