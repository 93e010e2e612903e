"""Choose what a preset leaves open, by this machine and by the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from search_spaces.training import AUTO, PHOTOS
from trainables.contract import FEW_CLASSES, DatasetRef
from trainables.datasets.indexing import halves

MOST_FOLDS = 4


@dataclass
class Choices:
    """Hold the chosen values, and a sentence for each choice."""

    values: dict[str, Any] = field(default_factory=dict)
    reasons: list[str] = field(default_factory=list)


def choose(values: Mapping[str, Any]) -> Choices:
    """Return what the keys that say `auto` become, and why."""
    found = Choices()
    train = values.get("train", "all")
    if train == AUTO:
        train = found.values["train"] = "all" if _has_gpu() else "head"
        found.reasons.append(
            f"train={train}, because this machine has {'a' if train == 'all' else 'no'} GPU."
        )
    open_keys = [key for key, value in values.items() if value == AUTO and key != "train"]
    for key in open_keys:
        if key in PHOTOS[train]:
            found.values[key] = PHOTOS[train][key]
    protocols = values.get("protocols")
    if isinstance(protocols, list) and AUTO in protocols:
        protocol, reason = _protocol(values)
        found.values["protocols"] = [protocol if name == AUTO else name for name in protocols]
        found.reasons.append(reason)
    return found


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def _protocol(values: Mapping[str, Any]) -> tuple[str, str]:
    """Return one split where a tenth of the train classes is enough to choose by, else folds."""
    classes = _train_classes(values)
    if classes is None or classes >= 10 * FEW_CLASSES:
        return "fixed_validation", "fixed_validation, because a tenth of the train classes is ten."
    folds = max(2, min(MOST_FOLDS, classes // FEW_CLASSES))
    return f"k_fold:{folds}", (
        f"k_fold:{folds}, because a tenth of {classes} train classes is too few to choose by: "
        f"every class is held out once."
    )


def _train_classes(values: Mapping[str, Any]) -> int | None:
    """Return how many classes there are to train on; None if the data cannot be read."""
    dataset = values.get("dataset")
    name = dataset[0] if isinstance(dataset, list) else dataset
    train, test = (tuple(values.get(key) or ()) for key in ("train_classes", "test_classes"))
    try:
        ref = DatasetRef(
            str(name), values.get("data_root"), train, test, max_classes=values.get("max_classes")
        )
        return len(halves(ref)[0])
    except (ValueError, TypeError, OSError):  # the config's own checks say what is wrong
        return None
