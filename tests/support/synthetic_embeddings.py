"""Make embeddings with tight classes, and the files in which a final trial keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from analysis.maps.embeddings import TrialEmbeddings, read_embeddings
from analysis.record.frames import StudyRows
from study.config.plan import expand
from study.config.study_config import StudyConfig
from trainables.contract import TrialSpec
from trainables.datasets.indexing import index


def unit_vectors(
    classes: int, per_class: int, *, size: int = 8, spread: float = 0.15, seed: int = 0
) -> tuple[Any, Any]:
    """Return unit vectors around a random direction per class, and their classes."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(classes), per_class)
    raw = rng.normal(size=(classes, size))[labels] + spread * rng.normal(size=(len(labels), size))
    return (raw / np.linalg.norm(raw, axis=1, keepdims=True)).astype(np.float32), labels


def spec_of(
    config: StudyConfig, loss: str = "triplet", protocol: str = "fixed_validation"
) -> TrialSpec:
    """Return the spec of a final trial with the published setting."""
    plan = expand(config)
    cell = next(cell for cell in plan.cells if (cell.loss, cell.protocol) == (loss, protocol))
    return plan.spec(cell, "final", 0, plan.published(loss))


def write_embeddings(folder: Path, spec: TrialSpec, *, per_class: int = 3) -> Path:
    """Write the embeddings.npz of a trial, with a few images of every class."""
    folder.mkdir(parents=True, exist_ok=True)
    listed, arrays = index(spec.dataset_ref), {}
    for fold, split in enumerate(spec.splits):
        classes = sorted({*split.train, *split.select, *split.test})
        images = np.concatenate([listed.ids((label,))[:per_class] for label in classes])
        fc, _ = unit_vectors(len(classes), per_class, seed=fold)
        gap, _ = unit_vectors(len(classes), per_class, size=12, spread=0.6, seed=fold)
        arrays |= {f"{fold}/image": images, f"{fold}/class": listed.labels[images]}
        arrays |= {
            f"{fold}/embedding": 3 * fc,
            f"{fold}/pooled": gap,
        }
    np.savez(folder / "embeddings.npz", **arrays)
    return folder / "embeddings.npz"


def synthetic_embeddings(folder: Path, config: StudyConfig, **options: Any) -> TrialEmbeddings:
    """Return embeddings as read back from the files of a final trial."""
    spec = spec_of(config)
    return read_embeddings(write_embeddings(folder, spec, **options), spec)[0]


def with_kept(rows: StudyRows, folder: Path, config: StudyConfig) -> StudyRows:
    """Return the study as if every final trial had kept the same embeddings."""
    loss_of = rows.trials.set_index("run_id")["loss"]
    specs = {loss: spec_of(config, loss) for loss in loss_of.unique()}
    file = write_embeddings(folder, spec_of(config), per_class=2)
    return replace(
        rows, fetch=lambda run, name: file, spec=lambda run: specs[loss_of[run]].as_dict()
    )
