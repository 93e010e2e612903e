"""Make the trials of a GPU check, and photos of noise for those that are timed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from search_spaces import LOSSES
from study.config.plan import expand
from study.config.study_config import make
from study.estimate.pretended import PretendedPixels
from study.presets import quickstart
from trainables.contract import Split, TrialSpec
from trainables.datasets.indexing import Index
from trainables.datasets.pixels import TYPICAL_RATIO, Dataset

CLASSES, EACH = 16, 24  # of the photos of noise
SMALL = {
    "protocols": ["fixed_validation"],
    "backbone": "tiny",
    "train": "all",
    "weights": "none",
    "embedding_size": 32,
    "batch_size": 24,
    "images_per_class": 4,
    "max_classes": 20,
    "steps_per_epoch": 2,
    "epochs": 1,
    "search_epochs": None,
    "lr_step": None,
    "baselines": False,
}


@dataclass(frozen=True)
class Workload:
    """Say how large the steps are that are timed."""

    backbone: str
    image_size: int
    batch_size: int
    steps: int


ON_GPU = Workload("resnet50", image_size=224, batch_size=112, steps=12)
ON_CPU = Workload("tiny", image_size=64, batch_size=8, steps=2)


def small_trials(losses: tuple[str, ...] = tuple(sorted(LOSSES))) -> list[TrialSpec]:
    """Return a trial of each loss on drawings, with its published setting."""
    plan = expand(make(quickstart() | SMALL | {"losses": list(losses)}))
    seed = plan.config.seed
    return [plan.spec(cell, "search", seed, plan.published(cell.loss)) for cell in plan.cells]


def timed_trial(work: Workload) -> tuple[TrialSpec, Dataset]:
    """Return a trial of the usual size, and photos of noise for it."""
    (spec,) = small_trials(("proxy_anchor",))
    photos = pretended_photos()
    transform = replace(
        spec.transform, image_size=work.image_size, crop="resized", max_shift=0, flip=True
    )
    training = replace(
        spec.training,
        batch_size=work.batch_size,
        images_per_class=work.batch_size // 4,
        steps_per_epoch=work.steps,
        epochs=100,
    )
    spec = replace(
        spec,
        cell=replace(spec.cell, backbone=work.backbone, embedding_size=512),
        splits=(Split(train=photos.index.train, select=photos.index.test),),
        transform=transform,
        training=training,
    )
    return spec, photos


def pretended_photos() -> Dataset:
    """Return photos of noise, as large as decoded ones."""
    labels = np.arange(CLASSES * EACH) % CLASSES
    names, half = tuple(map(str, range(CLASSES))), CLASSES - 2
    train, test = tuple(range(half)), tuple(range(half, CLASSES))
    listed = Index(Path(), (), labels, names, train, test, "0", channels=3)
    pixels = PretendedPixels(len(labels), side=256, channels=3, ratio=TYPICAL_RATIO)
    return Dataset(listed, pixels)
