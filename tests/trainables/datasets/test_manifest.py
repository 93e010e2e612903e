"""A manifest says what was prepared, and notices when that is no longer there."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

from tests.support import trees
from trainables.contract import DatasetRef
from trainables.datasets import manifest
from trainables.datasets.indexing import index
from trainables.datasets.official import preparing
from trainables.datasets.official.preparing import is_prepared, prepare_dataset


def quiet(title, unit):
    return lambda done, total: None


@pytest.fixture
def birds(tmp_path, monkeypatch):
    """The folder of prepared birds."""
    trees.small_cub(monkeypatch)
    root = trees.cub(tmp_path / "Vögel im Wald")
    prepare_dataset("cub200", root, quiet)
    return root


def test_it_holds_every_file_with_label_size_and_hash(birds, own_home):
    data = json.loads((own_home / "datasets" / "cub200" / "manifest.json").read_text())
    assert (data["version"], data["dataset"], data["root"]) == (1, "cub200", str(birds))
    assert (data["train"], data["test"]) == ([0, 1], [2, 3])
    assert len(data["files"]) == 10
    for file, label, size, digest in data["files"]:
        content = (birds / file).read_bytes()
        assert (size, digest) == (len(content), hashlib.sha256(content).hexdigest())
        assert file.startswith(f"images/{data['names'][label]}/")


def test_it_is_read_back_as_it_was_written(birds):
    found = manifest.read_manifest("cub200")
    assert found == prepare_dataset("cub200", birds, quiet)
    assert index(DatasetRef("cub200")).fingerprint == found.fingerprint


def test_the_fingerprint_does_not_depend_on_where_the_images_lie_but_on_what_they_are(
    birds, tmp_path
):
    before = manifest.read_manifest("cub200").fingerprint
    shutil.copytree(birds, tmp_path / "copy")
    assert prepare_dataset("cub200", tmp_path / "copy", quiet).fingerprint == before
    trees.jpeg(next((tmp_path / "copy").glob("images/*/*.jpg")), 99)
    assert prepare_dataset("cub200", tmp_path / "copy", quiet).fingerprint != before


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: "", "it is damaged"),
        (lambda text: text[:200], "it is damaged"),
        (lambda text: "[]", "it is damaged"),
        (lambda text: "{}", "it is damaged"),
        (lambda text: "\udcff", "it is damaged"),
        (lambda text: text.replace('"version": 1', '"version": 2'), "version 2, where 1 is read"),
        (lambda text: text.replace('"cub200"', '"sop"'), "it is that of sop"),
        (
            lambda text: text.replace("0000.jpg", "0007.jpg"),
            "its content does not give its fingerprint",
        ),
    ],
)
def test_a_damaged_or_foreign_manifest_is_one_sentence_and_prepare_cures_it(change, reason, birds):
    path = manifest.manifest_path("cub200")
    path.write_bytes(change(path.read_text()).encode(errors="surrogateescape"))
    index.cache_clear()
    with pytest.raises(
        ValueError,
        match=rf"is not a valid manifest of cub200 \({reason}\); `fairtrial data prepare cub200",
    ):
        index(DatasetRef("cub200"))
    assert not is_prepared("cub200")
    prepare_dataset("cub200", birds, quiet)
    assert is_prepared("cub200")


def test_a_root_that_vanished_is_reported(birds):
    shutil.rmtree(birds)
    index.cache_clear()
    with pytest.raises(
        ValueError,
        match=(
            r"cub200 was prepared from .*Vögel im Wald.*, but that folder is gone; bring it "
            r"back, or"
        ),
    ):
        index(DatasetRef("cub200"))
    assert not is_prepared("cub200")


def test_a_file_that_vanished_is_reported(birds):
    shutil.rmtree(birds / "images" / "001.Bird_d")
    index.cache_clear()
    with pytest.raises(
        ValueError, match=r"001.Bird_d_0000.jpg is gone or was changed since cub200 was prepared"
    ):
        index(DatasetRef("cub200"))


def test_missing_images_are_counted_and_the_first_is_named(tmp_path, monkeypatch):
    trees.small_cub(monkeypatch)
    shutil.rmtree(trees.cub(tmp_path) / "images" / "003.Bird_b")
    with pytest.raises(
        ValueError,
        match=(
            r"3 of the 10 images of cub200 are not in .*; the first is "
            r"images/003.Bird_b/003.Bird_b_0000.jpg"
        ),
    ):
        prepare_dataset("cub200", tmp_path, quiet)
    assert not manifest.manifest_path("cub200").exists()


def test_a_failed_write_keeps_the_old_one_and_leaves_nothing_beside_it(birds, monkeypatch):
    before, found = manifest.manifest_path("cub200").read_text(), manifest.read_manifest("cub200")

    def full(path, target):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        patch.setattr(manifest.Path, "replace", full)
        with pytest.raises(OSError, match=r"The disk of .* is full"):
            manifest.write_manifest(found)
    assert manifest.manifest_path("cub200").read_text() == before
    assert not list(manifest.dataset_folder("cub200").glob("*.part"))


def test_two_prepares_at_once_are_refused(birds):
    with (
        preparing.FileLock(manifest.dataset_folder("cub200") / "lock"),
        pytest.raises(ValueError, match="is running; wait for it"),
    ):
        prepare_dataset("cub200", birds, quiet)
