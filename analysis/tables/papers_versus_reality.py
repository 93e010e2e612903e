"""Make the table of papers versus reality: what each loss's authors claim beside what was measured,
and the trend of both by year.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis.ranking.measurement import Measurement
from analysis.tables.frames import groups
from analysis.tables.improvement import KEYS, year
from analysis.tables.scores import own
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table
from search_spaces import LOSSES, Claim
from search_spaces.own import untagged
from trainables.contract import PEEKING

TREND = "trend, points a year"
COLUMNS = [
    *COMPARISON_COLUMNS,
    Column("setup", in_title=True),
    Column("year", form="count"),
    Column("loss"),
    Column("claimed", "claimed Recall@1", "percent", parts=("peeks",)),
    Column("claimed_with", "with"),
    Column("measured", "measured Recall@1", "percent", 2, parts=("rule", "peeks")),
    Column("gap", "measured minus claimed", "points", parts=("peeks",)),
    Column("source"),
]
NOTES = [
    "Claims are those that can be cited from the documents at hand, not all that were ever made; "
    "networks and sizes differ.",
    f"{TREND.capitalize()}: the slope of a least-squares line through the scores above it, which "
    "the reality check draws as papers versus reality.",
]


def papers_versus_reality(found: pd.DataFrame) -> Table:
    """Return a row per loss by year, then the trends, for every comparison. found: scores."""
    mine = own(found)
    mine = mine[mine["metric"] == "recall_at_1"]
    rows: list[dict[str, Any]] = []
    for about, part in groups(mine, KEYS):
        numbers = dict(zip(part["loss"], part["measurement"], strict=True))
        lines = list(_lines(about, numbers))
        rows += [*lines, {**about, "source": TREND, **_trends(lines)}]
    title = "Papers versus reality: Recall@1 on the test classes by year, in percent"
    return table("papers_versus_reality", title, COLUMNS, rows, notes=NOTES if rows else [])


def _lines(
    about: Mapping[str, Any], numbers: Mapping[str, Measurement]
) -> Iterator[dict[str, Any]]:
    """Yield a row for every loss that was measured here or has a claim on this dataset."""
    claims = {name: card.claims for name, card in LOSSES.items() if card.claims}
    nearest = {loss: _nearest(about, each) for loss, each in claims.items()}
    claimed = {loss: claim for loss, claim in nearest.items() if claim}
    missing = [loss for loss in claimed if loss not in map(untagged, numbers)]
    for loss in sorted([*numbers, *missing], key=lambda name: (year(name) or 9999, name)):
        row: dict[str, Any] = {**about, "year": year(loss), "loss": loss}
        if measured := numbers.get(loss):
            row["measured"] = measured
        if claim := claimed.get(untagged(loss)):
            number = Measurement(claim.recall_at_1 / 100, rule=PEEKING)
            row |= {"claimed": number, "source": claim.source}
            row |= {"claimed_with": f"{claim.backbone}, {claim.size}"}
            if measured:
                row["gap"] = Measurement(measured.value - number.value, peeks=True)
        yield row


def _nearest(about: Mapping[str, Any], claims: tuple[Claim, ...]) -> Claim | None:
    """Return the claim on this dataset, with this backbone and the nearest size if there is one."""
    here = [claim for claim in claims if claim.dataset == about["dataset"]]
    return min(
        here,
        key=lambda claim: (
            claim.backbone != about["backbone"],
            abs(claim.size - int(about["embedding_size"])),
        ),
        default=None,
    )


def _trends(lines: list[dict[str, Any]]) -> dict[str, Measurement]:
    found = {}
    for name in ("claimed", "measured"):
        points = [(row["year"], row[name]) for row in lines if row.get(name) and row["year"]]
        years = np.array([each for each, _ in points], float)
        if len(set(years)) > 1:
            slope = np.polyfit(years, [number.value for _, number in points], 1)[0]
            found[name] = Measurement(float(slope), peeks=any(one.peeks for _, one in points))
    return found
