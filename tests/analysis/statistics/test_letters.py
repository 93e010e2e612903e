"""Letters and rank intervals mean what they say, for any pattern of pairs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics import (
    Sample,
    ahead_of,
    all_intervals,
    leaves_out_zero,
    letters,
    pairs,
    rank_intervals,
)

NAMES = st.integers(1, 8).map(lambda count: [f"loss {number}" for number in range(count)])


@st.composite
def patterns(draw: st.DrawFn) -> tuple[list[str], list[tuple[str, str]]]:
    """Return names, best first, and any set of pairs of which the first is ahead."""
    names = draw(NAMES)
    every = list(combinations(names, 2))
    chosen = draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    return names, [pair if draw(st.booleans()) else pair[::-1] for pair in chosen]


@given(patterns())
def test_two_losses_share_a_letter_exactly_if_neither_is_ahead(
    pattern: tuple[list[str], list[tuple[str, str]]],
) -> None:
    names, ahead = pattern
    found = letters(names, ahead)
    for one, other in combinations(names, 2):
        apart = (one, other) in ahead or (other, one) in ahead
        assert bool(set(found[one]) & set(found[other])) != apart
    assert all(found.values())
    assert found[names[0]].startswith("a")


@given(patterns(), st.randoms(use_true_random=False))
def test_the_order_of_pairs_changes_no_letter(
    pattern: tuple[list[str], list[tuple[str, str]]], random: np.random.Generator
) -> None:
    names, ahead = pattern
    shuffled = list(ahead)
    random.shuffle(shuffled)  # type: ignore[arg-type]
    assert letters(names, shuffled) == letters(names, ahead)


@given(patterns())
def test_no_letter_is_inside_another(pattern: tuple[list[str], list[tuple[str, str]]]) -> None:
    names, ahead = pattern
    found = letters(names, ahead)
    members = [
        {name for name in names if letter in found[name]}
        for letter in sorted(set("".join(found.values())))
    ]
    assert not any(one < other for one in members for other in members)


@given(patterns())
def test_ranks_are_behind_all_that_are_ahead_and_before_all_that_are_behind(
    pattern: tuple[list[str], list[tuple[str, str]]],
) -> None:
    names, ahead = pattern
    for name, (low, high) in rank_intervals(names, ahead).items():
        assert low - 1 == sum(behind == name for _, behind in ahead)
        assert len(names) - high == sum(first == name for first, _ in ahead)
        assert 1 <= low <= high <= len(names)


@given(st.integers(0, 10_000), st.integers(2, 6), st.integers(1, 4))
def test_letters_ranks_and_intervals_of_a_study_are_of_one_mind(
    seed: int, count: int, replicates: int
) -> None:
    rng = np.random.default_rng(seed)
    samples = {
        f"loss {number}": Sample(
            rng.normal(rng.normal(0, 0.1), 0.1, (replicates, 8)),
            np.full(8, 5.0),
            tuple(range(replicates)),
        )
        for number in range(count)
    }
    intervals = all_intervals(samples)
    ahead = ahead_of(intervals)
    shared = letters(list(samples), ahead)
    spans = rank_intervals(samples, ahead)
    for (one, other), gap in pairs(samples).items():
        low, high = intervals[one, other]
        assert low <= float(gap.value) <= high
        inside = low <= 0 <= high
        assert bool(set(shared[one]) & set(shared[other])) == inside
        assert leaves_out_zero((low, high)) != inside
        if (one, other) in ahead:
            assert float(gap.value) > 0
            assert spans[one][1] < len(samples)
            assert spans[other][0] > 1


def test_a_noisy_third_shares_a_letter_with_a_steady_first() -> None:
    """The second is surely behind the first, the third, though lower, is not."""
    assert letters(["steady", "second", "noisy"], [("steady", "second")]) == {
        "steady": "a",
        "second": "b",
        "noisy": "ab",
    }
    assert rank_intervals(["steady", "second", "noisy"], [("steady", "second")]) == {
        "steady": (1, 2),
        "second": (2, 3),
        "noisy": (1, 3),
    }
    assert letters(["alone"], []) == {"alone": "a"}
    assert letters([], []) == {}
    assert letters(["one", "same"], []) == {"one": "a", "same": "a"}
