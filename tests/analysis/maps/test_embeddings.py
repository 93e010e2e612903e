"""What a final trial or a baseline keeps gives back the scores that were recorded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.maps.embeddings import FC, GAP, read_embeddings
from analysis.maps.nearest import nearest
from tests.support.specs import SPLIT, final, sketches
from trainables.contract import (
    EMBEDDINGS,
    NOT_TRAINED,
    POOLED,
    UNTRAINED,
    Outputs,
    Split,
    TrialSpec,
)
from trainables.metrics.retrieval import score_retrieval
from trainables.outputs.artifacts import write_outputs
from trainables.training.learner import Learner

KEPT = Outputs(last=False, embeddings=True)


def baseline(loss: str, **changes: Any) -> TrialSpec:
    split = Split(SPLIT.train, SPLIT.test, SPLIT.test)
    return replace(final(loss, epochs=0, **changes), rule="untrained", splits=(split,))


def read_test(spec: TrialSpec, folder: Path) -> dict[str, float]:
    """Train the trial, write what it leaves, and return its recorded scores of the test classes."""
    learner = Learner(spec, sketches())
    while not learner.done:
        learner.epoch()
    recorded = learner.read_test().test
    write_outputs(folder, {"state": learner.state(), "artifacts": learner.artifacts()})
    return dict(recorded)


@pytest.mark.parametrize("loss", ["triplet", *NOT_TRAINED])
def test_kept_embeddings_give_the_recorded_scores_again(loss: str, tmp_path: Path) -> None:
    spec = final(loss, epochs=1) if loss == "triplet" else baseline(loss)
    recorded = read_test(replace(spec, outputs=KEPT), tmp_path)
    (kept,) = read_embeddings(tmp_path / EMBEDDINGS, spec)
    test = kept.only("test")
    assert set(kept.part) >= {"train", "test"}
    found = score_retrieval(
        torch.from_numpy(test.features[FC]), torch.from_numpy(test.label), tuple(recorded)
    )
    assert found.means == pytest.approx(recorded, abs=1e-6)
    share = nearest(test.units(FC), test.label).share
    assert share == pytest.approx(recorded["recall_at_1"], abs=1e-6)


def test_the_pooled_baseline_scores_the_features_below_the_head_and_keeps_them_once(
    tmp_path: Path,
) -> None:
    names = ("recall_at_1", "map_at_r")
    network = baseline(UNTRAINED, metrics=tuple(f"pooled_{name}" for name in names))
    below = Learner(network, sketches()).read_test().test
    pooled = replace(baseline(POOLED, metrics=names), outputs=KEPT)
    recorded = read_test(pooled, tmp_path)
    assert {f"pooled_{name}": value for name, value in recorded.items()} == below
    with np.load(tmp_path / EMBEDDINGS) as arrays:
        assert sorted(arrays.files) == ["0/class", "0/embedding", "0/image"]
    (kept,) = read_embeddings(tmp_path / EMBEDDINGS, pooled)
    assert kept.features[GAP] is kept.features[FC]
    assert kept.name == "tiny, pooled"


def test_raw_pixels_keep_embeddings_too(tmp_path: Path) -> None:
    spec = replace(baseline(UNTRAINED, backbone="pixels"), outputs=KEPT)
    read_test(spec, tmp_path)
    (kept,) = read_embeddings(tmp_path / EMBEDDINGS, spec)
    assert kept.features[FC].shape == (len(kept), 28 * 28)
