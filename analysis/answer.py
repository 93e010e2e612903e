"""What a ranking says in sentences, and no more than its intervals allow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.readings import PUBLISHED
from analysis.statistics import Floats, differences
from analysis.tables import Number, Ranking, RankingRow


def answer(ranking: Ranking | None, *, tuned: bool) -> list[str]:
    """What the ranking says, and no more: who is first, who cannot be told apart from it, and whether baselines are beaten.

    tuned: there was a search; a loss whose search chose nothing says so itself.
    """
    if ranking is None:
        return ["No final trial has finished, so there is nothing to rank."]
    honest = [row for row in ranking.rows if row.rank]
    if not honest and not any(row.default for row in ranking.rows):
        return ["No final trial whose number may be ranked has finished, so no loss is."]
    if not honest:
        return ["Only the default setup was run: it chose its epochs on the test classes, so no loss is ranked."]
    return [_first(honest, ranking.worlds, tuned=tuned), *_against_baselines(ranking, honest), *_by_default(ranking)]


def _first(honest: list[RankingRow], worlds: Mapping[str, Floats], *, tuned: bool) -> str:
    best, others = honest[0], [row.loss for row in honest[1:]]
    number = best.validation["recall_at_1"]
    span = f"[{100 * number.low:.1f},\u00a0{100 * number.high:.1f}]"  # no line break inside
    score = f"a test Recall@1 of {number.percent()}\u00a0% {span} ({number.rule})"
    how = _how(honest, tuned=tuned)
    if not others:
        return f"{how}, {best.loss}, the only loss here, has {score}."
    ahead = _ahead({row.loss: worlds[row.loss] for row in honest})
    near = [loss for loss in others if (best.loss, loss) not in ahead]
    if not near:
        return f"{how}, {best.loss} is first with {score}, and every other loss is behind it beyond chance."
    if near == others and len(others) > 1:
        return f"{how}, {best.loss} is first with {score}, but no other loss can be told apart from it: the order at the top may be chance."
    return f"{how}, {best.loss} is first with {score}; it cannot be told apart from {_listed(near)}."


def _how(honest: list[RankingRow], *, tuned: bool) -> str:
    published = [row.loss for row in honest if row.validation["recall_at_1"].setting == PUBLISHED]
    if not tuned:
        return "Without a search and with epochs chosen on held-out classes"
    if len(published) == len(honest):
        return "With published settings, because no search chose any, and with epochs chosen on held-out classes"
    return f"After tuning, but with the published setting of {_listed(published)}" if published else "After fair tuning"


def _against_baselines(ranking: Ranking, honest: list[RankingRow]) -> list[str]:
    beaten, said = [], []
    ahead = _ahead(ranking.worlds)
    for name, numbers in ranking.baselines.items():
        baseline = f"{name} ({_with_rule(numbers['recall_at_1'])})"
        short = [row.loss for row in honest if (row.loss, name) not in ahead]
        if not short:
            beaten.append(baseline)
        elif len(short) == len(honest):
            said.append(f"No loss is shown to beat {baseline}.")
        else:
            said.append(f"Not shown to beat {baseline}: {_listed(short)}.")
    return ([f"Every loss beats {_listed(beaten)}."] if beaten else []) + said


def _by_default(ranking: Ranking) -> list[str]:
    """What the literature's habit would have printed: the reason for this page."""
    rows = [row for row in ranking.rows if row.default]
    paired = [row for row in rows if row.difference]
    if len(rows) < 2 or not paired:
        return []
    top = max(rows, key=lambda row: row.default["recall_at_1"].value)
    same = "also puts" if top.rank == 1 else "would have put"
    moved = [row.loss for row in paired if row.difference["recall_at_1"].low > 0 or row.difference["recall_at_1"].high < 0]
    peeked = f"{top.loss} first ({_with_rule(top.default['recall_at_1'])})"
    return [
        f"The default setup, which peeks, {same} {peeked}; in Recall@1 the setups differ beyond chance for {_listed(moved or ['no loss'])}."
    ]


def _with_rule(number: Number) -> str:
    return f"{number.percent()} %, {number.rule}"


def _ahead(worlds: Mapping[str, Floats]) -> set[tuple[str, str]]:
    """Who is ahead of whom: the paired difference lies above zero, all pairs taken together."""
    found = differences(worlds)
    return {pair for pair, (low, _) in found.items() if low > 0} | {(b, a) for (a, b), (_, high) in found.items() if high < 0}


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
