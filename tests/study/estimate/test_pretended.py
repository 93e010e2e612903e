"""Pretended data have the shape of the real ones, and timing on them opens no file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from study.config.plan import StudyPlan, expand
from study.estimate.pace import Probe
from study.estimate.pretended import pretended_data
from tests.conftest import MakeConfig
from tests.support import trees, vectors
from trainables.contract import TrialSpec
from trainables.datasets import pixels
from trainables.datasets.pixels import Dataset
from trainables.inputs import feature_cache
from trainables.inputs.features import Features, load_data

HEAD = {"train": "head", "backbone": "small", "weights": "pretrained", "max_classes": 12}


def first_trial(plan: StudyPlan) -> TrialSpec:
    cell = plan.cells[0]
    return plan.spec(cell, "search", plan.config.seed, plan.published(cell.loss))


@pytest.mark.parametrize(
    "model",
    [
        {"train": "all", "weights": "none", "backbone": "tiny"},
        {"train": "head", "weights": "pretrained", "backbone": "resnet18"},
    ],
    ids=["all", "head"],
)
def test_a_pace_needs_no_image_and_no_weights(
    config: MakeConfig,
    tmp_path: Path,
    own_home: Path,
    monkeypatch: pytest.MonkeyPatch,
    model: dict[str, Any],
) -> None:
    root = trees.folders(tmp_path / "photos", [f"class {i}" for i in range(12)], images=5)
    plan = expand(
        config(
            losses=["contrastive"],
            protocols=["fixed_validation"],
            dataset="image_folder",
            data_root=str(root),
            max_classes=None,
            image_size=32,
            **model,
        )
    )
    shutil.rmtree(root)
    monkeypatch.setattr(pixels, "decode", lambda *known: pytest.fail("an image was decoded"))
    pace = Probe(plan).pace(plan.cells[0])
    assert pace.step > 0
    assert pace.image > 0
    assert list(own_home.iterdir()) == []


@pytest.mark.parametrize("views", [0, 2])
def test_pretended_features_have_the_shape_of_computed_ones(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch, views: int
) -> None:
    spec = first_trial(expand(config(losses=["triplet"], views=views, **HEAD)))
    with monkeypatch.context() as patch:
        patch.setattr(feature_cache, "compute_part", lambda *known: pytest.fail("computed"))
        pretended = pretended_data(spec)
    real = load_data(spec)
    assert isinstance(pretended, Features)
    assert isinstance(real, Features)
    assert pretended.width == real.width
    assert len(pretended.rows) == len(real.rows)
    assert len(pretended.views) == len(real.views) == views
    assert pretended.centre.dtype == real.centre.dtype
    assert pretended.index.fingerprint == real.index.fingerprint


def test_pretended_drawings_have_the_shape_of_real_ones(config: MakeConfig) -> None:
    spec = first_trial(expand(config(losses=["triplet"])))
    pretended, real = pretended_data(spec), load_data(spec)
    assert isinstance(pretended, Dataset)
    assert isinstance(real, Dataset)
    assert np.array_equal(pretended.pixels.shapes, real.pixels.shapes)
    assert pretended.pixels[7].shape == real.pixels[7].shape


def test_a_users_own_vectors_are_the_real_ones(config: MakeConfig, tmp_path: Path) -> None:
    rows, labels = vectors.sample()
    path = vectors.write("npz", tmp_path, rows, label=labels)
    plan = expand(
        config(
            losses=["triplet"],
            protocols=["default"],
            dataset="features",
            data_root=str(path),
            backbone="none",
            weights="none",
            train="head",
            max_classes=None,
        )
    )
    found = pretended_data(first_trial(plan))
    assert isinstance(found, Features)
    assert np.array_equal(found.centre, rows)
