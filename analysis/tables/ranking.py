"""The ranking: default setup beside validation setup, with intervals, the baselines, and every other reading beside its loss."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.edges import edge_notes, tried_by
from analysis.notes import notes, unsearched_notes
from analysis.places import Place, places, title
from analysis.readings import BASELINE, DEFAULT, VALIDATION, Parts, readings, split_queries
from analysis.statistics import Floats, rank_groups, rank_intervals
from analysis.tables.draws import Drawn, draw, minus
from analysis.tables.number import Number
from analysis.tables.steps import Step, steps
from analysis.tracking import StudyRows

METRICS = ("recall_at_1", "map_at_r")


@dataclass(frozen=True)
class Beside:
    """What stands beside a loss's own number of one setup, and never ranks it."""

    setup: str
    what: str  # published setting, last epoch, refit, concatenated, or several of them
    numbers: dict[str, Number]
    difference: dict[str, Number]  # minus the loss's own number of that setup


@dataclass(frozen=True)
class RankingRow:
    """One loss: both setups, their difference, and its rank among the honestly chosen ones."""

    loss: str
    default: dict[str, Number]
    validation: dict[str, Number]
    difference: dict[str, Number]  # validation minus default
    rank: int | None = None
    rank_interval: tuple[int, int] | None = None
    beside: list[Beside] = field(default_factory=list)
    groups: str = ""  # losses that share a letter cannot be told apart
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Ranking:
    """The losses of one dataset, backbone, embedding size and honest protocol, best first; ranked by the validation setup only."""

    dataset: str
    backbone: str
    embedding_size: int
    rows: list[RankingRow]
    baselines: dict[str, dict[str, Number]]
    notes: list[str] = field(default_factory=list)
    worlds: dict[str, Floats] = field(default_factory=dict, repr=False)  # Recall@1 of losses and baselines in shared worlds; nothing peeks
    protocol: str = ""  # of the validation setup
    several: bool = False  # the study has other honest protocols here, too

    @property
    def title(self) -> str:
        return title(self.dataset, self.backbone, self.embedding_size, self.protocol if self.several else "")


def rankings(rows: StudyRows) -> list[Ranking]:
    """One ranking per dataset, backbone, embedding size and honest protocol; the default setup is joined to each."""
    finals = rows.finals
    if finals.empty:
        return []
    tried = tried_by(rows.trials)
    parts = split_queries(rows.queries)
    found = []
    for place in places(rows.trials):
        trained = place.trained(finals)
        if len(trained):
            ranking = _ranking(place, trained, place.untrained(finals), parts)
            own = trained[trained["role"] == "final"]
            found.append(replace(ranking, notes=ranking.notes + unsearched_notes(own, set(tried)) + edge_notes(own, tried)))
    return found


def _ranking(place: Place, finals: pd.DataFrame, untrained: pd.DataFrame, parts: Parts) -> Ranking:
    """All losses, setups, baselines and what stands beside in the same resampled worlds, so that every comparison is paired."""
    drawn = draw(readings(finals, untrained, parts), parts, METRICS)
    each = steps(drawn)
    rows = [
        replace(_row(str(loss), [one for one in drawn if one.reading.loss == loss]), steps=each.get(str(loss), []))
        for loss in finals["loss"].unique()
    ]
    own = [one for one in drawn if not one.reading.what]
    honest = {one.reading.loss: one.worlds["recall_at_1"] for one in own if one.reading.setup != DEFAULT}
    return Ranking(
        place.dataset,
        place.backbone,
        place.embedding_size,
        rows=_ranked(rows, honest),
        baselines={one.reading.loss: one.numbers for one in own if one.reading.setup == BASELINE},
        notes=notes(finals),
        worlds=honest,
        protocol=place.protocol,
        several=place.several,
    )


def _row(loss: str, drawn: list[Drawn]) -> RankingRow:
    own = {one.reading.setup: one for one in drawn if not one.reading.what}
    default, validation = own.get(DEFAULT), own.get(VALIDATION)
    beside = [
        Beside(one.reading.setup, one.reading.what, one.numbers, minus(one, own.get(one.reading.setup)))
        for one in drawn
        if one.reading.what
    ]
    return RankingRow(
        loss,
        default.numbers if default else {},
        validation.numbers if validation else {},
        minus(validation, default),
        beside=sorted(beside, key=lambda one: one.setup),
    )


def _ranked(rows: list[RankingRow], worlds: dict[str, Floats]) -> list[RankingRow]:
    """Best first by the validation setup; a loss without it is listed last and has no rank."""
    honest = sorted((row for row in rows if row.validation), key=lambda row: -row.validation["recall_at_1"].value)
    drawn = {row.loss: worlds[row.loss] for row in honest}
    spans, letters = (rank_intervals(drawn), rank_groups(drawn)) if honest else ({}, {})
    ranked = [replace(row, rank=rank, rank_interval=spans[row.loss], groups=letters[row.loss]) for rank, row in enumerate(honest, start=1)]
    rest = [row for row in rows if not row.validation]
    return ranked + sorted(rest, key=lambda row: -row.default["recall_at_1"].value if row.default else 1)
