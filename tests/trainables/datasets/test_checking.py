"""A check decodes once, for itself and for the studies that follow."""

from __future__ import annotations

import errno
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.support import trees
from trainables.contract import DatasetRef
from trainables.datasets import decode, pixels
from trainables.datasets.checking import Findings, check_dataset
from trainables.datasets.indexing import index
from trainables.datasets.pixels import cache_folder, decode_once, is_decoded, load

SIDE = 24


def check(ref: DatasetRef) -> Findings:
    return check_dataset(ref, SIDE, lambda done, total: None)


@pytest.fixture
def photos(tmp_path: Path) -> DatasetRef:
    return DatasetRef("image_folder", str(trees.folders(tmp_path / "photos", list("abcd"), 3)))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_check_keeps_what_a_study_would_decode(
    photos: DatasetRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = check(photos)
    assert (found.broken, found.not_kept) == ({}, None)
    kept = files(cache_folder(photos, SIDE))
    with monkeypatch.context() as patch:
        patch.setenv("FAIRTRIAL_DATA", str(tmp_path / "another home"))
        decode_once(photos, SIDE)
        assert files(cache_folder(photos, SIDE)) == kept
    monkeypatch.setattr(pixels, "decode", lambda *known: pytest.fail("decoded again"))
    assert len(load(photos, SIDE).pixels) == 12


def test_each_image_is_decoded_once_and_progress_counts_all(
    photos: DatasetRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    original = decode.decode
    monkeypatch.setattr(
        pixels, "decode", lambda root, file: opened.append(file) or original(root, file)
    )
    seen: list[tuple[int, int | None]] = []
    check_dataset(photos, SIDE, lambda done, total: seen.append((done, total)))
    assert sorted(opened) == sorted(index(photos).files)
    assert seen == [(i, 12) for i in range(1, 13)]


def test_with_a_cache_every_file_is_still_verified(photos: DatasetRef) -> None:
    check(photos)
    before = files(cache_folder(photos, SIDE))
    spoiled = Path(str(photos.root)) / "b" / "1.jpg"
    spoiled.write_bytes(b"x" * spoiled.stat().st_size)
    found = check(photos)  # the index is that of before, as if size and time had not changed
    assert list(found.broken) == ["b/1.jpg"]
    assert files(cache_folder(photos, SIDE)) == before


@pytest.mark.parametrize("first", ["a/0.jpg", "d/2.jpg"])
def test_with_a_broken_image_nothing_is_kept_and_all_broken_ones_are_found(
    photos: DatasetRef, first: str
) -> None:
    for file in {first, "c/1.jpg"}:
        (Path(str(photos.root)) / file).write_text("404")
    found = check(photos)
    assert sorted(found.broken) == sorted({first, "c/1.jpg"})
    assert not is_decoded(photos, SIDE)
    assert not [path for path in cache_folder(photos, SIDE).parent.iterdir() if path.is_dir()]


def test_a_full_disk_does_not_end_the_check(
    photos: DatasetRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    (Path(str(photos.root)) / "d" / "2.jpg").write_text("404")

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    whole = DatasetRef("image_folder", photos.root, exclude=("d/2.jpg",))
    monkeypatch.setattr(pixels.os, "fsync", full)
    found = check(whole)
    assert (found.broken, found.not_kept) == ({}, "No space left on device")
    assert not is_decoded(whole, SIDE)


def test_shipped_drawings_are_not_kept_again(own_home: Path) -> None:
    found = check(DatasetRef("sketches"))
    assert (found.broken, found.not_kept) == ({}, None)
    assert list(own_home.iterdir()) == []


def test_memory_does_not_grow_with_the_number_of_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pixels.os, "cpu_count", lambda: 2)
    side, count = 200, 120
    for label in "abcd":
        (tmp_path / label).mkdir()
        for number in range(count // 4):
            noise = np.full((side, side, 3), number, dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / label / f"{number}.png")
    ref = DatasetRef("image_folder", str(tmp_path))
    index(ref)
    tracemalloc.start()
    check_dataset(ref, side, lambda done, total: None)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # At most four images for each of two threads wait, and a few are being made and written.
    assert most < 30 * side * side * 3 < count * side * side * 3 / 2
