"""Read features in place of images: from a frozen trunk's cache, or those that the user brought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract import OWN_FEATURES, TrialSpec
from trainables.datasets.indexing import Index, index
from trainables.datasets.pixels import Dataset, load
from trainables.datasets.vectors import load_vectors
from trainables.inputs.batches import Rows
from trainables.inputs.feature_cache import FeaturePass, extract, passes_of_trial
from trainables.inputs.loader import Pending

PER_PASS = 2**16  # rows of one forward pass when scoring

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Features:
    """Hold a dataset's features: of the centre crops, and of random crops of the train images.

    rows and view_rows say where an image's features are, by its id; -1: nowhere.
    """

    index: Index
    centre: Floats
    rows: Ints
    views: tuple[Floats, ...] = ()
    view_rows: Ints | None = None

    @property
    def width(self) -> int:
        """Return how many features an image has."""
        return int(self.centre.shape[1])


class FeatureRows:
    """Give access to the features of these images and of no others, as Images does to pixels."""

    per_pass = PER_PASS

    def __init__(self, data: Features, ids: Ints) -> None:
        self.ids, self.labels, self.data = ids, data.index.labels[ids], data
        self._rows = data.rows[ids]
        assert (self._rows >= 0).all(), "features are there for every class of a study"

    def __len__(self) -> int:
        return len(self.ids)

    def draws(self, key: tuple[int, ...]) -> Floats:
        """Return a random number for every image of the dataset, for augmented().

        The key holds seed, fold and epoch, never rank or batch.
        """
        return np.random.default_rng(key).random(len(self.data.rows), dtype=np.float32)

    def plain(self, rows: Rows) -> Pending:
        """Return (n, features), as scoring sees the images."""
        mine = self._rows[rows]

        def write(found: Tensor) -> None:
            # Other modes than "raise", which these rows need not, write without a second copy.
            np.take(self.data.centre, mine, axis=0, out=found.numpy(), mode="clip")

        return self._pending(len(rows), write)

    def augmented(self, rows: Rows, numbers: Floats) -> Pending:
        """Return (n, features), as training sees the images: each from one of its views."""
        views, where = self.data.views, self.data.view_rows
        if not views or where is None:
            return self.plain(rows)
        ids = self.ids[rows]
        chosen = (numbers[ids] * len(views)).astype(np.int64)

        def write(found: Tensor) -> None:
            for number, view in enumerate(views):
                mine = chosen == number
                found.numpy()[mine] = view[where[ids[mine]]]

        return self._pending(len(ids), write)

    def _pending(self, count: int, write: Callable[[Tensor], None]) -> Pending:
        return Pending((count, self.data.width), torch.float32, write)


def load_data(spec: TrialSpec) -> Dataset | Features:
    """Return what a trial reads, opened once per process: images, or features in their place.

    A node that does not have the features yet computes them.
    """
    if not spec.reads_features:
        return load(spec.dataset_ref, spec.transform.cache_size, spec.transform.resize)
    if spec.dataset_ref.dataset == OWN_FEATURES:
        vectors = load_vectors(spec.dataset_ref)
        return Features(index(spec.dataset_ref), vectors, np.arange(len(vectors)))
    return _open(tuple(passes_of_trial(spec)))


@cache
def _open(passes: tuple[FeaturePass, ...]) -> Features:
    for each in passes:
        extract(each)
    centre, *views = (each.open() for each in passes)
    found = index(passes[0].dataset_ref)
    count = len(found.labels)
    return Features(
        found,
        centre[0],
        _by_id(centre[1], count),
        tuple(features for features, _ in views),
        _by_id(views[0][1], count) if views else None,
    )


def _by_id(ids: Ints, count: int) -> Ints:
    rows = np.full(count, -1, dtype=np.int64)
    rows[ids] = np.arange(len(ids))
    return rows
