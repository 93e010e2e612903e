"""Show which losses differ: letters and possible ranks, both from the same pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from analysis.statistics.mixed import pairs
from analysis.statistics.quantiles import LEVEL
from analysis.statistics.sample import Sample

EQUAL = 1e-12  # scores that differ by less differ only by rounding
Ahead = Collection[tuple[str, str]]  # pairs of who is ahead and who is behind


def leaves_out_zero(ends: tuple[float, float]) -> bool:
    """Return whether zero lies outside of the interval, by more than rounding."""
    low, high = ends
    return low > EQUAL or high < -EQUAL


def all_intervals(
    samples: Mapping[str, Sample], level: float = LEVEL
) -> dict[tuple[str, str], tuple[float, float]]:
    """Return by pair the interval of the first minus the second; all of them hold together."""
    return {
        pair: found.interval(level, among=len(samples)) for pair, found in pairs(samples).items()
    }


def ahead_of(intervals: Mapping[tuple[str, str], tuple[float, float]]) -> list[tuple[str, str]]:
    """Return who is ahead of whom: zero lies outside of the interval of their difference."""
    return [
        (one, other) if ends[0] > 0 else (other, one)
        for (one, other), ends in intervals.items()
        if leaves_out_zero(ends)
    ]


def in_order(values: Mapping[str, float], ahead: Ahead) -> list[str]:
    """Return the names best first, and nobody before one who is shown to be ahead of it.

    Where replicates are missing, the mean of one name over its own replicates may be higher
    although another one is ahead in those that both have: then that counts.
    """
    left, found = sorted(values, key=lambda name: -values[name]), list[str]()
    while left:
        beaten = {behind for first, behind in ahead if first in left}
        # Pairs of other replicates may contradict each other in a circle.
        found.append(next((name for name in left if name not in beaten), left[0]))
        left.remove(found[-1])
    return found


def rank_intervals(names: Iterable[str], ahead: Ahead) -> dict[str, tuple[int, int]]:
    """Return the ranks (1 is best) that each may hold: behind all that are surely ahead of it."""
    every = list(names)
    return {
        name: (
            1 + sum(behind == name for _, behind in ahead),
            len(every) - sum(first == name for first, _ in ahead),
        )
        for name in every
    }


def letters(names: Sequence[str], ahead: Ahead) -> dict[str, str]:
    """Return letters by name; two names share one exactly if neither is ahead of the other.

    Insert and absorb (Piepho 2004): all names begin in one group; every pair that is apart splits
    each group that holds both, and a group inside another one is dropped. names: best first.
    """
    groups = [frozenset(names)] if names else []
    for pair in ahead:
        split = [
            part
            for group in groups
            for part in ([group - {name} for name in pair] if group >= {*pair} else [group])
        ]
        groups = [one for one in dict.fromkeys(split) if not any(one < other for other in split)]
    order = {name: place for place, name in enumerate(names)}
    groups.sort(key=lambda group: sorted(order[name] for name in group))
    return {
        name: "".join(_letter(k) for k, group in enumerate(groups) if name in group)
        for name in names
    }


def _letter(number: int) -> str:
    return chr(ord("a") + number) if number < 26 else f"({number})"
