"""Kept embeddings: every image of a final trial's split, from the embedding layer and from the features below it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from trainables.contract import TrialSpec

FC, GAP = "embedding", "pooled"  # as trainables/fit.py names the two places where features are taken
PARTS = ("train", "select", "test")

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Kept:
    """What one model of a final trial left: a row per image. part: train, select or test, by the image's class."""

    spec: TrialSpec
    fold: int
    image: NDArray[np.int64]
    label: NDArray[np.int64]
    part: NDArray[np.str_]
    features: dict[str, Floats]

    def __len__(self) -> int:
        return len(self.image)

    @property
    def name(self) -> str:
        return f"{self.spec.cell.loss}, {self.spec.cell.protocol}" + (f", fold {self.fold}" if len(self.spec.splits) > 1 else "")

    def units(self, place: str) -> Floats:
        """Of length one, as scoring compares them."""
        found = self.features[place]
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        units: Floats = found / np.maximum(lengths, np.finfo(np.float32).tiny)
        return units

    def take(self, rows: NDArray[Any]) -> Kept:
        """Only these rows, in this order."""
        features = {place: values[rows] for place, values in self.features.items()}
        return replace(self, image=self.image[rows], label=self.label[rows], part=self.part[rows], features=features)

    def only(self, part: str) -> Kept:
        return self.take(np.flatnonzero(self.part == part))


def read_kept(embeddings: Path, trial: Path) -> list[Kept]:
    """One for each fold. embeddings: embeddings.npz; trial: the trial.yaml beside it."""
    spec = TrialSpec.from_dict(yaml.safe_load(trial.read_text()))
    found = []
    with np.load(embeddings, allow_pickle=False) as arrays:
        for fold, split in enumerate(spec.splits):
            label = arrays[f"{fold}/class"]
            part = np.full(len(label), "select", dtype="<U6")
            part[np.isin(label, split.train)] = "train"
            part[np.isin(label, split.test)] = "test"
            features = {place: arrays[f"{fold}/{place}"].astype(np.float32) for place in (FC, GAP)}
            found.append(Kept(spec, fold, arrays[f"{fold}/image"], label, part, features))
    return found


def whole_classes(kept: Kept, limit: int, *, seed: int = 0) -> Kept:
    """About as many images as the limit says: whole classes, evenly from every part, so that what is shown is shown completely."""
    if len(kept) <= limit:
        return kept
    rng = np.random.default_rng(seed)
    chosen: list[NDArray[np.int64]] = []
    for part in PARTS:
        rows = np.flatnonzero(kept.part == part)
        budget = limit * len(rows) / len(kept)
        for label in rng.permutation(np.unique(kept.label[rows])):
            images = rows[kept.label[rows] == label]
            if chosen and len(images) / 2 > budget:  # nearer to the limit without it
                break
            chosen.append(images)
            budget -= len(images)
    return kept.take(np.sort(np.concatenate(chosen)))
