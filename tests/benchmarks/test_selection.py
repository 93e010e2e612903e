"""benchmarks/selection.py finds signal, noise, optimism and prediction that were put in."""

from __future__ import annotations

import importlib
from types import ModuleType

import numpy as np
import pytest

from tests.support import ROOT


@pytest.fixture
def selection(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("selection")


def scores(*, settings: float, noise: float, epochs: int = 1) -> np.ndarray:
    rng = np.random.default_rng(0)
    own, split = settings * rng.normal(size=(200, 1, 1)), rng.normal(size=(1, 20, 1))
    return own + split + noise * rng.normal(size=(200, 20, epochs))


def test_signal_is_between_settings_and_noise_within_them_without_what_splits_share(
    selection: ModuleType,
) -> None:
    signal, noise = selection.signal_and_noise(scores(settings=0.3, noise=0.1))
    assert signal == pytest.approx(0.3, rel=0.1)
    assert noise == pytest.approx(0.1, rel=0.1)
    assert selection.signal_and_noise(scores(settings=0, noise=0.1))[0] < 0.01


def test_best_epochs_are_too_good_by_their_noise_only(selection: ModuleType) -> None:
    assert selection.optimism(scores(settings=0.3, noise=0, epochs=8)) == pytest.approx(0)
    # The largest of eight normal numbers is 1.42 sd above their mean.
    found = selection.optimism(scores(settings=0.3, noise=0.1, epochs=8))
    assert found == pytest.approx(0.142, rel=0.1)


def test_noiseless_scores_predict_the_end_and_regret_nothing(selection: ModuleType) -> None:
    exact, useless = scores(settings=0.3, noise=0, epochs=3), scores(settings=0, noise=1, epochs=3)
    assert selection.prediction(exact, exact, 1) == pytest.approx(1)
    assert selection.regret(exact, exact) == pytest.approx(0)
    assert abs(selection.prediction(useless, exact, 1)) < 0.1
    assert selection.regret(useless, exact) > 10


def test_a_race_wins_back_what_noise_costs_and_nothing_where_there_is_none(
    selection: ModuleType,
) -> None:
    exact = scores(settings=0.3, noise=0)[:12, :6]
    assert selection.raced(exact, exact, finalists=3, splits=2) == pytest.approx((0, 0))
    noisy = exact + 0.2 * np.random.default_rng(1).normal(size=exact.shape)
    alone, race = selection.raced(noisy, exact, finalists=3, splits=2)
    assert 0 <= race < alone


def test_it_prints_a_row_per_loss_and_metric_of_what_ships(
    selection: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    selection.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "8 settings of each loss in 5 replicates, 24 epochs"
    rows = [line.split()[:2] for line in lines[2:8]]
    wanted = [[loss, metric] for loss in selection.LOSSES for metric in selection.METRICS]
    assert rows == wanted
    assert [line.split()[:2] for line in lines[-6:]] == wanted
