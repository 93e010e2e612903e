"""Chain the lines of a ledger: each carries a checksum of itself and of all lines before it."""

from __future__ import annotations

import re
from hashlib import blake2b
from pathlib import Path

from analysis.record.events import BrokenLine

_FIELD = re.compile(rb',"sum":"([0-9a-f]{16})"}\n$')
_LENGTH = len(',"sum":""}\n') + 16


def chained(event: bytes, before: str) -> tuple[bytes, str]:
    """Return an encoded event as a line with its checksum, and the checksum.

    before: the checksum of the line before; empty before the first.
    """
    total = _sum(event, before)
    return b'%b,"sum":"%b"}\n' % (event[:-1], total.encode()), total


def checked(line: bytes, before: str) -> str:
    """Return the checksum of a line. Raise BrokenLine if it does not fit line and predecessors.

    Lines that were written before there were checksums have none; they come before all others.
    """
    found = _FIELD.search(line)
    if not found:
        if before:
            raise BrokenLine("the line has no checksum, but the one before has")
        return ""
    total = found[1].decode()
    if total != _sum(line[: found.start()] + b"}", before):
        raise BrokenLine("the checksum does not fit: something was changed, added or removed")
    return total


def sum_at(path: Path, offset: int) -> str:
    """Return the checksum of the line that ends at this byte; empty if it has none."""
    if not offset:
        return ""
    try:
        with path.open("rb") as file:
            file.seek(max(0, offset - _LENGTH))
            found = _FIELD.search(file.read(min(offset, _LENGTH)))
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return found[1].decode() if found else ""


def _sum(event: bytes, before: str) -> str:
    return blake2b(before.encode() + event, digest_size=8).hexdigest()
