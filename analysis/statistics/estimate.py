"""Hold a mean or a difference with the variances that it is made of, and find its interval."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from analysis.statistics.quantiles import LEVEL, range_quantile
from analysis.statistics.sample import Floats


@dataclass(frozen=True)
class Variance:
    """Hold an estimated variance and its degrees of freedom: one or more."""

    value: Floats
    df: Floats | float

    def by(self, factor: float) -> Variance:
        """Return this variance times a factor."""
        return replace(self, value=factor * self.value)


@dataclass(frozen=True)
class Estimate:
    """Hold a mean or a difference, and what it varies by over test classes and over replicates.

    Both variances contain the residual: its variance is counted once.
    """

    value: Floats
    classes: Variance
    replicates: Variance
    residual: Floats

    @property
    def variance(self) -> Floats:
        """Return V_C + V_S - V_E, at least the larger of V_C and V_S."""
        return self._total(1, 1)

    def reach(self, level: float = LEVEL, *, among: int = 2) -> Floats:
        """Return half the length of the interval.

        Each variance is multiplied by the square of its own quantile before they are added
        (Banerjee 1960). Degrees of freedom that are estimated for the sum would be too many exactly
        where a few replicates are alike by chance.

        among: how many losses are compared with each other. The intervals of all their pairs hold
        together (Tukey's studentized range); 2 gives Student's t.
        """
        classes, replicates = (
            range_quantile(among, np.asarray(part.df), level) ** 2 / 2
            for part in (self.classes, self.replicates)
        )
        return np.sqrt(self._total(classes, replicates))

    def interval(self, level: float = LEVEL, *, among: int = 2) -> tuple[float, float]:
        """Return both ends of the interval."""
        reach = self.reach(level, among=among)
        return float(self.value - reach), float(self.value + reach)

    def turned(self) -> Estimate:
        """Return the second minus the first."""
        return replace(self, value=-self.value)

    def above(self, limit: float = 0.0) -> float:
        """Return the probability that the true value is larger than the limit.

        It is what the data say if nothing was known before: 97.5 % where the 95 % interval ends at
        the limit.
        """
        from scipy.optimize import brentq

        gap = float(self.value) - limit
        if gap == 0 or self.variance == 0:
            return 0.5 if gap == 0 else float(gap > 0)
        highest = 1 - 1e-9
        if self.reach(highest) < abs(gap):
            level = 1.0
        else:
            level = float(brentq(lambda level: float(self.reach(level)) - abs(gap), 0, highest))
        return (1 + level) / 2 if gap > 0 else (1 - level) / 2

    def _total(self, classes: Floats | float, replicates: Floats | float) -> Floats:
        """Return V_C + V_S - V_E, at least the larger of V_C and V_S, each times a factor; the
        residual is taken from V_C, which knows it well.
        """
        rest = classes * np.maximum(self.classes.value - self.residual, 0)
        total = rest + replicates * self.replicates.value
        return np.asarray(np.maximum(total, classes * self.classes.value))


def unrelated(one: Estimate, other: Estimate) -> Estimate:
    """Return the first minus the second of estimates that share neither classes nor replicates."""
    return _sum([one, other.turned()])


def mean_of(found: Iterable[Estimate]) -> Estimate:
    """Return the mean of unrelated estimates, such as those of several datasets."""
    every = list(found)
    total, share = _sum(every), 1 / len(every)
    return Estimate(
        total.value * share,
        total.classes.by(share**2),
        total.replicates.by(share**2),
        total.residual * share**2,
    )


def added(parts: Iterable[Variance]) -> Variance:
    """Return the sum of unrelated variances of one kind; degrees of freedom by Satterthwaite."""
    every = list(parts)
    total = np.sum([part.value for part in every], axis=0)
    spent = np.sum([part.value**2 / part.df for part in every], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return Variance(total, np.where(spent > 0, total**2 / spent, np.inf))


def _sum(every: list[Estimate]) -> Estimate:
    """Return the sum of unrelated estimates; its variance is the sum of theirs."""
    counted_twice = [one.classes.value + one.replicates.value - one.variance for one in every]
    return Estimate(
        np.sum([one.value for one in every], axis=0),
        added(one.classes for one in every),
        added(one.replicates for one in every),
        np.sum(counted_twice, axis=0),
    )
