"""Extract .tar, .tgz and .zip safely: inside the folder, within the free space, all or nothing."""

import gzip
import lzma
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path, PurePosixPath, PureWindowsPath

from trainables.fetch import ProgressCallback, explain_disk_errors

DAMAGED = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    RuntimeError,  # a password, or a method of compression that zipfile does not know
)


def extract(archive: Path, folder: Path, progress: ProgressCallback | None = None) -> Path:
    """Extract the archive into `folder`, completely or not at all, and return the folder.

    This replaces an older folder. Raise ValueError if the archive is damaged or unsafe.
    """
    unpack = _kind(archive)
    part = folder.with_name(folder.name + ".part")
    with explain_disk_errors(folder.parent):
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            unpack(archive, part, progress or (lambda done, total: None))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        except tarfile.FilterError as error:
            raise ValueError(f"{archive} is not safe to extract: {error}.") from None
        except DAMAGED as error:
            raise ValueError(
                f"{archive} is damaged or incomplete ({error or type(error).__name__}); fetch it "
                f"again."
            ) from None
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return folder


def _kind(archive: Path) -> Callable[[Path, Path, ProgressCallback], None]:
    if zipfile.is_zipfile(archive):
        return _unzip
    try:
        with tarfile.open(archive):
            return _untar
    except DAMAGED:
        raise ValueError(
            f"{archive} is not an archive that can be read (.tar, .tar.gz, .tgz or .zip), or it is "
            f"damaged."
        ) from None


def _untar(archive: Path, part: Path, progress: ProgressCallback) -> None:
    size, free, needs = archive.stat().st_size, shutil.disk_usage(part).free, 0
    with archive.open("rb") as raw, tarfile.open(fileobj=raw) as tar:
        # A plain .tar that was cut between two members looks complete; check_counts() notices.
        for member in tar:
            needs += member.size
            _check_space(archive, needs, free)
            # The filter refuses absolute paths, .., devices, and links that lead out.
            tar.extract(member, part, filter="data")
            progress(raw.tell(), size)


def _unzip(archive: Path, part: Path, progress: ProgressCallback) -> None:
    with zipfile.ZipFile(archive) as opened:
        members = opened.infolist()
        total, done = sum(member.file_size for member in members), 0
        _check_space(archive, total, shutil.disk_usage(part).free)
        for member in members:
            _check_inside(archive, member)
        for member in members:
            opened.extract(member, part)  # at most file_size bytes, so the sum above is a bound
            done += member.file_size
            progress(done, total)


def _check_space(archive: Path, needs: int, free: int) -> None:
    if needs > free:
        raise OSError(
            f"{archive} unpacks to {needs / 1e9:.1f} GB or more, but only {free / 1e9:.1f} GB are "
            f"free; free some space."
        )


def _check_inside(archive: Path, member: zipfile.ZipInfo) -> None:
    """Refuse members that lead out of the folder; zipfile would quietly rename them."""
    path, windows = PurePosixPath(member.filename), PureWindowsPath(member.filename)
    if path.is_absolute() or windows.anchor or ".." in (*path.parts, *windows.parts):
        raise ValueError(
            f"{archive} is not safe to extract: {member.filename!r} leads out of its folder."
        )
    if stat.S_ISLNK(member.external_attr >> 16):
        raise ValueError(
            f"{archive} is not safe to extract: {member.filename!r} is a symbolic link."
        )
