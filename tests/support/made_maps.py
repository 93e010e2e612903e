"""Made embeddings: classes as tight groups of directions, with the files that a final trial leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from analysis.maps.kept import Kept, read_kept
from study.config import StudyConfig
from trainables.contract import TrialSpec
from trainables.datasets.catalogue import index


def units(classes: int, per_class: int, *, size: int = 8, spread: float = 0.15, seed: int = 0) -> tuple[Any, Any]:
    """Unit vectors, and their classes."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    found = rng.normal(size=(classes, size))[labels] + spread * rng.normal(size=(len(labels), size))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32), labels


def spec_of(config: StudyConfig, loss: str = "triplet", protocol: str = "fixed_validation") -> TrialSpec:
    cell = next(cell for cell in config.cells() if (cell.loss, cell.protocol) == (loss, protocol))
    return config.spec(cell, "final", 0, config.published(loss))


def write_kept(folder: Path, spec: TrialSpec, *, per_class: int = 3) -> tuple[Path, Path]:
    """embeddings.npz and trial.yaml as a trial of this spec leaves them, with a few images of every class."""
    folder.mkdir(parents=True, exist_ok=True)
    listed, arrays = index(spec.origin), {}
    for fold, split in enumerate(spec.splits):
        classes = sorted({*split.train, *split.select, *split.test})
        images = np.concatenate([listed.ids((label,))[:per_class] for label in classes])
        fc, _ = units(len(classes), per_class, seed=fold)
        gap, _ = units(len(classes), per_class, size=12, spread=0.6, seed=fold)
        arrays |= {f"{fold}/image": images, f"{fold}/class": listed.labels[images]}
        arrays |= {f"{fold}/embedding": 3 * fc.astype(np.float16), f"{fold}/pooled": gap.astype(np.float16)}
    np.savez(folder / "embeddings.npz", **arrays)
    (folder / "trial.yaml").write_text(yaml.safe_dump(json.loads(json.dumps(spec.as_dict()))))
    return folder / "embeddings.npz", folder / "trial.yaml"


def made_kept(folder: Path, config: StudyConfig, **options: Any) -> Kept:
    return read_kept(*write_kept(folder, spec_of(config), **options))[0]
