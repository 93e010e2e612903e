"""Safe extraction of .tar, .tgz and .zip: nothing leaves the folder, nothing fills the disk, nothing is left half done."""

import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

from trainables.fetch import Progress, room

DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,  # a password, or a method of compression that zipfile does not know
)


def extract(archive: Path, folder: Path, progress: Progress | None = None) -> Path:
    """The archive's files in `folder`, which is there completely or not at all; an older one is replaced. ValueError: a bad archive."""
    unpack = _kind(archive)
    part = folder.with_name(folder.name + ".part")
    with room(folder.parent):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            unpack(archive, part, progress or (lambda done, total: None))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        except tarfile.FilterError as error:
            raise ValueError(f"{archive} is not safe to extract: {error}.") from None
        except DAMAGED as error:
            raise ValueError(f"{archive} is damaged or incomplete ({error or type(error).__name__}); fetch it again.") from None
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def _kind(archive: Path) -> Callable[[Path, Path, Progress], None]:
    if zipfile.is_zipfile(archive):
        return _unzip
    try:
        with tarfile.open(archive):
            return _untar
    except DAMAGED:
        raise ValueError(f"{archive} is no archive that can be read (.tar, .tar.gz, .tgz or .zip), or it is damaged.") from None


def _untar(archive: Path, part: Path, progress: Progress) -> None:
    size, free, needs = archive.stat().st_size, shutil.disk_usage(part).free, 0
    with archive.open("rb") as raw, tarfile.open(fileobj=raw) as tar:
        for member in tar:  # a plain .tar that was cut between two members looks complete; the counts will tell
            needs += member.size
            _fits(archive, needs, free)
            tar.extract(member, part, filter="data")  # refuses absolute paths, .., devices, and links that lead out
            progress(raw.tell(), size)


def _unzip(archive: Path, part: Path, progress: Progress) -> None:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        total, done = sum(member.file_size for member in members), 0
        _fits(archive, total, shutil.disk_usage(part).free)
        for member in members:
            _inside(archive, member)
        for member in members:
            opened.extract(member, part)  # reads no more than file_size bytes, so the sum above is a bound
            done += member.file_size
            progress(done, total)


def _fits(archive: Path, needs: int, free: int) -> None:
    if needs > free:
        raise OSError(f"{archive} unpacks to {needs / 1e9:.1f} GB or more, but only {free / 1e9:.1f} GB are free; make room.")


def _inside(archive: Path, member: zipfile.ZipInfo) -> None:
    """zipfile would quietly rename such members; an archive that holds one is not what it says it is."""
    path, windows = PurePosixPath(member.filename), PureWindowsPath(member.filename)
    if path.is_absolute() or windows.anchor or ".." in (*path.parts, *windows.parts):
        raise ValueError(f"{archive} is not safe to extract: {member.filename!r} leads out of its folder.")
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ValueError(f"{archive} is not safe to extract: {member.filename!r} is a symbolic link.")
