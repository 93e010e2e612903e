"""Hold a metric's means by replicate and test class: all that its intervals are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Sample:
    """Hold a metric's mean in every replicate and test class.

    Leading axes of means, if there are any, are independent studies of the same shape.
    """

    means: Floats  # (..., replicates, classes)
    counts: Floats  # (classes,) queries of each class
    replicates: tuple[int, ...]

    @classmethod
    def of(cls, queries: pd.DataFrame, metric: str, replicates: Mapping[str, int]) -> Sample:
        """Return the sample of queries; the runs of one replicate are averaged.

        queries: one row per run, model and test query. replicates: the replicate of each run.
        """
        run_of, runs = pd.factorize(queries["run_id"])
        class_of, classes = pd.factorize(queries["class"], sort=True)
        cell, shape = run_of * len(classes) + class_of, (len(runs), len(classes))
        values = queries[metric].to_numpy(float)
        sizes = np.bincount(cell, minlength=len(runs) * len(classes)).reshape(shape)
        sums = np.bincount(cell, values, minlength=len(runs) * len(classes)).reshape(shape)
        means = np.divide(sums, sizes, out=np.full(shape, np.nan), where=sizes > 0)
        units = np.array([replicates[run] for run in runs])
        ids = tuple(int(each) for each in np.unique(units))
        averaged = np.stack([np.nanmean(means[units == each], axis=0) for each in ids])
        return cls(averaged, sizes.sum(axis=0) / (sizes > 0).sum(axis=0), ids)

    @property
    def weights(self) -> Floats:
        """Return each class's share of the queries."""
        return np.asarray(self.counts / self.counts.sum())

    def mean(self) -> Floats:
        """Return the mean over queries and replicates."""
        return np.asarray(self.by_replicate().mean(axis=-1))

    def by_replicate(self) -> Floats:
        """Return the mean over queries of every replicate."""
        return np.asarray(self.means @ self.counts / self.counts.sum())

    def by_class(self) -> Floats:
        """Return the mean over replicates of every class."""
        return np.asarray(self.means.mean(axis=-2))

    def minus(self, other: Sample) -> Sample:
        """Return the difference, paired by class and by the replicates that both have."""
        shared = tuple(each for each in self.replicates if each in other.replicates)
        return replace(self, means=self.rows(shared) - other.rows(shared), replicates=shared)

    def rows(self, replicates: tuple[int, ...]) -> Floats:
        """Return the means of these replicates."""
        return self.means[..., [self.replicates.index(each) for each in replicates], :]

    def repeated(self, replicates: tuple[int, ...]) -> Sample:
        """Return a sample whose only replicate stands for all: nothing in it is random."""
        assert len(self.replicates) == 1, "only what has a single replicate can stand for others"
        return replace(
            self, means=self.means.repeat(len(replicates), axis=-2), replicates=replicates
        )


def average(samples: Iterable[Sample]) -> Sample:
    """Return the mean of samples with the same classes, over the replicates that all have."""
    first, *others = samples
    shared = tuple(
        each for each in first.replicates if all(each in one.replicates for one in others)
    )
    means = np.mean([one.rows(shared) for one in (first, *others)], axis=0)
    return replace(first, means=means, replicates=shared)
