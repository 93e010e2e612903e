"""A plan counts right and estimates from real training."""

from __future__ import annotations

from study.planning import estimate, plan_cells
from tests.conftest import MakeConfig


def test_trials_and_epochs_are_counted(config: MakeConfig) -> None:
    cells = {cell.label: cell for cell in plan_cells(config(search_trials=8, reproductions=3, epochs=8, grace=2, reduction=2))}
    searched, default = cells["triplet/fixed_validation"], cells["triplet/default"]
    assert (searched.search_trials, searched.final_trials) == (8, 3)
    assert searched.epochs == (8 * 4 + 3 * 8, 8 * 8 + 3 * 8)
    assert (default.search_trials, default.final_trials, default.epochs) == (0, 3, (24, 24))
    assert (searched.rule, default.rule) == ("selected-on-validation", "best-on-test")


def test_the_first_settings_start_with_the_published_one(config: MakeConfig) -> None:
    study = config(search_trials=8)
    for cell, plan in zip(study.cells(), plan_cells(study), strict=True):
        assert plan.first_settings[0] == study.published(cell.loss)
        assert len(plan.first_settings) == (3 if plan.search_trials else 1)


def test_twice_the_epochs_cost_more_and_more_slots_cost_less(config: MakeConfig) -> None:
    changes = {"losses": ["contrastive"], "protocols": ["fixed_validation"], "steps_per_epoch": 2000}
    short, long = (estimate(config(**changes, epochs=epochs), slots=1) for epochs in (2, 8))
    assert long["seconds"][1] > 2 * short["seconds"][1]
    assert estimate(config(**changes, epochs=8), slots=8)["seconds"][1] < long["seconds"][1] / 2
    assert short["seconds"][0] <= short["seconds"][1]
    assert short["disk_bytes"] > 0
