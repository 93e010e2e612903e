"""Estimates equal slow derivations with plain loops."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import sqrt
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from scipy.stats import studentized_range, t

from analysis.statistics import (
    Estimate,
    Sample,
    Variance,
    average,
    differences,
    estimates,
    mean_of,
    pairs,
    unpaired,
    unrelated,
)
from analysis.statistics.mixed import BORROWED
from analysis.statistics.quantiles import range_quantile
from tests.support.samples import losses, sample

Rows = list[list[float]]


class Parts(NamedTuple):
    """Hold all that an interval is made of."""

    value: float
    v_c: float
    class_df: float
    v_s: float
    df: float
    v_e: float


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def variance(values: list[float]) -> float:
    return sum((value - mean(values)) ** 2 for value in values) / (len(values) - 1)


def parts(rows: Rows, counts: list[float]) -> tuple[float, float, float, float, float]:
    """Return the value, V_C, its degrees of freedom, the variance over replicates, and V_E."""
    shares = [count / sum(counts) for count in counts]
    replicates, classes = len(rows), len(counts)
    by_replicate = [sum(w * x for w, x in zip(shares, row, strict=True)) for row in rows]
    by_class = [mean([row[c] for row in rows]) for c in range(classes)]
    value = mean(by_replicate)
    v_c = sum((shares[c] * (by_class[c] - value)) ** 2 for c in range(classes))
    v_c *= classes / (classes - 1)
    v_e = 0.0
    for r in range(replicates):
        for c in range(classes):
            rest = rows[r][c] - by_class[c] - by_replicate[r] + value
            v_e += (shares[c] * rest) ** 2
    v_e *= classes / (classes - 1) / (replicates * (replicates - 1))
    df = sum(w**2 for w in shares) ** 2 / sum(w**4 for w in shares) - 1
    return value, v_c, df, variance(by_replicate), v_e


def combine(
    found: tuple[float, ...], own: float, pool: float, *, rest: float, contrasts: int
) -> Parts:
    """Return the parts of one sample's estimate; own: degrees of freedom of its replicates."""
    value, v_c, class_df, s2, v_e = found
    weight = min(BORROWED, rest)
    drawn = (weight * pool + own * s2) / (weight + own)
    v_s = drawn / (own + 1)
    share = (weight / contrasts + own) / (weight + own)
    exact = 1 / (share**2 / own + ((1 - share) ** 2 / rest if rest else 0))
    df = min(weight + own, exact)
    return Parts(value, v_c, class_df, v_s, df, v_e)


def parts_of(found: Estimate) -> Parts:
    classes, replicates = found.classes, found.replicates
    every = (classes.value, classes.df, replicates.value, replicates.df, found.residual)
    return Parts(float(found.value), *(float(each) for each in every))


def same(found: Estimate, expected: Estimate | Parts) -> None:
    whole = expected if isinstance(expected, Parts) else parts_of(expected)
    assert parts_of(found) == pytest.approx(whole)


@pytest.mark.parametrize("among", [2, 5])
@pytest.mark.parametrize("residual", [0.0, 0.5, 2.0, 4.0])
def test_an_interval_adds_each_variance_with_its_own_quantile(residual: float, among: int) -> None:
    found = Estimate(
        np.asarray(7.0),
        Variance(np.asarray(3.0), 30.0),
        Variance(np.asarray(1.0), 2.0),
        np.asarray(residual),
    )
    often, seldom = (studentized_range.ppf(0.95, among, df) ** 2 / 2 for df in (30, 2))
    squared = max(seldom * 1 + often * max(3 - residual, 0), often * 3)
    low, high = found.interval(among=among)
    assert (low, high) == pytest.approx((7 - sqrt(squared), 7 + sqrt(squared)), rel=1e-3)
    assert float(found.variance) == pytest.approx(max(4 - residual, 3))


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize(("count", "replicates"), [(2, 3), (3, 2), (4, 3), (7, 5)])
def test_a_pair_is_its_formula(count: int, replicates: int, uneven: bool) -> None:
    made = losses(count, count, replicates, uneven=uneven)
    counts = [float(each) for each in made["loss 0"].counts]
    gaps = {
        (a, b): [
            [x - y for x, y in zip(one, other, strict=True)]
            for one, other in zip(made[a].means.tolist(), made[b].means.tolist(), strict=True)
        ]
        for a, b in combinations(made, 2)
    }
    found = pairs(made)
    pool = mean([parts(rows, counts)[3] for rows in gaps.values()])
    own = replicates - 1
    for pair, rows in gaps.items():
        expected = combine(
            parts(rows, counts), own, pool, rest=(count - 2) * own, contrasts=count - 1
        )
        same(found[pair], expected)


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize(("count", "replicates"), [(1, 3), (2, 3), (5, 4)])
def test_a_number_is_its_formula(count: int, replicates: int, uneven: bool) -> None:
    made = losses(count, count, replicates, uneven=uneven)
    counts = [float(each) for each in made["loss 0"].counts]
    shares = [each / sum(counts) for each in counts]
    rows = {loss: one.means.tolist() for loss, one in made.items()}
    by_replicate = {
        loss: [sum(w * x for w, x in zip(shares, row, strict=True)) for row in each]
        for loss, each in rows.items()
    }
    own = replicates - 1
    pool = mean([variance(each) for each in by_replicate.values()])
    common = variance(
        [mean([each[r] for each in by_replicate.values()]) for r in range(replicates)]
    )
    rest = 0.0
    if count > 1:
        spent = common**2 / own + (pool - common) ** 2 / ((count - 1) * own)
        rest = max(pool**2 / spent, own) - own
    for loss, estimate in estimates(made).items():
        same(estimate, combine(parts(rows[loss], counts), own, pool, rest=rest, contrasts=count))


def test_raw_rows_give_the_plain_mean_and_runs_of_one_replicate_are_averaged() -> None:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        [
            {"run_id": run, "class": label, "m": rng.random()}
            for run in ("a", "b", "c")
            for label in (3, 7, 9)
            for _ in range(label)
        ]
    )
    found = Sample.of(rows, "m", {"a": 2, "b": 1, "c": 2})
    assert found.replicates == (1, 2)
    assert found.counts.tolist() == [3, 7, 9]
    by_run = rows.groupby("run_id")["m"].mean()
    expected = [by_run["b"], (by_run["a"] + by_run["c"]) / 2]
    assert found.by_replicate().tolist() == pytest.approx(expected)


def test_one_replicate_leaves_the_variance_of_a_mean_over_classes() -> None:
    values = np.random.default_rng(1).random((1, 40))
    (found,) = estimates({"x": sample(values)}).values()
    assert float(found.variance) == pytest.approx(values.var(ddof=1) / 40)
    assert float(found.classes.df) == pytest.approx(39)
    low, high = found.interval()
    reach = t.ppf(0.975, 39) * sqrt(values.var(ddof=1) / 40)
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach))


def test_equal_classes_leave_the_variance_of_a_mean_over_replicates() -> None:
    values = np.tile(np.array([[0.2], [0.5], [0.6]]), (1, 30))
    (found,) = estimates({"x": sample(values)}).values()
    assert float(found.variance) == pytest.approx(np.var([0.2, 0.5, 0.6], ddof=1) / 3)
    assert float(found.replicates.df) == pytest.approx(2)


def test_a_shared_effect_of_replicates_cancels_in_a_pair_and_lends_no_freedom_to_a_number() -> None:
    made = losses(3)
    lucky = np.array([[5.0], [0.0], [-5.0]])
    moved = {loss: replace(one, means=one.means + lucky) for loss, one in made.items()}
    for pair, estimate in pairs(moved).items():
        same(estimate, pairs(made)[pair])
    for estimate in estimates(moved).values():
        assert float(estimate.replicates.df) == pytest.approx(2, abs=0.3)


def test_a_pair_uses_the_replicates_that_both_have() -> None:
    made = losses(4, count=2, replicates=4)
    one, other = made.values()
    without = Sample(other.means[1:], other.counts, other.replicates[1:])
    cut = Sample(one.means[1:], one.counts, one.replicates[1:])
    (found,) = pairs({"a": one, "b": without}).values()
    (expected,) = pairs({"a": cut, "b": without}).values()
    same(found, expected)


def test_a_loss_with_one_replicate_left_borrows_the_spread_of_the_others() -> None:
    made = losses(5, count=4)
    last = made["loss 3"]
    made["loss 3"] = Sample(last.means[:1], last.counts, last.replicates[:1])
    found = pairs(made)
    pool = mean(
        [variance(made[a].minus(made[b]).by_replicate().tolist()) for a, b in list(found)[:1]]
    )
    assert float(found["loss 0", "loss 3"].variance) > pool / 10
    assert np.isfinite(found["loss 0", "loss 3"].interval()).all()


def test_without_shared_replicates_their_variances_add_and_classes_stay_paired() -> None:
    made = losses(6, count=2, classes=30)
    one, other = made.values()
    later = replace(other, replicates=(7, 8, 9))
    found = unpaired(one, later)
    counts = [10.0] * 30
    mine, yours = parts(one.means.tolist(), counts), parts(other.means.tolist(), counts)
    gap = [[float(x) for x in one.by_class() - other.by_class()]] * 2
    v_c = parts(gap, counts)[1]
    v_s = mine[3] / 3 + yours[3] / 3
    expected = max(v_c + v_s - mine[4] - yours[4], v_c, v_s)
    assert float(found.variance) == pytest.approx(expected)
    same(pairs({"a": one, "b": later})["a", "b"], found)
    same(differences({"x": (one, later)})["x"], found)


def test_unrelated_estimates_add_their_variances_and_datasets_average_them() -> None:
    one, other = estimates(losses(7, count=2)).values()
    apart, averaged = unrelated(one, other), mean_of([one, other])
    assert float(apart.value) == pytest.approx(float(one.value - other.value))
    assert float(apart.variance) == pytest.approx(float(one.variance + other.variance))
    assert float(averaged.value) == pytest.approx(float(one.value + other.value) / 2)
    assert float(averaged.variance) == pytest.approx(float(apart.variance) / 4)
    for name in ("classes", "replicates"):
        first, second, both = (float(getattr(e, name).df) for e in (one, other, apart))
        assert float(getattr(averaged, name).df) == pytest.approx(both)
        assert min(first, second) <= both <= first + second


def test_what_was_scored_once_is_the_same_in_every_replicate() -> None:
    made = losses(8, count=1)["loss 0"]
    pixels = sample(np.full((1, 12), 0.3))
    (found,) = differences({"x": (made, pixels.repeated(made.replicates))}).values()
    (own,) = estimates({"x": made}).values()
    assert float(found.variance) == pytest.approx(float(own.variance))
    assert float(found.value) == pytest.approx(float(own.value) - 0.3)


def test_cells_of_one_dataset_are_averaged_by_replicate_and_class() -> None:
    one, other = losses(9, count=2).values()
    found = average([one, Sample(other.means[1:], other.counts, other.replicates[1:])])
    assert found.replicates == one.replicates[1:]
    assert found.means == pytest.approx((one.means[1:] + other.means[1:]) / 2)


def one_of(found: Estimate, number: int) -> Estimate:
    """Return one study's estimate of several."""
    classes, replicates = (
        Variance(part.value[number], np.broadcast_to(part.df, part.value.shape)[number])
        for part in (found.classes, found.replicates)
    )
    return Estimate(found.value[number], classes, replicates, found.residual[number])


def test_several_studies_at_once_are_each_its_own() -> None:
    studies = [losses(seed) for seed in (10, 11)]
    both = {
        loss: replace(one, means=np.stack([study[loss].means for study in studies]))
        for loss, one in studies[0].items()
    }
    for estimate_all in (estimates, pairs):
        for key, found in estimate_all(both).items():
            for number, study in enumerate(studies):
                own = estimate_all(study)[key]  # type: ignore[index]
                same(one_of(found, number), own)


@pytest.mark.parametrize("groups", [2, 3, 10])
@pytest.mark.parametrize("df", [1, 1.2, 2.6, 8, 44, 1e6])
def test_quantiles_are_those_of_the_studentized_range(groups: int, df: float) -> None:
    expected = studentized_range.ppf(0.95, groups, df)
    assert float(range_quantile(groups, np.asarray(df))) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("groups", [3, 40])
@pytest.mark.parametrize("level", [0.5, 0.99])
def test_quantiles_between_which_others_are_interpolated_are_exact(
    groups: int, level: float
) -> None:
    df = np.array([1, 1.5, 30])
    expected = studentized_range.ppf(level, groups, df)
    np.testing.assert_allclose(range_quantile(groups, df, level), expected, rtol=1e-6)


def test_the_chance_to_be_ahead_is_students() -> None:
    found = Estimate(
        np.asarray(0.02),
        Variance(np.zeros(()), 9.0),
        Variance(np.asarray(0.0001), 5.0),
        np.zeros(()),
    )
    assert found.above() == pytest.approx(1 - t.sf(2, 5))
    assert found.turned().above() == pytest.approx(1 - found.above())
    certain = replace(found, replicates=Variance(np.zeros(()), 5.0))
    assert (certain.above(), certain.turned().above(), certain.above(0.02)) == (1, 0, 0.5)


def scattered(ids: dict[str, tuple[int, ...]]) -> dict[str, Sample]:
    """Return losses whose replicates vary by 0.02 and whose classes vary by little."""
    rng = np.random.default_rng(3)
    found = {}
    for loss, mine in ids.items():
        effects = dict(zip((1, 2, 3), 0.02 * rng.normal(size=3), strict=True))
        means = np.stack([effects[each] + 0.001 * rng.normal(size=40) for each in mine])
        found[loss] = Sample(means, np.ones(40), mine)
    return found


def test_a_pair_that_shares_one_replicate_does_not_take_classes_for_all_that_varies() -> None:
    some = pairs(scattered({"a": (2, 3), "b": (1, 3), "c": (1, 2), "d": (1, 2, 3)}))
    whole = pairs(scattered(dict.fromkeys("abcd", (1, 2, 3))))
    for pair, found in some.items():
        assert found.variance > whole[pair].variance / 10, pair
        assert found.reach() > t.ppf(0.975, 39) * sqrt(found.variance), "not the classes' own"


def test_where_no_two_losses_share_two_replicates_no_difference_is_shown() -> None:
    for ids in ({"a": (1, 2), "b": (2, 3)}, {"a": (1, 2), "b": (3,)}):
        (found,) = pairs(scattered(ids)).values()
        low, high = found.interval()
        assert low < -1 < 1 < high
