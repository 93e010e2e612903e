"""Intervals obey their laws on random inputs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t

from analysis.statistics import (
    Sample,
    ahead_of,
    all_intervals,
    estimates,
    in_order,
    pairs,
    rank_intervals,
)
from analysis.statistics.mixed import BORROWED
from tests.support.samples import losses


def with_gaps(made: dict[str, Sample], seed: int) -> dict[str, Sample]:
    """Return the losses without some of their replicates; each keeps one or more."""
    rng, found = np.random.default_rng(seed), {}
    for loss, one in made.items():
        count = rng.integers(1, len(one.replicates) + 1)
        rows = sorted(rng.permutation(len(one.replicates))[:count])
        found[loss] = Sample(one.means[rows], one.counts, tuple(one.replicates[i] for i in rows))
    return found


whole_losses = st.builds(
    losses,
    st.integers(0, 10_000),
    count=st.integers(2, 6),
    replicates=st.integers(1, 5),
    classes=st.integers(2, 15),
    uneven=st.booleans(),
)
made_losses = whole_losses | st.builds(with_gaps, whole_losses, st.integers(0, 10_000))


@given(made_losses)
def test_a_pair_turned_round_has_the_interval_turned_round(made: dict[str, Sample]) -> None:
    back = pairs(dict(reversed(made.items())))
    for (one, other), gap in pairs(made).items():
        low, high = gap.interval(among=len(made))
        expected = back[other, one].interval(among=len(made))
        assert (-high, -low) == pytest.approx(expected, abs=1e-9)


@given(made_losses, st.floats(-5, 5), st.integers(0, 1000))
def test_a_constant_and_the_order_of_classes_and_replicates_change_no_interval(
    made: dict[str, Sample], constant: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    first = next(iter(made.values()))
    columns, moved = rng.permutation(len(first.counts)), {}
    for loss, one in made.items():
        rows = rng.permutation(len(one.replicates))
        ids = tuple(one.replicates[row] for row in rows)
        means = one.means[rows][:, columns] + constant
        moved[loss] = Sample(means, one.counts[columns], ids)
    for pair, gap in pairs(moved).items():
        assert gap.interval() == pytest.approx(pairs(made)[pair].interval(), abs=1e-9)
    for loss, number in estimates(moved).items():
        low, high = estimates(made)[loss].interval()
        assert number.interval() == pytest.approx((low + constant, high + constant), abs=1e-9)


@given(made_losses)
def test_no_variance_is_below_that_of_classes_or_the_share_of_its_own_replicates(
    made: dict[str, Sample],
) -> None:
    for (one, other), gap in pairs(made).items():
        own = made[one].minus(made[other])
        if not own.replicates:
            continue
        weights, by_class = own.weights, own.by_class()
        gaps = weights * (by_class - weights @ by_class)
        v_c = float((gaps**2).sum()) * len(weights) / (len(weights) - 1)
        assert float(gap.variance) >= v_c - 1e-12
        df = len(own.replicates) - 1
        if df:
            v_s = float(own.by_replicate().var(ddof=1)) / (df + 1)
            assert float(gap.variance) >= df / (df + BORROWED) * v_s - 1e-12
        assert gap.replicates.df >= 1
        assert gap.classes.df >= 1


@given(made_losses)
def test_an_interval_is_no_shorter_than_that_of_test_classes_or_of_replicates_alone(
    made: dict[str, Sample],
) -> None:
    for gap in pairs(made).values():
        for alone in (gap.classes, gap.replicates):
            single = t.ppf(0.975, alone.df) * np.sqrt(alone.value)
            assert gap.reach() >= single * (1 - 1e-9)


@given(made_losses, st.floats(-0.5, 0.5))
def test_a_chance_is_that_of_the_interval_which_ends_at_the_limit(
    made: dict[str, Sample], limit: float
) -> None:
    for gap in pairs(made).values():
        chance = gap.above(limit)
        assert gap.turned().above(-limit) == pytest.approx(1 - chance, abs=1e-6)
        low, high = gap.interval()
        assert chance == pytest.approx(0.975, abs=1e-6) or (chance > 0.975) == (limit < low)
        assert chance == pytest.approx(0.025, abs=1e-6) or (chance < 0.025) == (limit > high)


@given(made_losses)
def test_intervals_for_all_pairs_are_wider_than_those_for_one(made: dict[str, Sample]) -> None:
    for gap in pairs(made).values():
        assert gap.reach(among=len(made)) >= gap.reach() * (1 - 1e-3)


@given(made_losses)
def test_a_pair_that_must_borrow_its_spread_has_no_less_than_the_others_have(
    made: dict[str, Sample],
) -> None:
    gaps = {(a, b): made[a].minus(made[b]).by_replicate() for a, b in pairs(made)}
    known = [gap for gap in gaps.values() if len(gap) > 1]
    if known:
        df = sum(len(gap) - 1 for gap in known)
        lent = sum(((gap - gap.mean()) ** 2).sum() for gap in known) / df
        for pair, gap in pairs(made).items():
            if len(gaps[pair]) == 1:
                assert gap.variance >= lent - 1e-12


@given(made_losses, st.floats(0, 3))
def test_a_rank_lies_in_its_own_interval_also_where_replicates_are_missing(
    made: dict[str, Sample], apart: float
) -> None:
    moved = {
        loss: Sample(one.means + apart * i, one.counts, one.replicates)
        for i, (loss, one) in enumerate(made.items())
    }
    ahead = ahead_of(all_intervals(moved))
    spans = rank_intervals(moved, ahead)
    order = in_order({loss: float(one.mean()) for loss, one in moved.items()}, ahead)
    for rank, loss in enumerate(order, start=1):
        assert spans[loss][0] <= rank <= spans[loss][1]


def test_who_is_ahead_in_all_shared_replicates_ranks_first() -> None:
    """The first loss has the higher mean, because of a replicate that the second one lacks."""
    rng = np.random.default_rng(0)
    scores = {"first": [0.5, 0.5, 0.95], "second": [0.6, 0.6]}
    made = {
        loss: Sample(
            np.array(mine)[:, None] + 0.001 * rng.normal(size=(len(mine), 40)),
            np.ones(40),
            tuple(range(1, len(mine) + 1)),
        )
        for loss, mine in scores.items()
    }
    values = {loss: float(one.mean()) for loss, one in made.items()}
    assert values["first"] > values["second"]
    ahead = ahead_of(all_intervals(made))
    assert in_order(values, ahead) == ["second", "first"]
    assert rank_intervals(made, ahead) == {"first": (2, 2), "second": (1, 1)}
