"""Datasets are what they say they are."""

from dataclasses import replace
from importlib.resources import files

import numpy as np
import pytest

from trainables import datasets
from trainables.datasets import DATASETS, load

NAMES = sorted(DATASETS)
HOME = files("trainables") / "data"


@pytest.mark.parametrize("name", NAMES)
def test_labels_are_the_indices_of_the_names_and_every_class_has_a_match(name):
    data, source = load(name), DATASETS[name]
    assert sorted(set(data.labels.tolist())) == list(range(source.classes))
    assert len(data.labels) == len(data.images) == source.images
    assert len(set(data.names)) == source.classes
    assert np.bincount(data.labels).min() >= 2
    assert data.images.dtype == np.uint8
    assert data.images.ndim == 4


@pytest.mark.parametrize("name", NAMES)
def test_the_halves_are_disjoint_and_cover_all_classes(name):
    data, source = load(name), DATASETS[name]
    assert (data.train, data.test) == (source.train, source.test)
    assert not set(data.train) & set(data.test)
    assert sorted(data.train + data.test) == list(range(source.classes))


def test_sketches_are_200_classes_of_60_drawings_in_two_halves_of_100():
    data = load("sketches")
    assert data.images.shape == (12_000, 1, 28, 28)
    assert set(np.bincount(data.labels).tolist()) == {60}
    assert data.train == tuple(range(100))
    assert data.test == tuple(range(100, 200))
    assert all(isinstance(name, str) and name for name in data.names)


def test_no_drawing_is_blank_and_no_class_repeats_another():
    data = load("sketches")
    assert (data.images.max(axis=(1, 2, 3)) > 200).all()
    assert len({data.images[data.ids((label,))].mean(axis=0).tobytes() for label in range(200)}) == 200


def test_the_shipped_file_holds_plain_arrays_only():
    with (HOME / "sketches.npz").open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        assert sorted(arrays) == ["images", "labels", "names"]
        assert not any(arrays[key].dtype.hasobject for key in arrays)


@pytest.mark.parametrize("name", NAMES)
def test_the_licence_is_named_and_shipped_beside_the_data(name):
    licence = DATASETS[name].licence.split(":")[0]
    readme = (HOME / "README.md").read_text()
    assert licence in readme
    assert "CC BY 4.0" in readme
    assert "Google, Inc." in readme


def test_ids_are_the_rows_of_the_asked_classes_in_file_order():
    data = load("sketches")
    wanted = [row for row, label in enumerate(data.labels.tolist()) if label in (7, 3, 150)]
    assert data.ids((7, 3, 150)).tolist() == wanted
    assert len(data.ids(())) == 0


@pytest.mark.parametrize("wrong", [{"classes": 199}, {"classes": 201}, {"images": 11_999}, {"images": 12_001}])
def test_wrong_counts_are_refused_with_both_numbers(monkeypatch, wrong):
    source = replace(DATASETS["sketches"], **wrong)
    monkeypatch.setitem(datasets.DATASETS, "short", source)
    with pytest.raises(ValueError, match="short has") as error:
        load("short")
    assert str(error.value) == f"short has {source.classes} classes and {source.images} images, but 200 and 12000 were found."


def test_a_dataset_is_read_once_per_process():
    assert load("sketches") is load("sketches")
