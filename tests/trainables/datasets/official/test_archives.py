"""An archive gives its files or a sentence; an evil one writes nothing."""

from __future__ import annotations

import io
import shutil
import stat
import tarfile
import zipfile
from collections import namedtuple

import pytest

from tests.support import trees
from trainables.datasets.official import archives
from trainables.datasets.official.archives import extract

KINDS = ["tar", "tgz", "tar.gz", "tar.bz2", "tar.xz", "zip"]


def pack(folder, archive):
    """Write an archive as a user would."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(folder.rglob("*")):
                packed.write(path, path.relative_to(folder))
    else:
        kind = {".tgz": "gz", ".gz": "gz", ".bz2": "bz2", ".xz": "xz"}.get(archive.suffix, "")
        with tarfile.open(archive, f"w:{kind}") as packed:
            packed.add(folder, ".")
    return archive


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_its_files_and_tells_how_far_it_is(kind, tmp_path):
    folder = trees.folders(tmp_path / "in", ["Äpfel rot", "b"])
    calls = []
    out = extract(
        pack(folder, tmp_path / f"a b.{kind}"),
        tmp_path / "ö" / "out",
        lambda done, total: calls.append((done, total)),
    )
    assert sorted(path.relative_to(out) for path in out.rglob("*")) == sorted(
        path.relative_to(folder) for path in folder.rglob("*")
    )
    assert (out / "Äpfel rot" / "0.jpg").read_bytes() == (
        folder / "Äpfel rot" / "0.jpg"
    ).read_bytes()
    assert calls == sorted(calls)
    assert 0 < calls[-1][0] <= calls[-1][1]


def test_an_older_folder_is_replaced_as_a_whole(tmp_path):
    archive = pack(trees.folders(tmp_path / "in", ["a"]), tmp_path / "x.zip")
    trees.jpeg(tmp_path / "out" / "old.jpg")
    trees.jpeg(tmp_path / "out.part" / "half.jpg")  # a killed process left it
    assert sorted(path.name for path in extract(archive, tmp_path / "out").iterdir()) == ["a"]
    assert not (tmp_path / "out.part").exists()


def evil_tar(path, **fields):
    with tarfile.open(path, "w") as packed:
        good = tarfile.TarInfo("good.txt")
        packed.addfile(good, io.BytesIO())
        member = tarfile.TarInfo(fields.pop("name"))
        for key, value in fields.items():
            setattr(member, key, value)
        packed.addfile(member)
    return path


def evil_zip(path, name, mode=0):
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("good.txt", "x")
        member = zipfile.ZipInfo(name)
        member.external_attr = mode << 16
        packed.writestr(member, "/etc/passwd")
    return path


EVIL = {
    "tar-absolute-link": lambda p: evil_tar(
        p, name="x", type=tarfile.SYMTYPE, linkname="/etc/passwd"
    ),
    "tar-dots": lambda p: evil_tar(p, name="../evil.txt"),
    "tar-deep-dots": lambda p: evil_tar(p, name="a/../../evil.txt"),
    "tar-link-out": lambda p: evil_tar(p, name="x", type=tarfile.SYMTYPE, linkname="../../evil"),
    "tar-hard-link-out": lambda p: evil_tar(p, name="x", type=tarfile.LNKTYPE, linkname="../evil"),
    "tar-device": lambda p: evil_tar(p, name="x", type=tarfile.CHRTYPE),
    "zip-dots": lambda p: evil_zip(p, "../evil.txt"),
    "zip-deep-dots": lambda p: evil_zip(p, "a/../../evil.txt"),
    "zip-absolute": lambda p: evil_zip(p, "/evil.txt"),
    "zip-backslashes": lambda p: evil_zip(p, "..\\evil.txt"),
    "zip-drive": lambda p: evil_zip(p, "C:\\evil.txt"),
    "zip-link": lambda p: evil_zip(p, "x", stat.S_IFLNK | 0o777),
}


@pytest.mark.parametrize("kind", sorted(EVIL))
def test_an_evil_archive_is_refused_and_nothing_is_written(kind, tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    archive = EVIL[kind](inner / "archive")
    with pytest.raises(ValueError, match="is not safe to extract: "):
        extract(archive, inner / "out")
    assert [path.name for path in tmp_path.rglob("*")] == ["inner", "archive"]


def test_an_absolute_name_in_a_tar_stays_inside(tmp_path):
    out = extract(evil_tar(tmp_path / "x.tar", name=f"{tmp_path}/evil.txt"), tmp_path / "out")
    assert not (tmp_path / "evil.txt").exists()
    assert len(list(out.rglob("evil.txt"))) == 1


@pytest.mark.parametrize(
    ("kind", "left"),
    [("tar", 0.3), *((kind, left) for kind in ("tgz", "tar.xz", "zip") for left in (0.3, 0.9))],
)
def test_a_truncated_archive_is_refused_and_nothing_is_left(kind, left, tmp_path):
    archive = pack(trees.folders(tmp_path / "in", list("abcdefgh")), tmp_path / f"x.{kind}")
    archive.write_bytes(archive.read_bytes()[: int(archive.stat().st_size * left)])
    with pytest.raises(ValueError, match=r"damaged"):
        extract(archive, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_a_flipped_byte_is_noticed(tmp_path):
    archive = pack(trees.folders(tmp_path / "in", ["a"]), tmp_path / "x.zip")
    content = bytearray(archive.read_bytes())
    content[len(content) // 3] ^= 0xFF
    archive.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged or incomplete"):
        extract(archive, tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04 nothing", b"\x1f\x8b nothing"])
def test_what_is_no_archive_is_refused(content, tmp_path):
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(ValueError, match="is not an archive that can be read"):
        extract(tmp_path / "x.zip", tmp_path / "out")


@pytest.mark.parametrize("kind", ["tgz", "zip"])
def test_a_bomb_is_refused_before_it_fills_the_disk(kind, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "zeros").write_bytes(bytes(2_000_000))
    archive = pack(tmp_path / "in", tmp_path / f"x.{kind}")
    assert archive.stat().st_size < 100_000
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(0, 0, 1_000_000))
    with pytest.raises(OSError, match=r"or more, but only 0.0 GB are free; free some space"):
        extract(archive, tmp_path / "out")
    assert not list(tmp_path.glob("out*"))


def test_a_full_disk_and_a_closed_folder_are_sentences(tmp_path, monkeypatch):
    archive = pack(trees.folders(tmp_path / "in", ["a"]), tmp_path / "x.zip")

    def full(*words):
        raise OSError(28, "No space left on device", "x")

    with monkeypatch.context() as patch:
        patch.setattr(archives.zipfile.ZipFile, "extract", full)
        with pytest.raises(
            OSError,
            match=r"The disk of .* is full; free some space, or choose .* with FAIRTRIAL_DATA",
        ):
            extract(archive, tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"is not writable \(Not a directory\)"):
        extract(archive, tmp_path / "file" / "out")
    assert not list(tmp_path.glob("out*"))
