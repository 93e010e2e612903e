"""A number of the test classes: a mean with its interval, and how it was chosen."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.readings import TUNED_ON_TEST
from trainables.contract import PEEKING


@dataclass(frozen=True)
class Number:
    """A mean with its 95 % interval and how it was chosen. Shares are from 0 to 1."""

    value: float
    low: float
    high: float
    rule: str
    seeds: int = 0
    setting: str = ""  # published, tuned, tuned-on-test; empty: there is none, or nobody said

    @property
    def peeks(self) -> bool:
        return self.rule == PEEKING or self.setting == TUNED_ON_TEST

    def percent(self) -> str:
        return f"{100 * self.value:.1f}{'*' if self.peeks else ''}"

    def percent_interval(self) -> str:
        return f"{100 * self.value:.1f}{'*' if self.peeks else ''} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def signed(self) -> str:
        return f"{100 * self.value:+.1f}{'*' if self.peeks else ''} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


def metric_label(name: str) -> str:
    """recall_at_1 -> Recall@1, map_at_r -> MAP@R, pooled_recall_at_1 -> pooled Recall@1."""
    for prefix in ("pooled_", "matched_"):
        if name.startswith(prefix):
            return f"{prefix[:-1]} {metric_label(name.removeprefix(prefix))}"
    head, at, tail = name.partition("_at_")
    return f"{'MAP' if head == 'map' else head.capitalize()}@{tail.upper()}" if at else name.replace("_", "-").capitalize()
