"""Make the ranking table: losses by the validation setup, beside the default setup and the
difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from analysis.ranking.measurement import CLOSED_MARK, CLOSED_NOTE, Measurement, metric_label
from analysis.ranking.notes import ONE_SEARCH
from analysis.ranking.ranking import METRICS, Ranking, RankingRow
from analysis.ranking.readings import HONEST, PUBLISHED, TUNED_ON_TEST
from analysis.statistics import LEVEL
from analysis.tables.beside import baselines_of, others_of
from analysis.tables.decomposition import decomposition_table
from analysis.tables.default_vs_validation import SIDES
from analysis.tables.steps import steps_of
from analysis.tables.table import (
    COMPARISON_COLUMNS,
    Column,
    Table,
    comparison_of,
    table,
    without_comparison,
)
from trainables.contract import CLOSED, CLOSED_SET, PEEKING

# Behind a head, so that every number shows its rule.
RULES = {
    "default": f"* ({PEEKING})",
    "validation": f" ({HONEST})",
    "difference": "*",
    CLOSED_SET: f"{CLOSED_MARK} ({CLOSED})",
}
GROUPS = {
    "default": ("default setup*", PEEKING),
    "validation": ("validation setup", HONEST),
    "difference": ("validation minus default*", ""),
    CLOSED_SET: (f"closed set{CLOSED_MARK}", CLOSED),
}


def ranking_table(found: Sequence[Ranking]) -> Table:
    """Return one row per ranking and loss; losses are ranked by the validation setup only, or by
    the closed set, which never shares a study with it.
    """
    sides = _sides(found)
    columns = [
        *COMPARISON_COLUMNS,
        Column("rank", form="count", parts=("low", "high"), integer=True),
        Column("groups", "no difference shown", short="groups", below=True),
        Column("loss"),
        *(_column(side, metric) for side in sides for metric in METRICS),
        *(
            Column(f"{side}_{part}", data=True, integer=part == "replicates")
            for part in ("rule", "setting", "replicates")
            for side in sides
        ),
    ]
    rows = [comparison_of(ranking) | _row(row, sides) for ranking in found for row in ranking.rows]
    warnings = [note for ranking in found for note in ranking.warnings]
    notes = dict.fromkeys([*warnings, *(note for ranking in found for note in ranking.notes)])
    title = "Ranking on the test classes, in percent"
    return table("ranking", title, columns, rows, notes=list(notes))


def _column(side: str, metric: str) -> Column:
    return Column(
        f"{side}_{metric}",
        f"{side} {metric_label(metric)}{RULES[side]}",
        "points" if side == "difference" else "percent",
        digits=1,
        parts=("low", "high"),
        group=GROUPS[side],
        short=f"{metric_label(metric)}{'*' if '*' in RULES[side] else ''}",
        below=metric != METRICS[0],
    )


def _sides(found: Sequence[Ranking]) -> tuple[str, ...]:
    return (CLOSED_SET,) if any(ranking.closed for ranking in found) else SIDES


def _row(row: RankingRow, sides: Sequence[str]) -> dict[str, Any]:
    rank = Measurement(row.rank, *row.rank_interval) if row.rank and row.rank_interval else None
    found: dict[str, Any] = {"rank": rank, "groups": row.groups, "loss": row.loss}
    for side in sides:
        numbers = row.validation if side == CLOSED_SET else getattr(row, side)
        for metric, number in numbers.items():
            found |= {
                f"{side}_{metric}": number,
                f"{side}_rule": number.rule,
                f"{side}_setting": number.setting,
                f"{side}_replicates": number.replicates,
            }
    return found


def tables_of(ranking: Ranking) -> dict[str, Table]:
    """Return the tables that show one ranking below a heading with its title; empty ones are left
    out.
    """
    own = without_comparison(ranking_table([ranking]))
    rest = own.notes[len(ranking.warnings) :]
    tables = {
        "baselines": baselines_of(ranking),
        "ranking": replace(own, notes=(*ranking.warnings, _setups_note(ranking), *rest)),
        "beside": others_of(ranking),
        "decomposition": without_comparison(decomposition_table([ranking])),
        "steps": steps_of(ranking),
    }
    return {name: each for name, each in tables.items() if each.rows}


def compact_ranking(ranking: Ranking) -> Table:
    """Return one ranking in a line per loss, with short notes, for the end of a study."""
    first, second = METRICS
    sides = _sides([ranking])
    columns = [
        Column("rank", form="count"),
        Column("groups"),
        Column("loss"),
        *(replace(_column(side, first), group=(GROUPS[side][0], "")) for side in sides),
        Column(second, metric_label(second), "percent", digits=1),
    ]
    rows = [
        _row(row, sides)
        | {"rank": row.rank, second: replace(number, low=None, high=None) if number else None}
        for row in ranking.rows
        for number in [row.validation.get(second) or row.default.get(second)]
    ]
    title = "Scores on the test classes, in percent"
    notes = [*ranking.warnings, *_short_notes(ranking)]
    return table("ranking", title, columns, rows, notes=notes)


def compact_rankings(found: Sequence[Ranking]) -> Table:
    """Return all rankings of a study in one table, with a line per loss and short notes."""
    each = [compact_ranking(ranking) for ranking in found]
    rows = [
        {**comparison_of(ranking), **row}
        for ranking, made in zip(found, each, strict=True)
        for row in made.rows
    ]
    notes = [
        note if all(note in other.notes for other in each) else f"{ranking.title}: {note}"
        for ranking, made in zip(found, each, strict=True)
        for note in made.notes
    ]
    columns = dict.fromkeys(column for made in each for column in made.columns)
    return table(
        "ranking",
        "Scores on the test classes, in percent",
        [*COMPARISON_COLUMNS, *columns],
        rows,
        notes=list(dict.fromkeys(notes)),
    )


def _short_notes(ranking: Ranking) -> Iterator[str]:
    """Yield what a reader of the compact ranking must know; the full one has the rest."""
    stars = "* chosen with test feedback. " * any(r.default for r in ranking.rows)
    own = [row.validation or row.default for row in ranking.rows]
    count = max((numbers[METRICS[0]].replicates for numbers in own if numbers), default=1)
    alone = ONE_SEARCH in ranking.notes
    each = f"{count} {'seeds' if alone else 'replicates'}" if count > 1 else "one replicate"
    if ranking.closed:
        yield CLOSED_NOTE
    yield f"{stars}[low, high]: {LEVEL:.0%} interval over test classes and {each}."
    if alone:
        yield ONE_SEARCH
    shared = "Same letter: no difference is shown. "
    label, named = metric_label(METRICS[0]), ranking.baselines.items()
    scores = ", ".join(f"{name} {numbers[METRICS[0]].percent()}" for name, numbers in named)
    letters = shared * any(row.groups for row in ranking.rows)
    if line := letters + f"Baselines, {label}: {scores}." * bool(scores):
        yield line.strip()


def _setups_note(ranking: Ranking) -> str:
    default = {row.default["recall_at_1"].setting for row in ranking.rows if row.default}
    validation = {row.validation["recall_at_1"].setting for row in ranking.rows if row.validation}
    peeked = "setting and epoch" if TUNED_ON_TEST in default else "published setting, epoch"
    chosen = "published setting, epoch" if validation == {PUBLISHED} else "setting and epoch"
    protocol = f" ({ranking.protocol})" if ranking.protocol else ""
    if ranking.closed:
        return f"Closed set, rule {CLOSED}: published setting, last epoch; nothing was chosen."
    return (
        f"Default setup, rule {PEEKING}: {peeked} chosen on the test classes. Validation setup, "
        f"rule {HONEST}: {chosen} chosen on held-out train classes{protocol}."
    )
