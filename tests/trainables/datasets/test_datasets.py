"""Datasets are what they say they are."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from tests.support import trees, vectors
from trainables.contract import DatasetRef
from trainables.datasets import catalogue
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import halves, index
from trainables.datasets.official.layouts import LAYOUTS
from trainables.datasets.official.preparing import prepare_dataset
from trainables.datasets.pixels import load

NAMES = sorted(DATASETS)
OFFICIAL = sorted(name for name in DATASETS if DATASETS[name].classes is not None)
SHIPPED = sorted(name for name in DATASETS if DATASETS[name].pixels is not None)
HOME = files("trainables") / "data"


def quiet(title, unit):
    return lambda done, total: None


@pytest.fixture(params=NAMES)
def ready(request, tmp_path, monkeypatch):
    """Every dataset, in miniature where it is not shipped."""
    name = request.param
    if name in LAYOUTS:
        tree, small = trees.TREES[name]
        small(monkeypatch)
        prepare_dataset(name, tree(tmp_path), quiet)
    elif name == "image_folder":
        return DatasetRef(name, str(trees.folders(tmp_path, list("abcd"))))
    elif name == "csv":
        root = trees.folders(tmp_path, list("abcd"))
        lines = [f"{each}/{i}.jpg,{each}" for each in "abcd" for i in (0, 1)]
        (root / "list.csv").write_text("\n".join(["file,label", *lines]))
        return DatasetRef(name, str(root / "list.csv"))
    elif name == "features":
        rows, labels = vectors.sample()
        return DatasetRef(name, str(vectors.write("npz", tmp_path, rows, label=labels)))
    return DatasetRef(name)


def test_labels_are_the_indices_of_the_names_and_the_halves_share_no_class(ready):
    found = index(ready)
    assert sorted(set(found.labels.tolist())) == list(range(len(found.names)))
    assert found.labels.dtype == np.int64
    assert len(set(found.names)) == len(found.names)
    assert not set(found.train) & set(found.test)
    assert sorted(found.train + found.test) == list(range(len(found.names)))
    assert halves(ready) == (found.train, found.test)
    assert found.channels == DATASETS[ready.dataset].channels


def test_every_listed_file_is_there_and_shipped_pixels_have_none(ready):
    found, info = index(ready), DATASETS[ready.dataset]
    if info.pixels:
        assert found.files == ()
        assert info.pixels().shape == (
            len(found.labels),
            info.side,
            info.side,
            info.channels,
        )
    elif not info.has_image_files:
        assert found.files == ()
    else:
        assert len(found.files) == len(found.labels)
        assert all((found.root / file).is_file() for file in found.files)


def test_the_fingerprint_is_the_same_for_the_same_and_another_without_a_file(ready):
    first = index(ready).fingerprint
    index.cache_clear()
    assert index(ready).fingerprint == first
    assert int(first, 16) > 0
    if index(ready).files:
        without = index(replace(ready, exclude=(index(ready).files[-1],)))
        assert without.fingerprint != first
        assert without.files == index(ready).files[:-1]


def test_ids_are_the_rows_of_the_asked_classes_in_file_order(ready):
    found = index(ready)
    wanted = [row for row, label in enumerate(found.labels.tolist()) if label in (2, 0)]
    assert found.ids((2, 0)).tolist() == wanted
    assert len(found.ids(())) == 0


def test_an_index_is_read_once_per_process(ready):
    assert index(ready) is index(replace(ready))


def test_fewer_classes_are_the_first_of_each_half_and_the_images_stay(ready):
    whole, few = index(ready), index(replace(ready, max_classes=1))
    assert (few.train, few.test) == (whole.train[:1], whole.test[:1])
    assert halves(replace(ready, max_classes=1)) == (few.train, few.test)
    assert few.fingerprint == whole.fingerprint  # so that they are decoded once
    assert few.labels.tolist() == whole.labels.tolist()


@pytest.mark.parametrize("name", OFFICIAL)
def test_official_halves_are_known_before_any_file_is_there(name):
    train, test = halves(DatasetRef(name))
    assert (train, test) == (DATASETS[name].train, DATASETS[name].test)
    assert (*train, *test) == tuple(range(DATASETS[name].classes))


@pytest.mark.parametrize("name", NAMES)
def test_every_source_says_what_it_is_and_how_to_get_it(name):
    info = DATASETS[name]
    assert info.about
    assert info.licence
    assert info.recalls[0] == 1
    assert info.pixels or info.needs_root or info.wanted
    assert not info.url or info.checksum.startswith("md5:")


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_what_is_not_prepared_is_refused_with_the_command(name):
    with pytest.raises(
        ValueError, match=f"{name} is not here yet: .*`fairtrial data prepare {name}.*--from PATH"
    ):
        index(DatasetRef(name))
    assert catalogue.is_here(name) is False


def test_birds_that_are_not_here_are_one_sentence():
    with pytest.raises(ValueError, match="cub200") as error:
        index(DatasetRef("cub200"))
    assert str(error.value) == (
        "cub200 is not here yet: `fairtrial data prepare cub200` fetches it (about 1.1 GB), or "
        "takes what you have with --from PATH."
    )


@pytest.mark.parametrize(
    ("dataset_ref", "sentence"),
    [
        (DatasetRef("cub"), "Unknown dataset 'cub'. Did you mean 'cub200'?"),
        (
            DatasetRef("image_folder"),
            "image_folder needs --set data_root=PATH (`fairtrial data`: --root PATH): the folder",
        ),
        (
            DatasetRef("csv"),
            "csv needs --set data_root=PATH (`fairtrial data`: --root PATH): the CSV file",
        ),
        (
            DatasetRef("features"),
            "features needs --set data_root=PATH (`fairtrial data`: --root PATH): the .npz, .npy",
        ),
        (DatasetRef("cub200", root="x"), "root is for image_folder, csv and features; cub200 has"),
        (
            DatasetRef("sop", train_classes=("a",)),
            "train_classes is for image_folder, csv and features; sop has",
        ),
        (
            DatasetRef("sketches", test_classes=("a",)),
            "test_classes is for image_folder, csv and features; sketches has",
        ),
        (
            DatasetRef("sketches", exclude=("x.png",)),
            "sketches ships without files, so exclude='x.png' can name none.",
        ),
    ],
)
@pytest.mark.parametrize("ask", [halves, index])
def test_an_origin_that_does_not_fit_its_dataset_is_refused(dataset_ref, sentence, ask):
    with pytest.raises(ValueError, match="^" + re.escape(sentence)):
        ask(dataset_ref)


@pytest.mark.parametrize(
    ("exclude", "sentence"),
    [
        (
            ("a/0.jpeg",),
            r"exclude names 'a/0.jpeg', but there is no such image .*\. Did you mean 'a/0.jpg'\?",
        ),
        (("A/0.jpg",), r"exclude names 'A/0.jpg'.* Did you mean './0.jpg'\?"),
        (("a/0.jpg", "a/1.jpg"), "exclude leaves no image of the class 'a'"),
        (("a/notes.txt",), "exclude names 'a/notes.txt'"),
    ],
)
def test_exclude_names_images_that_are_there(exclude, sentence, tmp_path):
    trees.folders(tmp_path, list("abcd"))
    with pytest.raises(ValueError, match=sentence):
        index(DatasetRef("image_folder", str(tmp_path), exclude=exclude))


def test_what_changes_the_images_or_their_classes_changes_the_fingerprint(tmp_path):
    def mark(**chosen):
        index.cache_clear()
        return index(DatasetRef("image_folder", str(tmp_path), **chosen)).fingerprint

    trees.folders(tmp_path, list("abcd"), images=3)
    marks = [mark(), mark(train_classes=("a", "d"))]
    os.utime(tmp_path / "a" / "0.jpg", ns=(1, 1))
    marks.append(mark())
    os.rename(tmp_path / "a" / "0.jpg", tmp_path / "b" / "7.jpg")
    marks.append(mark())
    os.rename(tmp_path / "d", tmp_path / "e")
    marks.append(mark())
    assert len(set(marks)) == len(marks)


def test_wrong_counts_of_prepared_ones_are_refused_when_they_are_read(tmp_path, monkeypatch):
    with monkeypatch.context() as small:
        trees.small_cub(small)
        prepare_dataset("cub200", trees.cub(tmp_path), quiet)
    with pytest.raises(
        ValueError,
        match=(
            r"200 classes and 11,788 images \(5,864 \+ 5,924\), but .* has 4 classes and 10 images "
            r"\(3 \+ 7\)"
        ),
    ):
        index(DatasetRef("cub200"))


def test_nothing_heavy_is_imported_to_read_an_index(tmp_path):
    trees.folders(tmp_path, list("abcd"))
    program = (
        "import sys; from trainables.datasets.indexing import *\n"
        "heavy = {'torch', 'scipy', 'matplotlib', 'pyarrow'}\n"
        "print([*({*heavy, 'PIL'} & {*sys.modules})])\n"
        f"index(DatasetRef('image_folder', {str(tmp_path)!r})); index(DatasetRef('sketches'))\n"
        "print([*(heavy & {*sys.modules})])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=HOME.parent.parent,
    )
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


def test_sketches_are_200_classes_of_60_drawings_in_two_halves_of_100():
    data, images = index(DatasetRef("sketches")), DATASETS["sketches"].pixels()
    assert images.shape == (12_000, 28, 28, 1)
    assert set(np.bincount(data.labels).tolist()) == {60}
    assert data.train == tuple(range(100))
    assert data.test == tuple(range(100, 200))
    assert all(isinstance(name, str) and name for name in data.names)


def test_no_drawing_is_blank_and_no_class_repeats_another():
    data, images = index(DatasetRef("sketches")), DATASETS["sketches"].pixels()
    assert (images.max(axis=(1, 2, 3)) > 200).all()
    assert len({images[data.ids((label,))].mean(axis=0).tobytes() for label in range(200)}) == 200


def test_the_shipped_file_holds_plain_arrays_only():
    with (HOME / "sketches.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        assert sorted(arrays) == ["images", "labels", "names"]
        assert not any(arrays[key].dtype.hasobject for key in arrays)


@pytest.mark.parametrize("name", SHIPPED)
def test_the_licence_is_named_and_shipped_beside_the_data(name):
    licence = DATASETS[name].licence.split(":")[0]
    readme = (HOME / "README.md").read_text()
    assert licence in readme
    assert "CC BY 4.0" in readme
    assert "Google, Inc." in readme


@pytest.mark.parametrize(
    "wrong", [{"classes": 199}, {"classes": 201}, {"images": 11_999}, {"images": 12_001}]
)
def test_wrong_counts_are_refused_with_both_numbers(monkeypatch, wrong):
    info = replace(DATASETS["sketches"], **wrong)
    monkeypatch.setitem(catalogue.DATASETS, "short", info)
    with pytest.raises(ValueError, match="short has") as error:
        index(DatasetRef("short"))
    counts = f"{info.classes} classes and {info.images} images"
    assert str(error.value) == f"short has {counts}, but 200 and 12000 were found."


def test_a_dataset_is_read_once_per_process():
    assert load(DatasetRef("sketches"), 256) is load(DatasetRef("sketches"), 256)
