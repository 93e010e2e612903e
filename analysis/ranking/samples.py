"""Measure readings of the test classes: numbers and paired differences, with their intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from analysis.ranking.measurement import Measurement, difference_ends, share_ends
from analysis.ranking.readings import BASELINE, Parts, Reading
from analysis.statistics import LEVEL, Estimate, Sample, differences, estimates
from trainables.contract import PEEKING


@dataclass(frozen=True)
class Sampled:
    """Hold a reading's measurements, and the samples behind them, both by metric."""

    reading: Reading
    numbers: dict[str, Measurement]
    samples: dict[str, Sample]

    @property
    def family(self) -> tuple[str, ...]:
        """Return what readings share that are the same number of different losses.

        A baseline is a family of its own: what it varies with is not what losses vary with.
        """
        own = (self.reading.loss,) if self.reading.setup == BASELINE else ()
        return self.reading.setup, self.reading.what, *own


def sample(found: Sequence[Reading], parts: Parts, metrics: Sequence[str]) -> list[Sampled]:
    """Measure every reading of one comparison."""
    sampled = [
        Sampled(
            reading,
            {},
            {each: reading.sample(parts, each) for each in metrics if reading.has(parts, each)},
        )
        for reading in found
    ]
    for metric in metrics:
        for family in dict.fromkeys(one.family for one in sampled):
            mine = [one for one in sampled if one.family == family and metric in one.samples]
            values = estimates({i: one.samples[metric] for i, one in enumerate(mine)})
            for i, one in enumerate(mine):
                one.numbers[metric] = _number(one, values[i], metric)
    return sampled


def _number(one: Sampled, estimate: Estimate, metric: str) -> Measurement:
    return Measurement(
        float(estimate.value),
        *share_ends(estimate.interval()),
        rule=one.reading.rule,
        replicates=len(one.samples[metric].replicates),
        setting=one.reading.setting,
        closed=one.reading.closed,
    )


def minus(
    pairs: Mapping[str, tuple[Sampled | None, Sampled | None]],
) -> dict[str, dict[str, Measurement]]:
    """Return by loss and metric the first reading minus the second, paired.

    A difference has the rule of the first reading; if either used test feedback, so did it. Empty
    for a loss that lacks either reading.
    """
    there = {loss: (one, other) for loss, (one, other) in pairs.items() if one and other}
    found: dict[str, dict[str, Measurement]] = {loss: {} for loss in pairs}
    metrics = dict.fromkeys(metric for one, _ in there.values() for metric in one.samples)
    for metric in metrics:
        for loss, estimate in _differences(there, metric).items():
            found[loss][metric] = difference(estimate, *there[loss], metric)
    return found


def together(
    pairs: Mapping[str, tuple[Sampled | None, Sampled | None]], metric: str
) -> dict[str, tuple[float, float]]:
    """Return by loss the interval of the first reading minus the second; those of all losses hold
    together (Bonferroni). A loss that lacks either reading has none.
    """
    there = {loss: (one, other) for loss, (one, other) in pairs.items() if one and other}
    found = _differences(there, metric)
    level = 1 - (1 - LEVEL) / max(1, len(found))
    return {loss: difference_ends(estimate.interval(level)) for loss, estimate in found.items()}


def _differences(pairs: Mapping[str, tuple[Sampled, Sampled]], metric: str) -> dict[str, Estimate]:
    both = {
        loss: (one.samples[metric], other.samples[metric])
        for loss, (one, other) in pairs.items()
        if metric in one.samples and metric in other.samples
    }
    return differences(both)


def difference(estimate: Estimate, one: Sampled, other: Sampled, metric: str) -> Measurement:
    """Return the measurement of an estimated difference of two readings, with the number of
    replicates that both have.
    """
    number, less = one.numbers[metric], other.numbers[metric]
    rule = PEEKING if number.peeks or less.peeks else number.rule
    shared = {*one.samples[metric].replicates} & {*other.samples[metric].replicates}
    ends = difference_ends(estimate.interval())
    closed = number.closed or less.closed
    return Measurement(float(estimate.value), *ends, rule, len(shared), closed=closed)
