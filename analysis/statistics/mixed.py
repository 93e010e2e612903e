"""Estimate means and differences with intervals from replicates crossed with test classes.

A replicate repeats the pipeline for all losses; every replicate is scored on the same test
classes. The variance of a mean over both is V_C + V_S - V_E: that between classes, plus that
between replicates, minus the residual that both contain. With three replicates V_S has two degrees
of freedom, so it is drawn towards what the other losses of its family have. benchmarks/coverage.py
simulates how well the intervals hold.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

import numpy as np

from analysis.statistics.estimate import Estimate, Variance, added
from analysis.statistics.sample import Floats, Sample

Key = TypeVar("Key", bound=Hashable)
# Degrees of freedom that the replicates of other losses count at most: more tells losses of unequal
# spread apart too often, fewer costs power.
BORROWED = 4
ROPE = 0.005  # region of practical equivalence: losses that differ by less are equally good


@dataclass(frozen=True)
class _Pool:
    """Hold the mean variance over replicates of a family, its degrees of freedom, and the number of
    independent contrasts that it is the mean of.
    """

    variance: Floats
    df: Floats
    contrasts: int


NOTHING = _Pool(np.zeros(()), np.zeros(()), 1)
# Of replicates that nobody can compare: an interval that shows nothing.
UNKNOWN = _Pool(np.ones(()), np.ones(()), 1)


def estimates(samples: Mapping[Key, Sample]) -> dict[Key, Estimate]:
    """Return the mean of each sample; the samples are one family, such as one number per loss."""
    pool = _pool_of_means(samples.values())
    return {key: _estimate(one, pool) for key, one in samples.items()}


def pairs(samples: Mapping[Key, Sample]) -> dict[tuple[Key, Key], Estimate]:
    """Return for every pair, in the order of the samples, the first minus the second."""
    pool = _pool_of_pairs(samples.values())
    return {
        (one, other): _difference(samples[one], samples[other], pool)
        for one, other in combinations(samples, 2)
    }


def differences(samples: Mapping[Key, tuple[Sample, Sample]]) -> dict[Key, Estimate]:
    """Return the first minus the second by key; the keys are one family, such as losses."""
    pool = _pool_of_means(one.minus(other) for one, other in samples.values() if _share(one, other))
    every = [one for both in samples.values() for one in both]
    if pool is NOTHING and any(len(one.replicates) > 1 for one in every):
        pool = UNKNOWN
    return {key: _difference(*both, pool) for key, both in samples.items()}


def _difference(one: Sample, other: Sample, pool: _Pool) -> Estimate:
    """Return the first minus the second, paired by replicate if they share any."""
    return _estimate(one.minus(other), pool) if _share(one, other) else unpaired(one, other, pool)


def _share(one: Sample, other: Sample) -> bool:
    return not set(one.replicates).isdisjoint(other.replicates)


def unpaired(one: Sample, other: Sample, pool: _Pool = NOTHING) -> Estimate:
    """Return the first minus the second where they share test classes, but no replicate."""
    means = (one.by_class() - other.by_class())[..., None, :]
    parts = [_replicate_parts(each) for each in (one, other)]
    replicates = added(Variance(own, max(own_df, 1)) for own, own_df, _ in parts)
    if not all(own_df for _, own_df, _ in parts):  # one of them does not know its own spread
        fewest = min(len(one.replicates), len(other.replicates))
        lent = np.maximum(replicates.value, pool.variance / fewest)
        replicates = Variance(lent, np.maximum(pool.df, 1))
    residual = np.sum([each for _, _, each in parts], axis=0)
    classes = _class_variance(replace(one, means=means))
    return Estimate(one.mean() - other.mean(), classes, replicates, residual)


def _complete(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples that have every replicate that any of them has."""
    every = list(samples)
    ids = {each for one in every for each in one.replicates}
    return [one for one in every if len(one.replicates) == len(ids)]


def _pool_of_means(samples: Iterable[Sample]) -> _Pool:
    """Return what means vary by over replicates.

    What all means share in a replicate, such as an easy split, is one observation, not one for
    each: the variance of their average has S - 1 degrees of freedom, the rest (L - 1)(S - 1).
    """
    every = list(samples)
    means = [one.by_replicate() for one in _complete(every)]
    if len(means) < 2 or means[0].shape[-1] < 2:
        return _pool_of_some(every)
    df = means[0].shape[-1] - 1
    variance = np.mean([_variance(one) for one in means], axis=0)
    common = _variance(np.mean(means, axis=0))
    both = added([Variance(common, df), Variance(variance - common, (len(means) - 1) * df)])
    return _Pool(variance, np.maximum(both.df, df), len(means))


def _pool_of_some(samples: Iterable[Sample]) -> _Pool:
    """Return the mean variance of those that have two replicates, as if all of it was shared."""
    some = [one.by_replicate() for one in samples if len(one.replicates) > 1]
    if not some:
        return NOTHING
    variance = np.mean([_variance(one) for one in some], axis=0)
    return _Pool(variance, np.asarray(float(max(one.shape[-1] for one in some) - 1)), 1)


def _pool_of_pairs(samples: Iterable[Sample]) -> _Pool:
    """Return what differences vary by over replicates: twice the mean square of loss x replicate,
    which is the mean over all pairs.

    A pair counts by the replicates that both have, less one. Nothing is known where no pair has
    two, nor where no pair has more than two and some pair has fewer, which would borrow all of its
    spread from a single degree of freedom. Without missing replicates the degrees of freedom are
    (L - 1)(S - 1).
    """
    every = list(samples)
    if all(len(one.replicates) < 2 for one in every):
        return NOTHING
    both = [
        (one, other, len(set(one.replicates) & set(other.replicates)))
        for one, other in combinations(every, 2)
    ]
    shared = [count for _, _, count in both]
    gaps = [one.minus(other).by_replicate() for one, other, count in both if count > 1]
    if not gaps or (max(shared) == 2 and min(shared) < 2):
        return UNKNOWN
    each = np.array([gap.shape[-1] - 1 for gap in gaps], dtype=float)
    variance = np.average([_variance(gap) for gap in gaps], axis=0, weights=each)
    return _Pool(variance, np.asarray(2 * each.sum() / len(every)), len(every) - 1)


def _estimate(sample: Sample, pool: _Pool) -> Estimate:
    """Return the mean of a sample whose variance over replicates is drawn towards the pool.

    Its own variance is part of the pool, so the result has fewer degrees of freedom than both have
    together.
    """
    own, own_df, residual = _replicate_parts(sample)
    rest = np.maximum(pool.df - own_df, 0)
    weight = np.minimum(BORROWED, rest)
    total = weight + own_df
    total = np.where(total > 0, total, 1)
    variance = (weight * pool.variance / len(sample.replicates) + own_df * own) / total
    df = replicate_df(own_df, rest, pool.contrasts)
    replicates = Variance(variance, np.maximum(df, 1))
    return Estimate(sample.mean(), _class_variance(sample), replicates, residual)


def replicate_df(own: int, rest: Floats | float, contrasts: int) -> Floats:
    """Return the degrees of freedom of a variance over replicates that is drawn towards a pool.

    own, rest: those of the variance itself, and of the others in the pool. contrasts: of how many
    the pool is the mean; one of them is the variance itself.
    """
    weight = np.minimum(BORROWED, rest)
    if not own:
        return np.asarray(weight)
    share = (weight / contrasts + own) / (weight + own)
    exact = 1 / (share**2 / own + (1 - share) ** 2 / np.maximum(rest, 1e-9))
    return np.asarray(np.minimum(weight + own, exact))


def _class_variance(sample: Sample) -> Variance:
    """Return V_C with the degrees of freedom of a mean weighted by queries."""
    weights, count = sample.weights, len(sample.weights)
    if count < 2:
        return Variance(np.zeros(sample.means.shape[:-2]), 1)
    by_class = sample.by_class()
    gaps = by_class - (by_class @ weights)[..., None]
    variance = ((weights * gaps) ** 2).sum(axis=-1) * count / (count - 1)
    squares = weights**2
    df = max(1.0, float(squares.sum() ** 2 / (squares**2).sum() - 1))
    return Variance(np.asarray(variance), df)


def _replicate_parts(sample: Sample) -> tuple[Floats, int, Floats]:
    """Return V_S, its degrees of freedom, and V_E; zeros with a single replicate."""
    replicates, classes = sample.means.shape[-2:]
    if replicates < 2:
        nothing = np.zeros(sample.means.shape[:-2])
        return nothing, 0, nothing
    by_replicate = sample.by_replicate()
    gaps = by_replicate - by_replicate.mean(axis=-1, keepdims=True)
    by_class = sample.by_class()
    residuals = sample.means - by_class[..., None, :] - gaps[..., None]
    squares = ((sample.weights * residuals) ** 2).sum(axis=(-1, -2))
    factor = classes / max(classes - 1, 1) / (replicates * (replicates - 1))
    return _variance(by_replicate) / replicates, replicates - 1, np.asarray(factor * squares)


def _variance(values: Floats) -> Floats:
    return np.asarray(values.var(axis=-1, ddof=1))
