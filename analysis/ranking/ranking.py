"""Rank losses by the validation setup, with the default setup, the baselines and every other
reading beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.ranking.comparisons import Comparison, comparisons, title
from analysis.ranking.edges import edge_notes, tried_by
from analysis.ranking.measurement import Measurement
from analysis.ranking.notes import notes, unsearched_notes, validation_notes
from analysis.ranking.readings import (
    BASELINE,
    DEFAULT,
    Parts,
    baseline_name,
    readings,
    split_queries,
    unit_of,
)
from analysis.ranking.samples import Sampled, minus, sample, together
from analysis.ranking.steps import RankingStep, steps
from analysis.record.frames import StudyRows
from analysis.statistics import (
    Sample,
    ahead_of,
    all_intervals,
    differences,
    in_order,
    letters,
    rank_intervals,
)
from trainables.contract import PIXELS, UNTRAINED

METRICS = ("recall_at_1", "map_at_r")


@dataclass(frozen=True)
class Beside:
    """Hold another reading of a loss under one setup; it never ranks the loss."""

    setup: str
    what: str  # published setting, last epoch, refit, concatenated, or several of them
    numbers: dict[str, Measurement]
    difference: dict[str, Measurement]  # minus the loss's own number of that setup


@dataclass(frozen=True)
class RankingRow:
    """Hold one loss: both setups, their difference, and its rank by the validation setup."""

    loss: str
    default: dict[str, Measurement]
    validation: dict[str, Measurement]  # or of the closed set, if the ranking is of one
    difference: dict[str, Measurement]  # validation minus default
    rank: int | None = None
    rank_interval: tuple[int, int] | None = None
    beside: list[Beside] = field(default_factory=list)
    groups: str = ""  # losses that share a letter: no difference is shown
    steps: list[RankingStep] = field(default_factory=list)
    # Of the difference in Recall@1; the intervals of all losses of the ranking hold together.
    difference_together: tuple[float, float] | None = None


@dataclass(frozen=True)
class Ranking:
    """Hold the losses of one comparison, best first, ranked by the validation setup only.

    ahead: pairs of losses, or of a loss and a baseline, of which the first is shown to have the
    higher Recall@1; none of them peeks. warnings: what makes the whole ranking doubtful.
    """

    dataset: str
    backbone: str
    embedding_size: int
    rows: list[RankingRow]
    baselines: dict[str, dict[str, Measurement]]
    notes: list[str] = field(default_factory=list)
    ahead: list[tuple[str, str]] = field(default_factory=list)
    protocol: str = ""  # of the validation setup
    several: bool = False  # the study has other honest protocols here, too
    replicates: int = 0  # of the validation setup, with a finished final trial of any loss
    searches: dict[str, list[int]] = field(default_factory=dict)  # by loss: trials of each search
    warnings: list[str] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        """Return whether train and test images share their classes."""
        return any(number.closed for row in self.rows for number in row.validation.values())

    @property
    def title(self) -> str:
        """Return the dataset, backbone and size, and the protocol where there are several."""
        protocol = self.protocol if self.several else ""
        return title(self.dataset, self.backbone, self.embedding_size, protocol)


def rankings(rows: StudyRows) -> list[Ranking]:
    """Return one ranking per dataset, backbone, embedding size and honest protocol; the default
    setup joins each.
    """
    finals = rows.finals
    if finals.empty:
        return []
    tried, unit = tried_by(rows.trials), unit_of(rows.trials)
    parts = split_queries(rows.queries)
    found = []
    for comparison in comparisons(rows.trials):
        trained, untrained = comparison.trained(finals), comparison.untrained(finals)
        if len(trained):
            fixed = _scored_once(comparison.untrained(rows.trials))
            ranking = _ranking(comparison, trained, untrained, parts=parts, unit=unit, fixed=fixed)
            own = trained[trained["role"] == "final"]
            searched = {cell for cell, _ in tried}
            warnings = validation_notes(trained, rows.specs)
            more = unsearched_notes(own, searched) + edge_notes(own, tried)
            found.append(
                replace(
                    ranking,
                    notes=[*warnings, *ranking.notes, *more],
                    warnings=warnings,
                    replicates=int(own.loc[~own["peeks"], "replicate"].nunique()),
                    searches=_searches(comparison.trained(rows.trials)),
                )
            )
    return found


def _searches(trained: pd.DataFrame) -> dict[str, list[int]]:
    """Return by loss the number of trials of each of its honest searches."""
    tried = trained[(trained["role"] == "search") & ~trained["peeks"].astype(bool)]
    return {
        str(loss): [int(count) for count in mine.groupby("replicate").size()]
        for loss, mine in tried.groupby("loss", sort=False)
    }


def _ranking(
    comparison: Comparison,
    finals: pd.DataFrame,
    untrained: pd.DataFrame,
    *,
    parts: Parts,
    unit: str,
    fixed: set[str],
) -> Ranking:
    """Rank the losses of one comparison. fixed: baselines that no replicate changes."""
    sampled = sample(readings(finals, untrained, parts, unit=unit), parts, METRICS)
    own = [one for one in sampled if not one.reading.what]
    honest = {
        setup: {
            one.reading.loss: one.samples["recall_at_1"]
            for one in own
            if one.reading.setup == setup
        }
        for setup in (comparison.setup, BASELINE)
    }
    losses = honest[comparison.setup]
    ahead = ahead_of(all_intervals(losses))
    order = in_order({loss: float(one.mean()) for loss, one in losses.items()}, ahead)
    return Ranking(
        comparison.dataset,
        comparison.backbone,
        comparison.embedding_size,
        rows=_ranked(_rows(list(finals["loss"].unique()), sampled, comparison.setup), order, ahead),
        baselines={one.reading.loss: one.numbers for one in own if one.reading.setup == BASELINE},
        notes=notes(finals, unit=unit),
        ahead=ahead + _against_baselines(losses, honest[BASELINE], fixed),
        protocol=comparison.protocol,
        several=comparison.several,
    )


def _scored_once(untrained: pd.DataFrame) -> set[str]:
    """Return the baselines that a study scores once, since no seed changes them."""
    counts = untrained.groupby(["backbone", "loss"]).size()
    return {
        baseline_name(str(name), str(loss))
        for name, loss in counts[counts == 1].index
        if name == PIXELS or loss != UNTRAINED  # a random network of which one trial has started
    }


def _against_baselines(
    losses: Mapping[str, Sample], baselines: Mapping[str, Sample], fixed: set[str]
) -> list[tuple[str, str]]:
    """Return who is ahead, loss or baseline, with intervals that hold for all such pairs together.

    fixed: baselines that are the same in every replicate, such as raw pixels.
    """
    found = []
    for name, baseline in baselines.items():
        both = {
            loss: (own, baseline.repeated(own.replicates) if name in fixed else baseline)
            for loss, own in losses.items()
        }
        among = len(losses) + len(baselines)
        found += ahead_of(
            {(loss, name): gap.interval(among=among) for loss, gap in differences(both).items()}
        )
    return found


def _rows(losses: Sequence[str], sampled: Sequence[Sampled], setup: str) -> list[RankingRow]:
    """Return a row per loss without its rank; differences are paired within each loss.

    setup: the one that ranks.
    """
    losses, ranks = [str(loss) for loss in losses], setup
    own = {(one.reading.loss, one.reading.setup): one for one in sampled if not one.reading.what}
    setups = {loss: (own.get((loss, ranks)), own.get((loss, DEFAULT))) for loss in losses}
    gaps, joint = minus(setups), together(setups, "recall_at_1")
    each = steps(sampled)
    beside: dict[str, list[Beside]] = {loss: [] for loss in losses}
    for setup, what in dict.fromkeys(
        (one.reading.setup, one.reading.what) for one in sampled if one.reading.what
    ):
        mine = {
            one.reading.loss: one
            for one in sampled
            if (one.reading.setup, one.reading.what) == (setup, what)
        }
        less = minus({loss: (one, own.get((loss, setup))) for loss, one in mine.items()})
        for loss, one in mine.items():
            beside[loss].append(Beside(setup, what, one.numbers, less[loss]))
    return [
        RankingRow(
            loss,
            _numbers(own.get((loss, DEFAULT))),
            _numbers(own.get((loss, ranks))),
            gaps[loss],
            beside=sorted(beside[loss], key=lambda one: one.setup),
            steps=each.get(loss, []),
            difference_together=joint.get(loss),
        )
        for loss in losses
    ]


def _numbers(one: Sampled | None) -> dict[str, Measurement]:
    return one.numbers if one else {}


def _ranked(
    rows: list[RankingRow], names: list[str], ahead: list[tuple[str, str]]
) -> list[RankingRow]:
    """Sort as the names are; a loss without the validation setup comes last and has no rank."""
    by_name = {row.loss: row for row in rows if row.validation}
    honest = [by_name[name] for name in names]
    spans, groups = rank_intervals(names, ahead), letters(names, ahead)
    ranked = [
        replace(row, rank=rank, rank_interval=spans[row.loss], groups=groups[row.loss])
        for rank, row in enumerate(honest, start=1)
    ]
    rest = [row for row in rows if not row.validation]
    return ranked + sorted(
        rest, key=lambda row: -row.default["recall_at_1"].value if row.default else 1
    )
