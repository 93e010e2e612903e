"""Make the table of pairs of losses over all datasets: mean difference, wins and chances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from analysis.ranking.measurement import Measurement, difference_ends
from analysis.ranking.pairs import SetupLosses, setup_losses
from analysis.record.frames import StudyRows
from analysis.statistics import (
    LEVEL,
    ROPE,
    Estimate,
    Sample,
    average,
    leaves_out_zero,
    mean_of,
    pairs,
)
from analysis.tables.significance import chance_columns, chances, chances_note
from analysis.tables.table import PROTOCOL, Column, Table, measured, table

NOTES = [
    "Difference: the mean over these datasets, each with the same weight; on other datasets the "
    "order may be another. Cells of one dataset share its test classes, so they are averaged "
    "first; a loss that lacks one of them is not compared there.",
    f"Its {LEVEL:.0%} interval is that of these datasets: it does not contain how datasets differ. "
    "It is widened so that those of all pairs hold together (studentized range). "
    "A difference is shown if it leaves out zero.",
]


def over_datasets(rows: StudyRows, metric: str = "recall_at_1", *, rope: float = ROPE) -> Table:
    """Return a row per setup and pair of losses that two datasets or more have.

    rope: losses that differ by less are equally good in practice.
    """
    columns = [
        PROTOCOL,
        Column("setup"),
        Column("loss"),
        Column("other"),
        measured("difference", "mean difference", form="points", digits=1),
        Column("apart", "difference shown"),
        Column("wins"),
        *chance_columns(rope),
        Column("datasets", form="count"),
    ]
    found = setup_losses(rows, metric)
    lines = [
        line
        for setup, protocol in dict.fromkeys((each.setup, each.protocol) for each in found)
        for line in _lines(
            [e for e in found if (e.setup, e.protocol) == (setup, protocol)], metric, rope
        )
    ]
    return table(
        "over_datasets",
        "Pairs of losses over datasets",
        columns,
        lines,
        notes=[*NOTES, chances_note(rope)] if lines else [],
    )


def _lines(found: Sequence[SetupLosses], metric: str, rope: float) -> Iterator[dict[str, Any]]:
    by_dataset = {
        dataset: pairs(_samples([each for each in found if each.dataset == dataset], metric))
        for dataset in dict.fromkeys(each.dataset for each in found)
    }
    every = dict.fromkeys(loss for gaps in by_dataset.values() for pair in gaps for loss in pair)
    for pair in combinations(every, 2):
        gaps = [gap for each in by_dataset.values() if (gap := _gap(each, *pair))]
        if len(gaps) < 2:
            continue
        mean = mean_of(gaps)
        ends = difference_ends(mean.interval(among=len(every)))
        numbers = [each.losses[pair[0]].numbers[metric] for each in found if pair[0] in each.losses]
        yield {
            "protocol": found[0].protocol,
            "setup": found[0].setup,
            "loss": pair[0],
            "other": pair[1],
            "difference": Measurement(
                float(mean.value), *ends, numbers[0].rule, peeks=numbers[0].peeks
            ),
            "apart": "yes" if leaves_out_zero(ends) else "no",
            "wins": f"{sum(bool(gap.value > 0) for gap in gaps)} of {len(gaps)}",
            **chances(mean, rope),
            "datasets": len(gaps),
        }


def _samples(cells: Sequence[SetupLosses], metric: str) -> dict[str, Sample]:
    """Return by loss the mean over the cells of one dataset, for losses that have all of them."""
    whole = [loss for loss in cells[0].losses if all(loss in each.losses for each in cells)]
    found = {loss: average(each.losses[loss].samples[metric] for each in cells) for loss in whole}
    return {loss: one for loss, one in found.items() if one.replicates}


def _gap(found: Mapping[tuple[str, str], Estimate], one: str, other: str) -> Estimate | None:
    """Return the first minus the second, whichever of them is first in this dataset."""
    if (other, one) in found:
        return found[other, one].turned()
    return found.get((one, other))
