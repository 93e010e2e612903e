"""Intervals against derivations of their own."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from analysis.statistics import ClassSums, bootstrap, differences, interval, leaves_out_zero, rank_groups, rank_intervals


def sums(values: np.ndarray, per_class: int = 10) -> ClassSums:
    """values: (seeds, classes) class means."""
    return ClassSums(values * per_class, np.full(values.shape[1], float(per_class)))


def test_class_sums_of_raw_rows_give_the_plain_mean() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        [{"run_id": run, "class": label, "m": rng.random()} for run in ("a", "b") for label in (3, 7, 9) for _ in range(label)]
    )
    found = ClassSums.of(rows, "m", ["b", "a"])
    assert found.mean() == pytest.approx(rows["m"].mean())
    assert found.counts.tolist() == [3, 7, 9]
    assert found.sums.sum(axis=1).tolist() == pytest.approx([rows.loc[rows["run_id"] == run, "m"].sum() for run in ("b", "a")])


def test_with_one_seed_the_variance_is_that_of_a_mean_over_classes() -> None:
    values = np.random.default_rng(1).random((1, 40))
    drawn = bootstrap({"x": sums(values)}, draws=40_000)["x"]
    assert drawn.var() == pytest.approx(values.var(ddof=1) / 40, rel=0.05)


def test_with_equal_classes_the_variance_is_that_of_a_mean_over_seeds() -> None:
    values = np.tile(np.array([[0.2], [0.5], [0.6]]), (1, 30))
    drawn = bootstrap({"x": sums(values)}, draws=40_000)["x"]
    assert drawn.var() == pytest.approx(np.var([0.2, 0.5, 0.6], ddof=1) / 3, rel=0.05)


def test_classes_are_weighted_by_their_queries() -> None:
    group = ClassSums(np.array([[10.0, 0.0]]), np.array([10.0, 30.0]))
    assert group.mean() == 0.25
    # Of two classes one is drawn: the worlds are 1 and 0, never the unweighted mean.
    assert set(bootstrap({"x": group})["x"]) == {0.0, 1.0}


def test_shared_classes_make_differences_paired() -> None:
    classes = np.random.default_rng(2).random((1, 50))
    worlds = bootstrap({"a": sums(classes), "b": sums(classes + 0.1)})
    assert np.allclose(worlds["b"] - worlds["a"], 0.1)


def test_seeds_of_different_groups_are_drawn_independently() -> None:
    values = np.tile(np.array([[0.2], [0.5], [0.6]]), (1, 30))
    worlds = bootstrap({"a": sums(values), "b": sums(values)}, draws=20_000)
    assert abs(np.corrcoef(worlds["a"], worlds["b"])[0, 1]) < 0.05


def test_groups_that_are_tied_share_their_drawn_seeds() -> None:
    values = np.tile(np.array([[0.2], [0.5], [0.6]]), (1, 30))
    groups = {"a": sums(values), "b": sums(values + 0.1), "c": sums(values)}
    worlds = bootstrap(groups, ties={"a": "same", "b": "same"})
    assert np.allclose(worlds["b"] - worlds["a"], 0.1)
    assert np.array_equal(worlds["a"], bootstrap({"a": groups["a"]})["a"])
    assert (worlds["c"] - worlds["a"]).std() > 0.05


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """200 simulated studies: class effects and seed effects around a known mean."""
    rng = np.random.default_rng(3)
    covered = 0
    for i in range(200):
        values = 0.3 + rng.normal(0, 0.1, (1, 80)) + rng.normal(0, 0.004, (5, 1)) + rng.normal(0, 0.02, (5, 80))
        low, high = interval(bootstrap({"x": sums(values)}, draws=600, seed=i)["x"])
        covered += low <= 0.3 <= high
    assert 0.90 <= covered / 200 <= 0.99


def test_one_pair_has_the_interval_of_its_difference() -> None:
    rng = np.random.default_rng(7)
    worlds = {"a": rng.normal(0.5, 0.1, 40_000), "b": rng.normal(0.3, 0.1, 40_000)}
    ends = differences(worlds)["a", "b"]
    assert ends == pytest.approx(interval(worlds["a"] - worlds["b"]), abs=0.005)
    assert differences({"a": worlds["a"]}) == {}


def test_the_intervals_of_all_pairs_hold_together() -> None:
    rng = np.random.default_rng(8)
    worlds = {name: rng.normal(0, 1, 4000) for name in "abcdefgh"}
    ends = differences(worlds)
    inside = np.all([(low <= worlds[a] - worlds[b]) & (worlds[a] - worlds[b] <= high) for (a, b), (low, high) in ends.items()], axis=0)
    assert inside.mean() == pytest.approx(0.95, abs=0.001)


def test_a_loss_whose_seeds_scatter_does_not_hide_the_difference_of_two_others() -> None:
    rng = np.random.default_rng(10)
    worlds = {"steady": rng.normal(0.5, 0.01, 4000), "behind": rng.normal(0.4, 0.01, 4000), "scattered": rng.normal(0.45, 0.3, 4000)}
    assert [pair for pair, ends in differences(worlds).items() if leaves_out_zero(ends)] == [("steady", "behind")]


def test_ten_equal_losses_seldom_have_more_than_one_letter() -> None:
    """60 studies of three seeds and 100 classes; intervals of each pair by itself had told some pair apart in more than half of them."""
    rng = np.random.default_rng(9)
    several = by_themselves = 0
    for i in range(60):
        classes = rng.normal(0.6, 0.1, (1, 100))
        groups = {}
        for loss in "abcdefghij":
            seeds = rng.normal(0, 0.005, (3, 1)) + rng.normal(0, 0.03, (3, 100))
            groups[loss] = sums(classes + rng.normal(0, 0.05, (1, 100)) + seeds)
        worlds = bootstrap(groups, draws=300, seed=i)
        best_first = dict(sorted(worlds.items(), key=lambda item: -groups[item[0]].mean()))
        several += len(set("".join(rank_groups(best_first).values()))) > 1
        by_themselves += any(leaves_out_zero(interval(worlds[a] - worlds[b])) for a, b in combinations(worlds, 2))
    assert several / 60 <= 0.1
    assert by_themselves / 60 > 0.4


def test_rank_intervals_separate_what_is_far_apart_and_join_what_is_close() -> None:
    classes = np.random.default_rng(4).random((3, 60))
    noise = np.random.default_rng(5).normal(0, 0.2, (3, 60))
    worlds = bootstrap({"best": sums(classes + 0.5), "close": sums(classes + noise), "same": sums(classes)})
    spans = rank_intervals(worlds)
    assert spans["best"] == (1, 1)
    assert spans["close"] == spans["same"] == (2, 3)


def test_the_same_rows_give_the_same_interval() -> None:
    group = {"x": sums(np.random.default_rng(6).random((3, 20)))}
    assert interval(bootstrap(group)["x"]) == interval(bootstrap(group)["x"])


def test_equal_groups_share_the_ranks_that_they_fill() -> None:
    worlds = np.random.default_rng(0).normal(0.5, 0.1, 1000)
    spans = rank_intervals({"a": worlds, "b": worlds + 1e-16, "behind": worlds - 1})
    assert spans == {"a": (1, 2), "b": (1, 2), "behind": (3, 3)}
