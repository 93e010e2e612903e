"""What a search was worth, held against every order of its trials."""

from __future__ import annotations

from itertools import combinations
from math import comb
from statistics import fmean

import numpy as np
import pandas as pd
import pytest

from analysis.statistics import expected_best, importance, transfer, tunability
from analysis.statistics.transfer import transfers
from search_spaces import Choice, Range

SCORES = [0.1, 0.5, 0.3, 0.3, 0.9, 0.2]


def test_the_expected_best_of_k_is_the_mean_over_all_choices_of_k() -> None:
    by_hand = [fmean(max(chosen) for chosen in combinations(SCORES, k)) for k in range(1, len(SCORES) + 1)]
    assert expected_best(SCORES) == pytest.approx(by_hand)
    assert expected_best([]).size == 0
    assert expected_best([0.4]) == pytest.approx([0.4])


def test_of_many_trials_the_expected_best_is_that_of_the_slow_formula() -> None:
    scores = sorted(np.random.default_rng(1).random(60))
    slow = [sum(score * comb(i, k - 1) for i, score in enumerate(scores)) / comb(60, k) for k in range(1, 61)]
    assert expected_best(scores) == pytest.approx(slow)


def test_tunability_counts_settings_within_a_point() -> None:
    assert tunability([0.50, 0.51, 0.505, 0.4999]) == pytest.approx(3 / 4)
    assert tunability([0.3]) == 1
    assert np.isnan(tunability([]))


def test_the_parameter_that_makes_the_score_has_the_importance() -> None:
    rng = np.random.default_rng(0)
    settings = [
        {"margin": float(rng.random()), "rate": float(10 ** -(1 + 3 * rng.random())), "kind": str(rng.choice(["x", "y"]))}
        for _ in range(40)
    ]
    space = {"margin": Range(0, 1), "rate": Range(1e-4, 0.1, log=True), "kind": Choice(("x", "y"))}
    shares = importance(settings, [np.log10(setting["rate"]) for setting in settings], space)
    assert next(iter(shares)) == "rate"
    assert shares["rate"] > 0.9
    assert sum(shares.values()) == pytest.approx(1)


def test_importance_needs_trials_that_vary() -> None:
    assert importance([{"a": 0.1}] * 9, [0.1 * i for i in range(9)], {}) == {}
    assert importance([{"a": 0.1 * i} for i in range(9)], [0.5] * 9, {}) == {}
    assert importance([{"a": 0.1}, {"a": 0.2}], [0.1, 0.2], {}) == {}


TRIALS = pd.DataFrame(
    {
        "cell": "c", "loss": "triplet", "protocol": "fixed_validation", "peeks": False,
        "audit/select/recall_at_1": [0.9, 0.9, 0.5, 0.4, None],
        "audit/select/map_at_r": [0.1, 0.2, 0.3, 0.4, 0.9],
        "audit/recall_at_1": [0.5, 0.7, 0.8, 0.3, None],
    }
)  # fmt: skip


def test_regret_is_what_choosing_by_validation_costs() -> None:
    found = transfer(TRIALS, by="audit/select/recall_at_1", test="audit/recall_at_1")
    assert found
    assert (found.trials, found.best) == (4, 0.8)
    assert found.chosen == pytest.approx(0.6)  # two validate equally well
    assert found.regret == pytest.approx(0.2)


def test_rank_correlation_is_that_of_ranks() -> None:
    found = transfer(TRIALS, by="audit/select/map_at_r", test="audit/recall_at_1")
    assert found
    gaps = [(a - b) ** 2 for a, b in zip([1, 2, 3, 4], [2, 3, 4, 1], strict=True)]
    assert found.rank_correlation == pytest.approx(1 - 6 * sum(gaps) / (4 * (16 - 1)))


def test_transfers_has_a_row_per_cell_and_way_and_none_without_an_audit() -> None:
    assert transfers(TRIALS, test="audit/recall_at_1")["way"].tolist() == ["recall_at_1", "map_at_r"]
    assert transfers(TRIALS, test="audit/nothing").empty
    assert transfers(TRIALS.assign(peeks=True), test="audit/recall_at_1").empty  # what validates there is the test
    assert transfers(pd.DataFrame(), test="audit/recall_at_1").empty
    assert transfer(TRIALS.iloc[:1], by="audit/select/map_at_r", test="audit/recall_at_1") is None
