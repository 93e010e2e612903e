"""Pretend a study's images or features, so that steps can be timed before any of them is here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from study.estimate.disk import trunk_size
from trainables.contract import OWN_FEATURES, DatasetRef, ImageTransform, TrialSpec
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import index
from trainables.datasets.pixels import TYPICAL_RATIO, Dataset, Pixels
from trainables.datasets.vectors import load_vectors
from trainables.inputs.features import Features

FEW = 64  # different rows of features


class PretendedPixels(Pixels):
    """Hold one image of noise in place of all."""

    def __init__(self, count: int, *, side: int, channels: int, ratio: float) -> None:
        shape = side, round(side * ratio), channels
        noise = np.random.default_rng(0).integers(256, size=shape, dtype=np.uint8)
        super().__init__(noise.reshape(-1), np.array([shape] * count))
        self._noise = noise

    def __getitem__(self, image: int) -> NDArray[np.uint8]:
        return self._noise


def pretended_data(spec: TrialSpec) -> Dataset | Features:
    """Return data of the shape that the trial would read; only the user's own vectors are real."""
    found = index(spec.dataset_ref)
    count = len(found.labels)
    if spec.dataset_ref.dataset == OWN_FEATURES:
        return Features(found, load_vectors(spec.dataset_ref), np.arange(count))
    if spec.reads_features:
        width = trunk_size(spec.cell.backbone, found.channels, spec.model.pooling).features
        noise = np.random.default_rng(0).random((FEW, width), dtype=np.float32)
        rows = np.arange(count) % FEW
        return Features(found, noise, rows, (noise,) * spec.training.views, rows)
    return pretended_images(spec.dataset_ref, spec.transform)


def pretended_images(dataset_ref: DatasetRef, transform: ImageTransform) -> Dataset:
    """Return images of noise, as large as the decoded ones would be."""
    found, info = index(dataset_ref), DATASETS[dataset_ref.dataset]
    side, ratio = (info.side, 1.0) if info.side else (transform.cache_size, TYPICAL_RATIO)
    ratio = 1.0 if transform.resize == "squash" else ratio
    count, channels = len(found.labels), found.channels
    return Dataset(found, PretendedPixels(count, side=side, channels=channels, ratio=ratio))
