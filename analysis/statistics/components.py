"""Estimate what a study's numbers vary by, and the smallest difference that it can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.estimate import Estimate, Variance
from analysis.statistics.mixed import replicate_df
from analysis.statistics.sample import Floats, Sample

POWER = 0.8


@dataclass(frozen=True)
class Components:
    """Hold standard deviations of Recall@1; `replicates` has one for each loss, used in turn.

    The defaults are those of four losses of the quickstart with published settings, in five
    replicates that each had their own split and initial weights.
    """

    replicates: tuple[float, ...]
    shared: float = 0.002  # of a replicate, the same for all losses
    classes: float = 0.130
    loss_in_class: float = 0.029
    residual: float = 0.051
    weights: tuple[float, ...] = (0.01,) * 100  # each test class's share of the queries


# Contrastive, multi-similarity and proxy anchor in six whole pipelines, each with its own search,
# split and initial weights.
QUICKSTART = Components(replicates=(0.020, 0.023, 0.013))


def moments(samples: Sequence[Sample]) -> Components:
    """Return the components of losses with the same replicates and classes."""
    means = np.stack([one.means for one in samples])  # losses x replicates x classes
    _, replicates, classes = means.shape
    by_class, by_replicate = means.mean(axis=1), np.stack([one.by_replicate() for one in samples])
    # A class's residual is that of a mean over its queries: small classes have a larger one.
    sizes = samples[0].weights * classes
    rest = means - by_class[:, None] - by_replicate[:, :, None]
    rest = rest + by_replicate.mean(axis=1)[:, None, None]
    squares = (sizes * rest**2).sum(axis=(1, 2)).mean()
    residual = float(squares / (replicates - 1) / (classes - 1))
    over_classes, over_replicates = np.cov(by_class), np.cov(by_replicate)
    easy, lucky = _shared(over_classes), max(0.0, _shared(over_replicates))
    own = np.diag(over_replicates) - lucky - residual / classes
    in_class = float(np.diag(over_classes).mean()) - easy
    in_class -= residual * float(np.mean(1 / sizes)) / replicates
    return Components(
        tuple(float(each) for each in np.sqrt(np.maximum(own, 0))),
        shared=float(np.sqrt(lucky)),
        classes=float(np.sqrt(max(0.0, easy))),
        loss_in_class=float(np.sqrt(max(0.0, in_class))),
        residual=float(np.sqrt(residual)),
        weights=tuple(float(each) for each in samples[0].weights),
    )


def _shared(covariance: Floats) -> float:
    """Return the mean covariance between different losses."""
    return float(covariance[np.triu_indices(len(covariance), 1)].mean())


def smallest_difference(
    components: Components, *, losses: int, replicates: int, classes: int
) -> float | None:
    """Return the difference of two losses that a study tells apart with a power of 80 %.

    All pairs of its losses are compared. None with one replicate or one loss: such a study does not
    see what its numbers vary by.
    """
    from scipy.optimize import brentq
    from scipy.stats import chi2, norm

    if replicates < 2 or losses < 2:
        return None
    both = 2 * components.residual**2 / (replicates * classes)
    over_classes = 2 * components.loss_in_class**2 / classes
    over_replicates = 2 * float(np.mean(np.square(components.replicates))) / replicates + both
    own, rest = replicates - 1, (losses - 2) * (replicates - 1)
    df = float(replicate_df(own, rest, losses - 1))
    # What studies find their replicates to vary by: the middle of each of a thousand equal shares.
    found = over_replicates * chi2.ppf((np.arange(1000) + 0.5) / 1000, df) / df
    reach = Estimate(
        np.zeros(()),
        Variance(np.asarray(over_classes + both), max(1.0, classes - 1.0)),
        Variance(found, df),
        np.asarray(both),
    ).reach(among=losses)
    deviation = np.sqrt(over_classes + over_replicates)

    def missing(gap: float) -> float:
        return POWER - float(norm.sf((reach - gap) / deviation).mean())

    return float(brentq(missing, 0, reach.max() + 10 * deviation))
