"""What this machine caches is listed as it is, and removed whole or not at all."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from filelock import FileLock

from tests.support import trees, vectors
from tests.support.specs import TRANSFORM, frozen_trunk
from trainables import caches
from trainables.caches import Cached, find_caches, list_caches, remove
from trainables.contract import DatasetRef
from trainables.datasets.pixels import cache_folder, decode_once, is_decoded
from trainables.datasets.vectors import read_vectors
from trainables.inputs.feature_cache import FeaturePass, extract, passes_of


@pytest.fixture
def photos(tmp_path: Path) -> DatasetRef:
    ref = DatasetRef("image_folder", str(trees.folders(tmp_path / "photos", list("abcd"))))
    decode_once(ref, 24)
    return ref


def one_pass(tmp_path: Path, views: int = 0) -> list[FeaturePass]:
    few = DatasetRef("sketches", max_classes=1)
    return passes_of(few, "tiny", frozen_trunk(tmp_path), TRANSFORM, views=views)


def only() -> Cached:
    (found,) = list_caches()
    return found


def test_an_empty_machine_has_nothing(own_home: Path) -> None:
    assert list_caches() == []
    shutil.rmtree(own_home)
    assert list_caches() == []


def test_pixels_tell_whose_they_are(photos: DatasetRef, own_home: Path) -> None:
    found = only()
    assert found.name == f"pixels/{cache_folder(photos, 24).name}"
    assert found.holds == f"8 images of image_folder at 24 pixels, from {photos.root}"
    files = [path for path in cache_folder(photos, 24).rglob("*") if path.is_file()]
    assert found.bytes == sum(path.stat().st_size for path in files)
    assert found.finished
    assert not found.in_work


def test_pixels_of_few_classes_count_the_images_that_are_there(tmp_path: Path) -> None:
    root = trees.folders(tmp_path / "photos", list("abcdef"))
    decode_once(DatasetRef("image_folder", str(root), max_classes=1), 24)
    assert only().holds.startswith("4 images of image_folder at 24 pixels")


def test_pixels_of_an_older_version_are_listed_without_their_folder(photos: DatasetRef) -> None:
    (cache_folder(photos, 24) / "about.json").unlink()
    assert only().holds == "8 images of image_folder at 24 pixels"


def test_features_tell_dataset_backbone_and_crops(tmp_path: Path) -> None:
    for each in one_pass(tmp_path, views=1):
        extract(each)
    assert sorted(each.holds for each in list_caches()) == [
        "features of 120 images of sketches at 28 pixels through tiny, centre crops",
        "features of 60 images of sketches at 28 pixels through tiny, view 1",
    ]


def test_vectors_and_weights_are_listed(tmp_path: Path, own_home: Path) -> None:
    rows, labels = vectors.sample()
    read_vectors(DatasetRef("features", str(vectors.write("npz", tmp_path, rows, label=labels))))
    (own_home / "weights").mkdir()
    (own_home / "weights" / "net-1.2.pth").write_bytes(b"x" * 100)
    (own_home / "weights" / "net-1.2.pth.lock").touch()
    own, fetched = list_caches()
    assert own.holds == "vectors of your own, converted"
    assert own.bytes > rows.nbytes
    assert (fetched.name, fetched.holds, fetched.bytes) == (
        "weights/net-1.2.pth",
        "fetched weights",
        100,
    )


def test_datasets_are_no_cache(own_home: Path) -> None:
    trees.jpeg(own_home / "datasets" / "cub200" / "files" / "x.jpg")
    assert list_caches() == []


def test_listing_is_no_use(photos: DatasetRef) -> None:
    folder = cache_folder(photos, 24)
    for file in folder.iterdir():
        os.utime(file, (1000, 1000))
    assert (only().used, only().used) == (1000, 1000)
    os.utime(folder / "pixels.bin", (2000, 1000))  # somebody read it
    assert only().used == 2000


@pytest.mark.parametrize(
    ("name", "fate"),
    [
        ("pixels/x-24-0.unfinished", "left by a process that was killed"),
        ("features/x-timm-a.b-0.parts", "the next one continues there"),
        ("weights/net.pth.part", "the next one continues there"),
    ],
)
def test_what_killed_processes_left_is_told_from_what_is_being_made(
    own_home: Path, name: str, fate: str
) -> None:
    path = own_home / name
    if path.suffix == ".part":
        path.parent.mkdir()
        path.write_bytes(b"half")
    else:
        path.mkdir(parents=True)
        (path / "half").write_bytes(b"half")
    found = only()
    assert (found.name, found.bytes, found.finished) == (name, 4, False)
    assert found.holds.endswith(fate)
    assert find_caches("unfinished") == [found]
    with FileLock(path.with_suffix(".lock")):
        assert only().in_work
        assert only().holds.endswith("which a process is making now")
        assert find_caches("unfinished") == []
        with pytest.raises(ValueError, match=f"at work on {name}; wait"):
            remove(only())
        assert path.exists()
    remove(only())
    assert list_caches() == []


def test_a_removed_cache_is_made_again(photos: DatasetRef) -> None:
    remove(only())
    assert list_caches() == []
    assert not is_decoded(photos, 24)
    decode_once(photos, 24)
    assert only().finished


def test_a_removal_that_was_killed_leaves_nothing_that_is_taken_for_whole(
    photos: DatasetRef, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, **known: bool) -> None:
        if path.exists():
            (path / "pixels.bin").unlink()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(caches.shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(only())
    assert not is_decoded(photos, 24)
    assert not only().finished
    remove(only())
    assert list_caches() == []


def test_names_are_found_or_refused_with_the_nearest_one(photos: DatasetRef) -> None:
    name = only().name
    assert [each.name for each in find_caches(name)] == [name]
    assert [each.name for each in find_caches("all")] == [name]
    assert find_caches("unfinished") == []
    with pytest.raises(ValueError, match=f"Did you mean '{name}'"):
        find_caches(name[:-2])
    remove(only())
    with pytest.raises(ValueError, match="There is no cache 'x'"):
        find_caches("x")
