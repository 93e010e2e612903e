"""What a study leaves on disk, counted from the sizes of its files and held against real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from study.config.plan import expand
from study.driver.preflight import feature_passes
from study.estimate.counts import count_cells
from study.estimate.disk import cache_disk, disk, network_size
from tests.conftest import MakeConfig
from trainables.datasets.catalogue import SKETCHES
from trainables.inputs.feature_cache import extract
from trainables.inputs.features import load_data
from trainables.outputs.artifacts import write_outputs
from trainables.outputs.checkpoints import KEEP
from trainables.training.learner import Learner

NETWORK = 4 * (
    9 * 16 + 2 * 16 + 9 * 16 * 32 + 2 * 32 + 9 * 32 * 64 + 2 * 64 + (9 * 64 + 1) * 16
)  # tiny, one channel, 3 x 3 grid, size 16


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
    assert sizes["none"] == 2 * files + 2 * ((KEEP + 1) * state + files)
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


@pytest.mark.parametrize("head", ["linear", "mlp"])
def test_disk_of_a_head_is_what_a_real_trial_leaves(
    config: MakeConfig, tmp_path: Path, head: str
) -> None:
    study = config(
        losses=["contrastive"],
        protocols=["fixed_validation"],
        strategy="fixed",
        reproductions=1,
        baselines=False,
        keep_embeddings="all",
        train="head",
        head=head,
        backbone="small",
        weights="pretrained",
        embedding_size=64,
        max_classes=12,
        last_too=False,
    )
    plan = expand(study)
    cell = plan.cells[0]
    spec = plan.spec(cell, "final", study.seed, plan.published(cell.loss))
    learner = Learner(spec, load_data(spec))
    while not learner.done:
        learner.epoch()
    learner.read_test()
    write_outputs(tmp_path, {"state": learner.state(), "artifacts": learner.artifacts()})
    torch.save(learner.state(), tmp_path / "state.pt")
    sizes = {path.name: path.stat().st_size for path in tmp_path.iterdir() if path.is_file()}
    left = sizes["best.pt"] + sizes["queries.csv"] + sizes["embeddings.npz"]
    counted = disk(plan, count_cells(plan), slots=1)
    # Once in MLflow and once while it runs, beside its checkpoints.
    assert counted == pytest.approx(2 * left + (KEEP + 1) * sizes["state.pt"], rel=0.15)


def test_the_trunk_of_a_head_is_not_counted(config: MakeConfig) -> None:
    changes: dict[str, Any] = {"losses": ["triplet"], "backbone": "small", "weights": "pretrained"}
    one, whole = (
        expand(config(**changes, train=train, baselines=False)) for train in ("head", "all")
    )
    head, all_ = (network_size(plan, plan.cells[0]) for plan in (one, whole))
    assert head.features == all_.features
    assert head.bytes == 4 * (head.features + 1) * one.cells[0].embedding_size
    file = next(Path(str(SKETCHES)).parent.glob("small-*.safetensors"))
    numbers = sum(tensor.numel() for tensor in load_file(file).values())  # stored as halves
    assert all_.bytes - head.bytes == 4 * numbers


def test_the_cache_is_counted_before_and_is_exact_for_features(config: MakeConfig) -> None:
    study = config(
        losses=["triplet"], backbone="small", weights="pretrained", train="head", views=1,
        max_classes=12, baselines=False,
    )  # fmt: skip
    plan = expand(study)
    before = cache_disk(plan)
    for each in feature_passes(plan):
        extract(each)
    header = 128  # of a .npy file
    written = [each.folder / "features.npy" for each in feature_passes(plan)]
    assert before == sum(file.stat().st_size - header for file in written) == cache_disk(plan)
