"""benchmarks/search.py compares four searches at equal epochs, with noise as recorded."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

import numpy as np
import pytest

from study.config.plan import expand
from tests.support import ROOT


@pytest.fixture
def search(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("search")


def test_four_searches_spend_the_same_epochs_and_the_ratio_is_in_the_headline(
    search: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["search.py", "--seeds", "2", "--budgets", "4"])
    search.main()
    lines = capsys.readouterr().out.splitlines()
    assert "grace 6, reduction 2, noise x 1, 2 seeds" in lines[0]
    first = lines.index("hyperopt with 4 trials, by the epoch of the first rung") + 2
    rungs = [line.split() for line in lines[first : first + 4]]
    assert [rung[0] for rung in rungs] == ["2", "6", "12", "never"]
    epochs = [int(rung[1]) for rung in rungs]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 4 * 24
    rows = lines[lines.index("budget: 4 trials of 24 epochs") + 2 :][:4]
    assert [row[:17].strip() for row in rows] == list(search.SEARCHES)
    # 24 epochs of the published setting, and 12 expected of every other: 7 trials are 96 epochs.
    assert [int(row[17:26]) for row in rows] == [4, 7, 4, 7]
    assert lines[-1].startswith("Times fewer epochs than random search, to the same regret")


def test_departures_leave_out_settings_and_replicates_and_have_the_variance_of_one_trial(
    search: ModuleType,
) -> None:
    rng = np.random.default_rng(0)
    settings, replicates = rng.normal(size=(40, 1, 1)), rng.normal(size=(1, 30, 1))
    found = search.departures(settings + replicates + 0.1 * rng.normal(size=(40, 30, 2)))
    assert found.shape == (40 * 30, 2)
    assert found.std() == pytest.approx(0.1, rel=0.05)
    parts = found.reshape(40, 30, 2)
    assert np.allclose(parts.mean(0), 0)
    assert np.allclose(parts.mean(1), 0)


def test_noise_is_the_same_for_a_setting_of_one_seed_and_differs_between_seeds(
    search: ModuleType,
) -> None:
    plan = expand(search.study(losses=["margin"]))
    setting = plan.published("margin")
    curves = {
        (seed, noise): search.noisy(plan, seed, noise=noise)["margin"].at(setting)
        for seed in (1, 2, 3)
        for noise in (0, 1)
    }
    assert curves[1, 1] == search.noisy(plan, 1, noise=1)["margin"].at(setting)
    assert curves[1, 0] == curves[2, 0] == curves[3, 0]
    assert len({tuple(curves[seed, 1]) for seed in (1, 2, 3)}) > 1
    assert all(len(curve) == 24 for curve in curves.values())


def test_the_strict_ratio_counts_until_random_search_stays_at_its_last_regret(
    search: ModuleType,
) -> None:
    slow = np.array([[5.0, 4, 2, 2, 2, 2]])  # it ends with 2, and has it after 3 epochs
    assert search.strict_ratio(slow, np.array([[2.0] * 6])) == 3
    assert search.strict_ratio(slow, slow) == 1
    assert search.strict_ratio(slow, np.array([[3.0] * 6])) == 0
    assert search.strict_ratio(slow, np.array([[2.0, 5, 5, 5, 5, 5]])) == 0, "it does not stay"
    assert search.strict_ratio(slow, np.array([[2.0, 5, 2, 2, 2, 2]])) == 1


def test_no_race_of_finalists_counts_as_a_search(search: ModuleType) -> None:
    plan = expand(search.study(losses=["margin"], search_trials=16))
    assert not plan.races(plan.cells[0])


def test_a_search_with_early_stopping_has_the_trials_that_are_expected_to_take_its_epochs(
    search: ModuleType,
) -> None:
    # The published setting takes 24 epochs, any other 6 + 6/2 + 12/4 = 12.
    assert search.trials_for(8 * 24, grace=6, reduction=2) == 1 + 7 * 2
    assert search.trials_for(8 * 24, grace=24, reduction=2) == 8
