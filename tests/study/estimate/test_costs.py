"""What a study would cost, from real training and from the sizes of its files."""

from __future__ import annotations

from typing import Any

import pytest

from study.config.plan import expand
from study.config.study_config import make
from study.driver.tune_callback import CHECKPOINTS
from study.estimate import pace
from study.estimate.costs import START_UP, disk, estimate, trial_seconds
from study.estimate.counts import count_cells
from study.estimate.pace import Pace
from study.presets import PRESETS
from tests.conftest import MakeConfig
from tests.support.studies import from_scratch
from trainables.contract import Cell

NETWORK = 4 * (
    9 * 16 + 2 * 16 + 9 * 16 * 32 + 2 * 32 + 9 * 32 * 64 + 2 * 64 + (9 * 64 + 1) * 16
)  # tiny, one channel, 3 x 3 grid, size 16


def cost(config: Any, slots: int = 1) -> dict[str, Any]:
    plan = expand(config)
    return estimate(plan, count_cells(plan), slots=slots)


def test_real_steps_are_timed(config: MakeConfig) -> None:
    found = cost(
        config(losses=["contrastive"], protocols=["fixed_validation"], steps_per_epoch=2000)
    )
    assert START_UP < found["seconds"][0] <= found["seconds"][1]
    assert 0 < found["accelerator_hours"][0] <= found["accelerator_hours"][1]
    assert found["device"]


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
    assert long["accelerator_hours"][1] > 2 * short["accelerator_hours"][1]
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


def test_disk_is_what_final_trials_leave_in_mlflow_and_the_checkpoints_of_running_trials(
    config: MakeConfig,
) -> None:
    changes: dict[str, Any] = {
        "losses": ["triplet"],
        "protocols": ["fixed_validation"],
        "search_trials": 3,
        "reproductions": 2,
        "baselines": False,
    }
    sizes = {
        keep: disk(study, count_cells(study), slots=2)
        for keep in ("none", "first", "all")
        if (study := expand(config(**changes, keep_embeddings=keep)))
    }
    loss = 8 * 40 * 16 // (100 * 64)  # what its miner counts
    state, files = 4 * NETWORK + 3 * loss, NETWORK + 40 * 2400  # chosen weights and a row per query
    # Two final trials leave their files in MLflow; two trials run at a time, of which a third
    # checkpoint is written before the first goes.
    assert sizes["none"] == 2 * files + 2 * ((CHECKPOINTS + 1) * state + files)
    embeddings = 4 * 4800 * (16 + 9 * 64)
    assert sizes["first"] == sizes["none"] + embeddings + 2 * embeddings
    assert sizes["all"] == sizes["none"] + 2 * embeddings + 2 * embeddings
    plan = expand(config(**changes, keep_embeddings="none", keep_checkpoints=True))
    assert disk(plan, count_cells(plan), slots=2) == sizes["none"] + 3 * state


@pytest.mark.parametrize(
    ("name", "network", "numbers"),
    [("pixels", 0, 28 * 28), ("untrained", NETWORK, 16 + 9 * 64), ("pca", NETWORK, 16 + 9 * 64)]
    + [("pooled", NETWORK - 4 * (9 * 64 + 1) * 16, 9 * 64)],
)
def test_disk_counts_the_files_and_kept_embeddings_of_baselines(
    config: MakeConfig, name: str, network: int, numbers: int
) -> None:
    for keep, share in (("none", 0), ("first", 1)):
        changes: dict[str, Any] = {"losses": ["triplet"], "keep_embeddings": keep}
        one, other = (expand(config(**changes, baselines=each)) for each in (name, False))
        trials, counts = len(one.baseline_cells()), count_cells(one)
        more = disk(one, counts, slots=1) - disk(other, counts, slots=1)
        assert more == trials * (network + 40 * 2400) + share * 4 * 4800 * numbers


def test_folds_multiply_what_is_left(config: MakeConfig) -> None:
    one, four = (
        expand(config(losses=["triplet"], protocols=[name], strategy="fixed", baselines=False))
        for name in ("fixed_validation", "k_fold:4")
    )
    joined = (
        (2 + 2) * 40 * 2400
    )  # and the queries of all four as one, of two final trials and while two run
    assert (
        disk(four, count_cells(four), slots=2) == 4 * disk(one, count_cells(one), slots=2) + joined
    )


def test_a_study_needs_no_more_room_for_running_trials_than_it_has_trials(
    config: MakeConfig,
) -> None:
    study = config(losses=["triplet"], protocols=["default"], reproductions=1)
    plan = expand(study)
    assert disk(plan, count_cells(plan), slots=64) == disk(plan, count_cells(plan), slots=1)


def test_without_data_time_is_unknown_and_disk_is_not() -> None:
    study = make(PRESETS["generalization"]())
    found = cost(study)
    assert found["seconds"] is None
    assert found["accelerator_hours"] is None
    assert "not here yet" in found["unknown"]
    # Every run keeps 64 + 512 numbers of every image: 16,185 of Cars, 11,788 of CUB.
    assert found["disk_bytes"] > 4 * 4 * (64 + 512) * (16_185 + 11_788)
