"""Fetch files from outside: find their folder on this node, download, resume and verify."""

import errno
import hashlib
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CHUNK = 2**20  # bytes
TIMEOUT = 30  # seconds without a byte
TRIES = 5  # in a row; each continues where the last one ended
PAUSE = 2.0  # seconds between two tries

ProgressCallback = Callable[[int, int | None], None]  # done so far, and in all if known


def home() -> Path:
    """Return this node's folder for datasets, decoded images and weights.

    It is $FAIRTRIAL_DATA, or `fairtrial` in the user's cache folder.
    """
    chosen = os.environ.get("FAIRTRIAL_DATA")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(chosen).expanduser().absolute() if chosen else Path(cache) / "fairtrial"


def download(
    url: str, target: Path, *, checksum: str, progress: ProgressCallback | None = None
) -> Path:
    """Download the file at url to target, and return target.

    checksum is 'md5:...' or 'sha256:...'; a prefix of the digest is enough. An interrupted download
    resumes from target.part. A file that is already at target is used if its checksum matches.
    Raise ConnectionError without a network or such a file, ValueError if the checksum does not
    match, and OSError if the disk is full or not writable.
    """
    if target.exists():
        verify(target, checksum, f"remove {target} and try again")
        return target
    part = target.with_name(target.name + ".part")
    with explain_disk_errors(target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    try:
        _transfer_with_retries(url, part, progress)
    except ConnectionError as error:
        raise ConnectionError(
            f"{url} could not be fetched ({error}); try again later, or put the file at {target} "
            f"yourself."
        ) from None
    try:
        verify(part, checksum, "it was damaged or replaced on the way; try again")
    except ValueError:
        part.unlink()
        raise
    part.replace(target)
    return target


@contextmanager
def explain_disk_errors(folder: Path) -> Iterator[None]:
    """Turn errors of a full or read-only disk into sentences that say what to do."""
    try:
        yield
    except ConnectionError:
        raise
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise OSError(
                f"The disk of {folder} is full; free some space, or choose another folder with "
                f"FAIRTRIAL_DATA=FOLDER."
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST):
            raise OSError(
                f"{folder} is not writable ({error.strerror}); choose another folder with "
                f"FAIRTRIAL_DATA=FOLDER."
            ) from None
        raise


def _transfer_with_retries(url: str, part: Path, progress: ProgressCallback | None) -> None:
    """Try again while each try adds bytes; a try that adds none means that there is no network."""
    for last in (*[False] * (TRIES - 1), True):
        before = _size(part)
        try:
            _transfer(url, part, progress)
            return
        except ConnectionError:
            if last or _size(part) <= before:
                raise
        time.sleep(PAUSE)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _transfer(url: str, part: Path, progress: ProgressCallback | None) -> None:
    have = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # nothing is left to fetch
            return
        raise ConnectionError(f"the server says {error.code} {error.reason}") from None
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            str(getattr(error, "reason", error)) or type(error).__name__
        ) from None
    with answer:
        if have and not _resumes(answer, have):  # ftp, and some servers: from the start
            have = 0
        length = answer.headers.get("Content-Length")
        total = have + int(length) if length else None
        free = shutil.disk_usage(part.parent).free
        if total is not None and total - have > free:
            raise OSError(
                f"{url} needs {(total - have) / 1e9:.1f} GB, but {part.parent} has "
                f"{free / 1e9:.1f} GB free; free some space."
            )
        with explain_disk_errors(part.parent), part.open("ab" if have else "wb") as file:
            for block in _blocks(answer):
                file.write(block)
                have += len(block)
                if progress:
                    progress(have, total)
    if total is not None and have < total:
        raise ConnectionError(f"the connection ended after {have:,} of {total:,} bytes")


def _resumes(answer: IO[bytes], have: int) -> bool:
    span = re.match(r"bytes (\d+)-", answer.headers.get("Content-Range") or "")  # type: ignore[attr-defined]
    return getattr(answer, "status", None) == 206 and span is not None and int(span[1]) == have


def _blocks(answer: IO[bytes]) -> Iterator[bytes]:
    while True:
        try:
            block = answer.read(CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise ConnectionError(
                f"the connection broke: {error or type(error).__name__}"
            ) from None
        if not block:
            return
        yield block


def hash_file(path: Path, kind: str = "sha256") -> str:
    """Return the hex digest of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, kind).hexdigest()


def verify(path: Path, checksum: str, cure: str) -> None:
    """Raise ValueError, ending with the cure, unless the file has this checksum."""
    kind, _, wanted = checksum.partition(":")
    found = hash_file(path, kind)
    if not found.startswith(wanted):
        raise ValueError(
            f"{path.name} has the {kind} {found[:16]}..., but should have {wanted[:16]}...: {cure}."
        )
