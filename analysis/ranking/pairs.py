"""Collect the losses' own samples by comparison and setup, for tables of all pairs of losses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from analysis.ranking.comparisons import comparisons
from analysis.ranking.readings import DEFAULT, VALIDATION, readings, split_queries, unit_of
from analysis.ranking.samples import Sampled, sample
from analysis.record.frames import StudyRows
from analysis.statistics import Components, moments


@dataclass(frozen=True)
class SetupLosses:
    """Hold every loss of one comparison under one setup, best first."""

    dataset: str
    backbone: str
    embedding_size: int
    protocol: str
    setup: str
    losses: dict[str, Sampled]


def setup_losses(rows: StudyRows, metric: str) -> list[SetupLosses]:
    """Return the losses of every comparison and setup; setups are never mixed.

    The default setup is part of every comparison, but is returned once.
    """
    if rows.finals.empty:
        return []
    found = {
        (one.dataset, one.backbone, one.embedding_size, one.protocol, one.setup): one
        for one in _of_comparisons(rows, metric)
    }
    return list(found.values())


def _of_comparisons(rows: StudyRows, metric: str) -> Iterator[SetupLosses]:
    parts, finals, unit = split_queries(rows.queries), rows.finals, unit_of(rows.trials)
    for comparison in comparisons(rows.trials):
        trained = comparison.trained(finals)
        if trained.empty:
            continue
        found = readings(trained, trained.iloc[:0], parts, unit=unit)
        own = [one for one in found if not one.what]
        measured = [one for one in sample(own, parts, [metric]) if one.numbers]
        for setup, protocol in ((DEFAULT, "default"), (comparison.setup, comparison.protocol)):
            mine = [one for one in measured if one.reading.setup == setup]
            mine.sort(key=lambda one: -one.numbers[metric].value)
            yield SetupLosses(
                comparison.dataset,
                comparison.backbone,
                comparison.embedding_size,
                protocol,
                setup,
                {one.reading.loss: one for one in mine},
            )


def components_of(
    rows: StudyRows,
    metric: str = "recall_at_1",
    *,
    dataset: str = "",
    backbones: Sequence[str] = (),
) -> Components:
    """Return the components of a finished study's first comparison, or of its first one with this
    dataset and one of these backbones, by the method of moments.

    Raise ValueError unless two losses or more share two replicates or more.
    """
    every = setup_losses(rows, metric)
    found = next(
        (
            each
            for each in every
            if each.setup == VALIDATION
            and len(each.losses) > 1
            and dataset in ("", each.dataset)
            and (not backbones or each.backbone in backbones)
        ),
        None,
    )
    samples = [one.samples[metric] for one in found.losses.values()] if found else []
    ids = {one.replicates for one in samples}
    if len(ids) != 1 or len(samples[0].replicates) < 2:
        raise ValueError(
            f"Components take two losses or more with the same two replicates or more, but "
            f"'{rows.name}' has {len(samples)} losses with replicates {sorted(ids)}; finish the "
            "study, or raise searches."
        )
    return moments(samples)
