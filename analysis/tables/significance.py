"""Make the table of every pair of losses: the paired difference, with an interval for all pairs
together.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from analysis.ranking.measurement import Measurement, difference_ends, says_nothing
from analysis.ranking.pairs import SetupLosses, setup_losses
from analysis.record.frames import StudyRows
from analysis.statistics import LEVEL, ROPE, Estimate, leaves_out_zero, pairs
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, measured, table

UNEQUAL_REPLICATES = "Losses do not all have the same replicates: a pair uses those that both have."


def significance(rows: StudyRows, metric: str = "recall_at_1", *, rope: float = ROPE) -> Table:
    """Return a row per setup and pair of losses; setups are never mixed.

    rope: losses that differ by less are equally good in practice.
    """
    columns = [
        *COMPARISON_COLUMNS,
        Column("setup"),
        Column("loss"),
        Column("other"),
        measured("difference", form="points", digits=1),
        Column("apart", "difference shown"),
        *chance_columns(rope),
        Column("classes", form="count"),
        Column("replicates", form="count"),
    ]
    found = setup_losses(rows, metric)
    lines = [line for each in found for line in _lines(each, metric, rope)]
    return table(
        "significance",
        "Pairs of losses",
        columns,
        lines,
        notes=_notes(found, metric, rope) if lines else [],
    )


def _lines(found: SetupLosses, metric: str, rope: float) -> Iterator[dict[str, Any]]:
    samples = {loss: one.samples[metric] for loss, one in found.losses.items()}
    for (one, other), gap in pairs(samples).items():
        ends = difference_ends(gap.interval(among=len(samples)))
        numbers = [found.losses[loss].numbers[metric] for loss in (one, other)]
        shared = set(samples[one].replicates) & set(samples[other].replicates)
        yield {
            "dataset": found.dataset,
            "backbone": found.backbone,
            "embedding_size": found.embedding_size,
            "protocol": found.protocol,
            "setup": found.setup,
            "loss": one,
            "other": other,
            "difference": Measurement(
                float(gap.value),
                *ends,
                rule=numbers[0].rule,
                peeks=any(number.peeks for number in numbers),
            ),
            "apart": "yes" if leaves_out_zero(ends) else "no",
            **chances(gap, rope),
            "classes": len(samples[one].counts),
            "replicates": len(shared),
        }


def chance_columns(rope: float) -> tuple[Column, Column]:
    """Return the columns of the chances of a difference."""
    return (
        Column("ahead", "chance to be ahead, %", "percent", 1),
        Column("equivalent", f"chance to be within {100 * rope:g} points, %", "percent", 1),
    )


def chances_note(rope: float) -> str:
    """Return what the chances mean."""
    return (
        "Chances: those that the interval of this pair alone gives, if nothing was known before; "
        f"within {100 * rope:g} points two losses count as equally good in practice."
    )


def chances(gap: Estimate, rope: float) -> dict[str, float | None]:
    """Return the contents of chance_columns() for a difference; none where nothing is known."""
    if says_nothing(gap.interval()):
        return {"ahead": None, "equivalent": None}
    return {"ahead": gap.above(), "equivalent": gap.above(-rope) - gap.above(rope)}


def _notes(found: list[SetupLosses], metric: str, rope: float) -> list[str]:
    replicates = [
        {one.samples[metric].replicates for one in each.losses.values()} for each in found
    ]
    return [
        f"Difference: paired by test class and replicate. Its {LEVEL:.0%} interval is widened so "
        "that those of all pairs of a setup hold together (studentized range). A difference is "
        "shown if the interval leaves out zero.",
        chances_note(rope),
        *([UNEQUAL_REPLICATES] if any(len(each) > 1 for each in replicates) else []),
    ]
