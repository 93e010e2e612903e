"""What a study would cost: time from real training, and what comes before the first trial."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from study.config.plan import expand
from study.config.study_config import make
from study.driver.preflight import feature_passes
from study.estimate import costs, pace
from study.estimate.costs import (
    CONTENTION,
    START_UP,
    Preparation,
    estimate,
    preparation,
    trial_seconds,
)
from study.estimate.counts import count_cells
from study.estimate.pace import Pace
from study.presets import PRESETS
from tests.conftest import MakeConfig
from tests.support import trees
from tests.support.studies import from_scratch
from trainables.contract import Cell
from trainables.datasets.pixels import decode_once
from trainables.distributed.process import own_device
from trainables.inputs.feature_cache import extract


def cost(config: Any, slots: int = 1) -> dict[str, Any]:
    plan = expand(config)
    return estimate(plan, count_cells(plan), slots=slots)


def test_real_steps_are_timed(config: MakeConfig) -> None:
    found = cost(
        config(losses=["contrastive"], protocols=["fixed_validation"], steps_per_epoch=2000)
    )
    assert START_UP < found["seconds"][0] <= found["seconds"][1]
    assert 0 < found["worker_hours"][0] <= found["worker_hours"][1]
    assert found["worker"] == ("GPU" if own_device().type == "cuda" else "core")


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells that were timed; a step takes 1 s, an image 0.001 s."""
    found: list[Cell] = []
    monkeypatch.setattr(
        pace, "_measure", lambda config, cell: found.append(cell) or Pace(1.0, 0.001)
    )
    return found


@pytest.mark.usefixtures("timed")
def test_more_epochs_cost_more_and_more_slots_cost_less(config: MakeConfig) -> None:
    changes = {
        "losses": ["contrastive"],
        "protocols": ["fixed_validation"],
        "steps_per_epoch": 2000,
    }
    short, long = (cost(config(**changes, epochs=epochs)) for epochs in (2, 8))
    assert long["seconds"][1] > 2 * short["seconds"][1]
    assert long["worker_hours"][1] > 2 * short["worker_hours"][1]
    assert cost(config(**changes, epochs=8), slots=8)["seconds"][1] < long["seconds"][1] / 2


def test_each_backbone_size_and_kind_of_loss_is_timed_once(timed: list[Cell]) -> None:
    study = make(
        from_scratch()
        | {
            "losses": ["contrastive", "margin", "triplet"],
            "embedding_size": [16, 32],
            "protocols": ["default", "k_fold"],
        }
    )
    plan = expand(study)
    trial_seconds(plan, count_cells(plan), {})
    assert [(cell.loss, cell.embedding_size) for cell in timed] == [
        ("contrastive", 16),
        ("triplet", 16),
        ("contrastive", 32),
        ("triplet", 32),
    ]


def test_no_more_is_timed_when_time_is_up(
    timed: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "TOTAL_PROBE_SECONDS", -1.0)
    study = make(from_scratch() | {"embedding_size": [16, 32, 64]})
    plan = expand(study)
    trial_seconds(plan, count_cells(plan), {})
    assert len(timed) == 1


@pytest.mark.usefixtures("timed")
def test_seconds_are_steps_scored_images_and_test_images(config: MakeConfig) -> None:
    study = config(
        losses=["triplet"],
        protocols=["k_fold:4"],
        strategy="fixed",
        reproductions=1,
        epochs=3,
        steps_per_epoch=7,
    )
    plan = expand(study)
    # 4 models, each 3 epochs of 7 steps and 10 select classes of 60 images, then 40 test classes of
    # 60 images.
    assert trial_seconds(plan, count_cells(plan), {}) == pytest.approx(
        (4 * (3 * (7 + 0.6) + 2.4),) * 2
    )


def test_without_data_time_is_unknown_and_disk_is_not() -> None:
    study = make(PRESETS["generalization"]())
    found = cost(study)
    assert found["seconds"] is None
    assert found["worker_hours"] is None
    assert "not here yet" in found["unknown"]
    # Every run keeps 64 + 512 numbers of every image: 16,185 of Cars, 11,788 of CUB.
    assert found["disk_bytes"] > 4 * 4 * (64 + 512) * (16_185 + 11_788)


def photos(tmp_path: Path) -> dict[str, Any]:
    """Twelve classes of five photos, as changes to a config."""
    root = trees.folders(tmp_path / "photos", [f"class {i}" for i in range(12)], images=5)
    return {"dataset": "image_folder", "data_root": str(root), "max_classes": None} | {
        "losses": ["contrastive"], "protocols": ["fixed_validation"], "image_size": 32,
        "cache_size": 48, "baselines": False,
    }  # fmt: skip


@pytest.mark.usefixtures("timed")
def test_what_comes_first_is_decoding_unless_it_is_done(config: MakeConfig, tmp_path: Path) -> None:
    study = config(**photos(tmp_path))
    plan = expand(study)
    (first,) = preparation(plan)
    assert (first.what, first.images) == ("decode image_folder", 60)
    assert first.core_seconds > 0
    before = cost(study)
    decode_once(plan.dataset_ref("image_folder"), study.cache_size)
    assert preparation(plan) == []
    after = cost(study)
    assert after["preparation"] == []
    assert [each["what"] for each in before["preparation"]] == ["decode image_folder"]
    assert after["cache_bytes"] == pytest.approx(before["cache_bytes"], rel=0.3)


@pytest.mark.usefixtures("timed")
def test_frozen_trunks_are_asked_for_every_pass_that_is_not_cached(
    config: MakeConfig, tmp_path: Path
) -> None:
    study = config(
        losses=["contrastive"], train="head", backbone="small", weights="pretrained", views=2,
        max_classes=5, baselines=False,
    )  # fmt: skip
    plan = expand(study)
    whats = [(each.what, each.images) for each in preparation(plan)]
    assert whats == [
        ("compute the features of sketches", 600),
        ("compute the features of sketches, view 1", 300),
        ("compute the features of sketches, view 2", 300),
    ]
    centre, *views = feature_passes(plan)
    extract(centre)
    assert [each.images for each in preparation(plan)] == [300, 300]
    for each in views:
        extract(each)
    assert preparation(plan) == []


def test_work_before_the_first_trial_counts_in_hours_and_in_time(
    config: MakeConfig, timed: list[Cell], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = config(losses=["contrastive"], protocols=["fixed_validation"])
    without = cost(study)
    assert timed
    monkeypatch.setattr(costs, "preparation", lambda plan: [Preparation("decode it", 9, 7200.0)])
    found = cost(study)
    assert found["preparation"] == [{"what": "decode it", "images": 9, "core_seconds": 7200.0}]
    for low_or_high in (0, 1):
        hours = found["worker_hours"][low_or_high] - without["worker_hours"][low_or_high]
        assert hours == pytest.approx(2, abs=0.002)
        seconds = found["seconds"][low_or_high] - without["seconds"][low_or_high]
        assert seconds == pytest.approx(7200 / (os.cpu_count() or 1), abs=1)


@pytest.mark.usefixtures("timed")
def test_slots_slow_each_other_in_time_but_do_not_add_work(config: MakeConfig) -> None:
    study = config(losses=["contrastive"], protocols=["fixed_validation"], steps_per_epoch=2000)
    plan = expand(study)
    low, high = trial_seconds(plan, count_cells(plan), {})
    found = cost(study, slots=2)
    assert found["worker_hours"] == [round(low / 3600, 3), round(high / 3600, 3)]
    assert found["seconds"] == [round(START_UP + low / 2), round(START_UP + CONTENTION * high / 2)]
