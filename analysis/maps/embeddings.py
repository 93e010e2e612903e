"""Read the embeddings that a final trial or a baseline keeps: every image, from two layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.contract import NOT_TRAINED, TrialSpec

# The embedding layer and the pooled features below it, as trainables/training/fit.py names them.
FC, GAP = "embedding", "pooled"
PARTS = ("train", "select", "test")

Float32Array = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class TrialEmbeddings:
    """Hold what one model of a final trial keeps: a row per image.

    part: train, select or test, by the image's class. features: an array for each layer.
    """

    spec: TrialSpec
    fold: int
    image: NDArray[np.int64]
    label: NDArray[np.int64]
    part: NDArray[np.str_]
    features: dict[str, Float32Array]

    def __len__(self) -> int:
        return len(self.image)

    @property
    def name(self) -> str:
        cell = self.spec.cell
        if cell.loss in NOT_TRAINED:
            return f"{cell.backbone}, {cell.loss}"
        return f"{cell.loss}, {cell.protocol}" + (
            f", fold {self.fold}" if len(self.spec.splits) > 1 else ""
        )

    def units(self, layer: str) -> Float32Array:
        """Return the features of a layer scaled to length one, as scoring compares them."""
        features = self.features[layer]
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        units: Float32Array = features / np.maximum(lengths, np.finfo(np.float32).tiny)
        return units

    def take(self, rows: NDArray[Any]) -> TrialEmbeddings:
        """Return only these rows, in this order."""
        features = {layer: values[rows] for layer, values in self.features.items()}
        return replace(
            self,
            image=self.image[rows],
            label=self.label[rows],
            part=self.part[rows],
            features=features,
        )

    def only(self, part: str) -> TrialEmbeddings:
        """Return the images of one part."""
        return self.take(np.flatnonzero(self.part == part))


def read_embeddings(embeddings: Path, spec: TrialSpec) -> list[TrialEmbeddings]:
    """Return one entry per fold of the embeddings.npz that a trial left."""
    folds = []
    with np.load(embeddings, allow_pickle=False) as arrays:
        for fold, split in enumerate(spec.splits):
            label = arrays[f"{fold}/class"]
            part = np.full(len(label), "select", dtype="<U6")
            part[np.isin(label, split.train)] = "train"
            part[np.isin(label, split.test)] = "test"
            embedding = arrays[f"{fold}/{FC}"].astype(np.float32)  # float16 up to version 0.6
            # Without an embedding layer, the pooled features are the embedding, kept once.
            pooled = f"{fold}/{GAP}"
            below = arrays[pooled].astype(np.float32) if pooled in arrays else embedding
            features = {FC: embedding, GAP: below}
            folds.append(
                TrialEmbeddings(spec, fold, arrays[f"{fold}/image"], label, part, features)
            )
    return folds


def whole_classes(embeddings: TrialEmbeddings, limit: int, *, seed: int = 0) -> TrialEmbeddings:
    """Return about `limit` images: whole classes, drawn evenly from every part."""
    if len(embeddings) <= limit:
        return embeddings
    rng = np.random.default_rng(seed)
    chosen: list[NDArray[np.int64]] = []
    for part in PARTS:
        rows = np.flatnonzero(embeddings.part == part)
        budget = limit * len(rows) / len(embeddings)
        for label in rng.permutation(np.unique(embeddings.label[rows])):
            images = rows[embeddings.label[rows] == label]
            if chosen and len(images) / 2 > budget:  # the total is nearer to the limit without it
                break
            chosen.append(images)
            budget -= len(images)
    return embeddings.take(np.sort(np.concatenate(chosen)))
