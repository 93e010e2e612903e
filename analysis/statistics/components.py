"""Estimate what a study's numbers vary by, and the smallest difference that it can show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from analysis.statistics.mixed import replicate_df
from analysis.statistics.quantiles import range_quantile
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
    from scipy.stats import nct

    if replicates < 2 or losses < 2:
        return None
    over_replicates = 2 * float(np.mean(np.square(components.replicates))) / replicates
    over_classes = 2 * components.loss_in_class**2 / classes
    both = 2 * components.residual**2 / (replicates * classes)
    variance = over_replicates + over_classes + both
    own, rest = replicates - 1, (losses - 2) * (replicates - 1)
    free, class_df = float(replicate_df(own, rest, losses - 1)), max(1.0, classes - 1.0)
    parts = (over_replicates + both) ** 2 / free + (over_classes + both) ** 2 / class_df
    df = max(min(free, class_df), variance**2 / parts)
    quantile = float(range_quantile(losses, np.asarray(df))) / np.sqrt(2)
    reach = brentq(lambda gap: nct.sf(quantile, df, gap) - POWER, 0, 2 * quantile + 10)
    return float(reach * np.sqrt(variance))
