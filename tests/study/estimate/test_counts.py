"""A plan counts right."""

from __future__ import annotations

from study.config.plan import expand
from study.estimate.counts import count_cells, first_settings, totals
from tests.conftest import MakeConfig


def test_trials_and_epochs_are_counted(config: MakeConfig) -> None:
    cells = {
        cell.label: cell
        for cell in count_cells(
            expand(config(search_trials=8, reproductions=3, epochs=8, grace=2, reduction=2))
        )
    }
    searched, default = cells["triplet/fixed_validation"], cells["triplet/default"]
    assert (searched.search_trials, searched.final_trials) == (8, 3)
    assert (
        searched.epochs == searched.model_epochs == (8 + 7 * 4 + 3 * 8, 8 * 8 + 3 * 8)
    )  # the published setting is never stopped
    assert (default.search_trials, default.final_trials, default.epochs) == (0, 3, (24, 24))
    assert (searched.rule, default.rule) == ("selected-on-validation", "best-on-test")


def test_rungs_are_those_of_a_search(config: MakeConfig) -> None:
    study = config(epochs=8, grace=2, reduction=2)
    assert totals(expand(study), count_cells(expand(study)))["rungs"] == [2, 4]
    study = config(epochs=8, grace=2, reduction=2, protocols=["default"])
    assert totals(expand(study), count_cells(expand(study)))["rungs"] == []


def test_the_models_of_folds_are_counted_and_a_refit_has_one(config: MakeConfig) -> None:
    study = config(
        losses=["triplet"],
        protocols=["k_fold:5"],
        search_trials=4,
        reproductions=2,
        epochs=2,
        grace=2,
        refit=True,
    )
    plan = expand(study)
    (cell,) = count_cells(plan)
    assert (cell.models, cell.search_trials, cell.final_trials) == (5, 4, 2 * 2)
    assert cell.epochs == (8 * 2, 8 * 2)
    assert cell.model_epochs == ((4 * 2 + 2 * 2) * 5 + 2 * 2,) * 2
    assert totals(plan, [cell])["model_epochs"] == [64, 64]


def test_a_cell_with_epochs_of_its_own_is_counted_with_them(config: MakeConfig) -> None:
    study = config(
        losses=["triplet", "contrastive"],
        protocols=["default"],
        where=[{"loss": "triplet", "epochs": 7}],
    )
    assert [cell.epochs for cell in count_cells(expand(study))] == [(2 * 7,) * 2, (2 * 2,) * 2]


def test_the_first_settings_start_with_the_published_one(config: MakeConfig) -> None:
    study = config(search_trials=8)
    plan = expand(study)
    for loss in study.losses:
        first = first_settings(plan, loss)
        assert first[0] == plan.published(loss)
        assert len(first) == 3
    assert len(first_settings(expand(config(protocols=["default"])), "triplet")) == 1


def test_a_sweep_of_fewer_levels_keeps_the_ends_of_each_grid(config: MakeConfig) -> None:
    study = config(losses=["multi_similarity"], strategy="coordinate", grid_levels=3)
    plan = expand(study)
    levels = {key: param.levels() for key, param in plan.space("multi_similarity").items()}
    assert levels == {
        "loss.margin": (0, 0.5, 1),
        "loss.alpha": (2, 50, 100),
        "loss.beta": (2, 50, 100),
        "loss.epsilon": (0, 0.5, 1),
    }
    assert plan.trials(plan.cells[1])[0] == 4 * 3
