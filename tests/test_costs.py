"""What a study would cost, from real training and from the sizes of its files."""

from __future__ import annotations

from typing import Any

import pytest

from study import pace
from study.config import make
from study.costs import START_UP, disk, estimate, trial_seconds
from study.pace import Pace
from study.planning import plan_cells
from study.presets import PRESETS, quickstart
from study.recorder import KEEPS
from tests.conftest import MakeConfig
from trainables.contract import Cell

NETWORK = 4 * (9 * 16 + 2 * 16 + 9 * 16 * 32 + 2 * 32 + 9 * 32 * 64 + 2 * 64 + (9 * 64 + 1) * 16)  # tiny, one channel, 3 x 3 grid, size 16


def cost(config: Any, slots: int = 1) -> dict[str, Any]:
    return estimate(config, plan_cells(config), slots=slots)


def test_real_steps_are_timed(config: MakeConfig) -> None:
    found = cost(config(losses=["contrastive"], protocols=["fixed_validation"], steps_per_epoch=2000))
    assert START_UP < found["seconds"][0] <= found["seconds"][1]
    assert 0 < found["accelerator_hours"][0] <= found["accelerator_hours"][1]
    assert found["device"]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[Cell]:
    """The cells that were timed; a step takes 1 s, an image 0.001 s."""
    found: list[Cell] = []
    monkeypatch.setattr(pace, "_measure", lambda config, cell: found.append(cell) or Pace(1.0, 0.001))
    return found


@pytest.mark.usefixtures("timed")
def test_more_epochs_cost_more_and_more_slots_cost_less(config: MakeConfig) -> None:
    changes = {"losses": ["contrastive"], "protocols": ["fixed_validation"], "steps_per_epoch": 2000}
    short, long = (cost(config(**changes, epochs=epochs)) for epochs in (2, 8))
    assert long["seconds"][1] > 2 * short["seconds"][1]
    assert long["accelerator_hours"][1] > 2 * short["accelerator_hours"][1]
    assert cost(config(**changes, epochs=8), slots=8)["seconds"][1] < long["seconds"][1] / 2


def test_each_backbone_size_and_kind_of_loss_is_timed_once(timed: list[Cell]) -> None:
    study = make(
        quickstart() | {"losses": ["contrastive", "margin", "triplet"], "embedding_size": [16, 32], "protocols": ["default", "k_fold"]}
    )
    trial_seconds(study, plan_cells(study), {})
    assert [(cell.loss, cell.embedding_size) for cell in timed] == [
        ("contrastive", 16),
        ("triplet", 16),
        ("contrastive", 32),
        ("triplet", 32),
    ]


def test_no_more_is_timed_when_time_is_up(timed: list[Cell], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pace, "PATIENCE", -1.0)
    study = make(quickstart() | {"embedding_size": [16, 32, 64]})
    trial_seconds(study, plan_cells(study), {})
    assert len(timed) == 1


@pytest.mark.usefixtures("timed")
def test_seconds_are_steps_scored_images_and_test_images(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["k_fold:4"], strategy="fixed", reproductions=1, epochs=3, steps_per_epoch=7)
    # 4 models, each 3 epochs of 7 steps and 10 select classes of 60 images, then 40 test classes of 60 images.
    assert trial_seconds(study, plan_cells(study), {}) == pytest.approx((4 * (3 * (7 + 0.6) + 2.4),) * 2)


def test_disk_is_what_final_trials_leave_in_mlflow_and_the_checkpoints_of_running_trials(config: MakeConfig) -> None:
    changes: dict[str, Any] = {"losses": ["triplet"], "protocols": ["fixed_validation"], "search_trials": 3, "reproductions": 2}
    sizes = {
        keep: disk(study, plan_cells(study), slots=2)
        for keep in ("none", "first", "all")
        if (study := config(**changes, keep_embeddings=keep))
    }
    loss = 8 * 40 * 16 // (100 * 64)  # what its miner counts
    state, files = 4 * NETWORK + 3 * loss, NETWORK + 40 * 2400  # chosen weights and a row per query
    # Two final trials leave their files in MLflow; two trials run at a time, of which a third checkpoint is written before the first goes.
    assert sizes["none"] == 2 * files + 2 * ((KEEPS + 1) * state + files)
    embeddings = 2 * 4800 * (16 + 9 * 64)  # half precision
    assert sizes["first"] == sizes["none"] + embeddings + 2 * embeddings
    assert sizes["all"] == sizes["none"] + 2 * embeddings + 2 * embeddings
    study = config(**changes, keep_embeddings="none", keep_checkpoints=True)
    assert disk(study, plan_cells(study), slots=2) == sizes["none"] + 3 * state


def test_folds_multiply_what_is_left(config: MakeConfig) -> None:
    one, four = (config(losses=["triplet"], protocols=[name], strategy="fixed") for name in ("fixed_validation", "k_fold:4"))
    joined = (2 + 2) * 40 * 2400  # and the queries of all four as one, of two final trials and while two run
    assert disk(four, plan_cells(four), slots=2) == 4 * disk(one, plan_cells(one), slots=2) + joined


def test_a_study_needs_no_more_room_for_running_trials_than_it_has_trials(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["default"], reproductions=1)
    assert disk(study, plan_cells(study), slots=64) == disk(study, plan_cells(study), slots=1)


def test_without_data_time_is_unknown_and_disk_is_not() -> None:
    study = make(PRESETS["generalization"]())
    found = cost(study)
    assert found["seconds"] is None
    assert found["accelerator_hours"] is None
    assert "not here yet" in found["unknown"]
    # Every run keeps 64 + 512 numbers of every image: 16,185 of Cars, 11,788 of CUB.
    assert found["disk_bytes"] > 4 * 2 * (64 + 512) * (16_185 + 11_788)
