"""Files from outside: where they live on this node, and resumable, checked downloads."""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

CHUNK = 2**20  # bytes
TIMEOUT = 30  # seconds without a byte

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all if known


def home() -> Path:
    """Datasets, decoded images and weights of this node: $FAIRTRIAL_DATA, or the user's cache folder."""
    chosen = os.environ.get("FAIRTRIAL_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen).absolute() if chosen else Path(cache) / "fairtrial"


def download(url: str, target: Path, *, checksum: str, progress: Progress | None = None) -> Path:
    """The file behind url, at target. checksum is 'md5:...' or 'sha256:...'; a prefix of the digest is enough.

    What an interrupted download left in target.part is taken up where it ended. ConnectionError: no network, or no such file
    there. ValueError: it came, but is not what it should be.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        _transfer(url, part, progress)
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise ConnectionError(
            f"{url} could not be fetched ({getattr(error, 'reason', error)}); fetch it elsewhere and put it at {target}."
        ) from None
    verify(part, checksum)
    part.replace(target)
    return target


def _transfer(url: str, part: Path, progress: Progress | None) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # nothing is left to fetch
            return
        raise
    with answer:
        if have and answer.status != 206:  # the server does not resume: from the start
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as file:
            while block := answer.read(CHUNK):
                file.write(block)
                have += len(block)
                if progress:
                    progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have} of {total} bytes")


def verify(path: Path, checksum: str) -> None:
    """A ValueError, and the file is gone, unless it is what it should be."""
    kind, _, wanted = checksum.partition(":")
    with path.open("rb") as file:
        found = hashlib.file_digest(file, kind).hexdigest()
    if not found.startswith(wanted):
        path.unlink()
        raise ValueError(
            f"{path.name} has the {kind} {found[:16]}..., but should have {wanted[:16]}...: it was damaged or replaced on the way; fetch it again."
        )
