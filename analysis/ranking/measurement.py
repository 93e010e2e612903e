"""Define the one record of a measured number: its value, its interval, and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.ranking.readings import TUNED_ON_TEST
from trainables.contract import CLOSED, PEEKING

CLOSED_MARK = "‡"
CLOSED_NOTE = (
    f"{CLOSED_MARK} closed set: train and test images share their classes. Never rank it among "
    "numbers without the mark."
)


@dataclass(frozen=True)
class Measurement:
    """Hold a value, its 95 % interval if there is one, and what must travel with it.

    Shares run from 0 to 1. A measurement whose rule or setting used test feedback always peeks.
    """

    value: float
    low: float | None = None
    high: float | None = None
    rule: str = ""
    replicates: int = 0
    setting: str = ""  # published, tuned or tuned-on-test; empty if there is none or none is known
    peeks: bool = False  # chosen with test feedback
    doubt: str = ""  # why the value cannot be right
    closed: bool = False  # train and test images share their classes

    def __post_init__(self) -> None:
        feedback = self.rule == PEEKING or self.setting == TUNED_ON_TEST
        object.__setattr__(self, "peeks", self.peeks or feedback)
        object.__setattr__(self, "closed", self.closed or self.rule == CLOSED)

    @property
    def marks(self) -> str:
        """Return a star if it peeks, a double dagger of the closed set, a dagger if in doubt."""
        return "*" * self.peeks + CLOSED_MARK * self.closed + "†" * bool(self.doubt)

    def percent(self) -> str:
        """Return the value in percent for a sentence, with its marks."""
        return f"{100 * self.value:.1f}{self.marks}"

    @property
    def interval(self) -> tuple[float, float]:
        """Return both ends of the interval; there must be one."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high


def share_ends(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an interval of a share, which no share lies beyond."""
    return max(0.0, ends[0]), min(1.0, ends[1])


def difference_ends(ends: tuple[float, float]) -> tuple[float, float]:
    """Return the ends of an interval of a difference of shares, which none lies beyond."""
    return max(-1.0, ends[0]), min(1.0, ends[1])


def says_nothing(ends: tuple[float, float]) -> bool:
    """Return whether the interval holds every difference that two shares can have."""
    return ends[0] <= -1 and ends[1] >= 1


def metric_label(name: str) -> str:
    """Return recall_at_1 as Recall@1, map_at_r as MAP@R, pooled_recall_at_1 as pooled Recall@1."""
    for prefix in ("pooled_", "matched_"):
        if name.startswith(prefix):
            return f"{prefix[:-1]} {metric_label(name.removeprefix(prefix))}"
    head, at, tail = name.partition("_at_")
    if not at:
        return name.replace("_", "-").capitalize()
    return f"{'MAP' if head == 'map' else head.capitalize()}@{tail.upper()}"
