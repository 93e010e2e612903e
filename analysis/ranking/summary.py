"""Summarise a ranking in sentences that claim no more than its intervals allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.ranking.measurement import Measurement, says_nothing
from analysis.ranking.notes import listed
from analysis.ranking.ranking import Ranking, RankingRow
from analysis.ranking.readings import PUBLISHED
from analysis.statistics import leaves_out_zero

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def summarise(ranking: Ranking | None) -> list[str]:
    """Return which loss has the highest score, with which settings, which losses may be as good as
    it, and which baselines are beaten.
    """
    if ranking is None:
        return ["No final trial has finished, so there is nothing to rank."]
    honest = [row for row in ranking.rows if row.rank]
    if not honest and not any(row.default for row in ranking.rows):
        return ["No final trial whose number may be ranked has finished, so no loss is."]
    if not honest:
        return [
            "Only the default setup was run: it chose its epochs on the test classes, so no loss "
            "is ranked."
        ]
    return [
        _highest(ranking, honest),
        *_against_baselines(ranking, honest),
        *_by_default(ranking),
    ]


def _highest(ranking: Ranking, honest: list[RankingRow]) -> str:
    best, others = honest[0].loss, [row.loss for row in honest[1:]]
    number = honest[0].validation["recall_at_1"]
    score = f"{number.percent()}\u00a0% {_span(number)}, {number.rule}"  # no line break inside
    how = _how(ranking, honest)
    if not others:
        return f"{how}, {best}, the only loss here, has a Recall@1 of {score}."
    behind = [loss for loss in others if (best, loss) in ranking.ahead]
    above = [loss for loss in others if (loss, best) in ranking.ahead]
    near = [loss for loss in others if loss not in behind + above]
    first = f"{how}, {best} has the highest Recall@1 ({score})"
    if higher := [r.loss for r in honest if r.validation["recall_at_1"].value > number.value]:
        first = (
            f"{how}, {best} ranks first with a Recall@1 of {score}; that of {listed(higher)} is "
        )
        first += "higher over its own replicates, but not in those that both have"
    if above:  # replicates are missing
        first += f", but in the replicates that both have {listed(above)} is ahead of it"
    if behind == others:
        every = " every other loss:" if len(others) > 1 else ""
        return f"{first}; it is ahead of{every} {listed(behind)}."
    if near == others:
        return f"{first}; no other loss is shown to be behind it, so {_may(near)}."
    rest = [f"it is ahead of {listed(behind)}"] * bool(behind) + [_may(near)] * bool(near)
    return f"{'; '.join([first, ', and '.join(rest)] if rest else [first])}."


def _may(near: Sequence[str]) -> str:
    return f"{listed(near)} may be as good"


def _how(ranking: Ranking, honest: list[RankingRow]) -> str:
    """Say which settings were used, who chose them, and how often that was repeated."""
    published = [row.loss for row in honest if row.validation["recall_at_1"].setting == PUBLISHED]
    if ranking.closed:
        return f"In a closed set, with published settings in {_replicates(ranking.replicates)}"
    epochs = f"epochs chosen on held-out classes in {_replicates(ranking.replicates)}"
    if not ranking.searches:
        return f"With published settings and {epochs}"
    if len(published) == len(honest):
        return f"With published settings, because no search chose any, and {epochs}"
    but = f" (published settings for {listed(published)})" if published else ""
    return f"With the settings that {_searches(ranking)} chose{but}"


def _replicates(count: int) -> str:
    return "one replicate" if count <= 1 else f"{_word(count)} replicates"


def _searches(ranking: Ranking) -> str:
    """Return how many searches each loss had, and of how many trials; one is named as one."""
    trials = [count for counts in ranking.searches.values() for count in counts]
    low, high = min(trials), max(trials)
    size = f"{low}" if low == high else f"{low} to {high}"
    size += " trial" if high == 1 else " trials"
    count = max(len(counts) for counts in ranking.searches.values())
    return f"one search of {size}" if count == 1 else f"{_word(count)} searches of {size}"


def _word(count: int) -> str:
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def _against_baselines(ranking: Ranking, honest: list[RankingRow]) -> list[str]:
    beaten, sentences = [], []
    for name, numbers in ranking.baselines.items():
        baseline = f"{name} ({_with_rule(numbers['recall_at_1'])})"
        short = [row.loss for row in honest if (row.loss, name) not in ranking.ahead]
        if not short:
            beaten.append(baseline)
        elif len(short) == len(honest):
            sentences.append(f"No loss is shown to beat {baseline}.")
        else:
            sentences.append(f"Not shown to beat {baseline}: {listed(short)}.")
    return sentences + ([f"Every loss beats {listed(beaten)}."] if beaten else [])


def _by_default(ranking: Ranking) -> list[str]:
    """Say what the literature's habit, choosing on the test classes, would have printed."""
    rows = [row for row in ranking.rows if row.default]
    gaps = {
        row.loss: replace(row.difference["recall_at_1"], low=ends[0], high=ends[1])
        for row in rows
        if (ends := row.difference_together)
    }
    if len(rows) < 2 or not gaps:
        return []
    top = max(rows, key=lambda row: row.default["recall_at_1"].value)
    also = " also" if top.rank == 1 else ""
    return [
        f"Under the default setup, which peeks, {top.loss}{also} has the highest Recall@1 "
        f"({_with_rule(top.default['recall_at_1'])}). {_between_setups(gaps)}"
    ]


def _between_setups(gaps: dict[str, Measurement]) -> str:
    """Say for which losses the setups differ, and how much the data allow for the others.

    gaps: with intervals that hold for all losses together.
    """
    moved = {loss: gap for loss, gap in gaps.items() if leaves_out_zero(gap.interval)}
    open_ = [gap.interval for loss, gap in gaps.items() if loss not in moved]
    allowed = _allowed(open_) if open_ else ""
    if not moved:
        return f"No difference between the setups is shown for any loss; {allowed}."
    each = [f"{loss} ({100 * gap.value:+.1f} {_span(gap)})" for loss, gap in moved.items()]
    text = f"Validation minus default is shown to differ from zero for {listed(each)}"
    return f"{text}; for the other losses {allowed}." if allowed else f"{text}."


def _allowed(intervals: Sequence[tuple[float, float]]) -> str:
    """Return as a clause which differences the intervals contain, in whole points."""
    if any(says_nothing(ends) for ends in intervals):
        return "nothing can be said yet: too few replicates are finished"
    low = round(100 * min(low for low, _ in intervals))
    high = round(100 * max(high for _, high in intervals))
    if max(-low, high) < 1:
        return "less than a point either way is compatible with these data"
    if abs(-low - high) <= 1:
        most = max(-low, high)
        points = f"{most} point{'s' * (most != 1)}"
        return f"up to about {points} either way is compatible with these data"
    return f"differences from about {low:+d} to {high:+d} points are compatible with these data"


def _span(number: Measurement) -> str:
    low, high = (100 * end for end in number.interval)
    return f"[{low:.1f},\u00a0{high:.1f}]"


def _with_rule(number: Measurement) -> str:
    return f"{number.percent()} %, {number.rule}"
