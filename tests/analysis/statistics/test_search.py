"""The worth of a search is that of the trials that ran, in their order."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics import best_so_far, best_within, importance, transfer, tunability
from analysis.statistics.transfer import transfers
from search_spaces import Choice, Range

SCORES = [0.1, 0.5, 0.3, 0.3, 0.9, 0.2]


def test_the_best_so_far_is_that_of_the_trials_that_ran() -> None:
    assert best_so_far(SCORES).tolist() == [0.1, 0.5, 0.5, 0.5, 0.9, 0.9]
    assert best_so_far([]).size == 0
    lost = best_so_far([np.nan, 0.4, np.nan, 0.3])
    assert np.isnan(lost[0])
    assert lost[1:].tolist() == [0.4, 0.4, 0.4]


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(1, 9)), min_size=1), st.integers(0, 100))
def test_the_best_within_a_budget_is_the_best_of_the_trials_that_fit(
    trials: list[tuple[float, int]], budget: int
) -> None:
    scores, epochs = [score for score, _ in trials], [ran for _, ran in trials]
    fits = [score for n, score in enumerate(scores) if sum(epochs[: n + 1]) <= budget]
    found = best_within(scores, epochs, budget)
    assert found == max(fits) if fits else np.isnan(found)
    assert best_within(scores, epochs, sum(epochs)) == max(scores)


def test_tunability_counts_settings_within_a_point() -> None:
    assert tunability([0.50, 0.51, 0.505, 0.4999]) == pytest.approx(3 / 4)
    assert tunability([0.3]) == 1
    assert np.isnan(tunability([]))


def test_the_parameter_that_makes_the_score_has_the_importance() -> None:
    rng = np.random.default_rng(0)
    settings = [
        {
            "margin": float(rng.random()),
            "rate": float(10 ** -(1 + 3 * rng.random())),
            "kind": str(rng.choice(["x", "y"])),
        }
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


def test_a_parameter_that_explains_nothing_has_no_importance() -> None:
    """Scores that centring left equal but for rounding; and equal settings that alone differ."""
    spread = [{"a": 0.1 * i} for i in range(24)]
    assert importance(spread, [0.0] * 8 + [-5.6e-17] * 8 + [0.0] * 8, {}) == {}
    assert importance([{"a": 0.1}] * 4 + [{"a": 0.2}] * 4, [0, 1] * 4, {}).keys() <= {"a"}


TRIALS = pd.DataFrame(
    {
        "cell": "c", "replicate": 1, "peeks": False,
        "loss": "triplet", "protocol": "fixed_validation",
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


def test_transfer_is_measured_within_a_replicate_and_averaged() -> None:
    """The second replicate's split is easier: pooled, its trials would all validate best."""
    easier = TRIALS.assign(replicate=2, **{"audit/select/map_at_r": [1.4, 1.3, 1.2, 1.1, None]})
    both = pd.concat([TRIALS, easier])
    row = transfers(both, test="audit/recall_at_1").set_index("way").loc["map_at_r"]
    each = [
        transfers(part, test="audit/recall_at_1").set_index("way").loc["map_at_r"]
        for part in (TRIALS, easier)
    ]
    assert (row["replicates"], row["trials"]) == (2, 8)
    for name in ("rank_correlation", "chosen", "best", "regret"):
        assert row[name] == pytest.approx(sum(one[name] for one in each) / 2)


def test_transfers_has_a_row_per_cell_and_way_and_none_without_an_audit() -> None:
    assert transfers(TRIALS, test="audit/recall_at_1")["way"].tolist() == [
        "recall_at_1",
        "map_at_r",
    ]
    assert transfers(TRIALS, test="audit/nothing").empty
    # What validates in a cell that peeks is the test.
    assert transfers(TRIALS.assign(peeks=True), test="audit/recall_at_1").empty
    assert transfers(pd.DataFrame(), test="audit/recall_at_1").empty
    assert transfer(TRIALS.iloc[:1], by="audit/select/map_at_r", test="audit/recall_at_1") is None
