"""The closed-set task: every class's images are divided, and test images are other classes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support import trees
from trainables.contract import DatasetRef
from trainables.datasets import catalogue
from trainables.datasets.indexing import halves, index
from trainables.datasets.official.preparing import prepare_dataset
from trainables.datasets.pixels import cache_folder

HALF = DatasetRef("sketches", closed_set=True, train_share=0.5)


def test_half_of_every_class_trains_and_the_other_half_is_a_class_of_its_own() -> None:
    whole, closed = index(DatasetRef("sketches")), index(HALF)
    assert halves(HALF) == (closed.train, closed.test)
    assert closed.train == tuple(range(200))
    assert closed.test == tuple(range(200, 400))
    assert (closed.labels % 200 == whole.labels).all()
    assert np.bincount(closed.labels).tolist() == [30] * 400
    assert not {*closed.ids(closed.train)} & {*closed.ids(closed.test)}
    assert closed.fingerprint != whole.fingerprint


def test_a_share_is_drawn_by_its_seed_and_classes_can_be_left_out() -> None:
    other = index(replace(HALF, share_seed=1))
    assert (other.labels != index(HALF).labels).any()
    few = replace(HALF, max_classes=3)
    assert halves(few) == ((0, 1, 2, 100, 101, 102), (200, 201, 202, 300, 301, 302))
    fifth = index(replace(HALF, train_share=0.2))
    assert np.bincount(fifth.labels).tolist() == [12] * 200 + [48] * 200


def test_the_official_lists_divide_cub_and_nothing_else_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cub = trees.cub(tmp_path)  # its classes have 1 to 4 images
    trees.small_cub(monkeypatch)
    info = replace(catalogue.DATASETS["cub200"], closed_train_images=5)
    monkeypatch.setitem(catalogue.DATASETS, "cub200", info)
    prepare_dataset("cub200", cub, lambda title, unit: lambda done, total: None)
    ref = DatasetRef("cub200", closed_set=True)
    with pytest.raises(ValueError, match="needs two images or more, but class 0 has one side"):
        index(ref)
    flags = cub / "train_test_split.txt"
    flags.write_text("\n".join(f"{i + 1} {int(i < 4)}" for i in range(10)))
    with pytest.raises(ValueError, match="must list 5 train images of 10, but lists 4 of 10"):
        index(ref)
    assert index(DatasetRef("cub200")).train == (0, 1)
    assert cache_folder(ref, 64) == cache_folder(DatasetRef("cub200"), 64)
    flags.unlink()
    with pytest.raises(ValueError, match=r"train_test_split.txt, which cannot be read.*closed_set"):
        index(ref)
