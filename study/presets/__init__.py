"""List the presets: one function per experiment, each returning the values of a study."""

from collections.abc import Callable
from typing import Any

from study.presets.laptop import photos, quickstart, triplet_tutorial, vectors
from study.presets.papers import generalization, reality_check, triplet_report
from study.presets.smoke import SMOKE, shrink
from study.presets.thesis import (
    fixed_validation_all,
    thesis_balanced,
    thesis_cross_validation,
    thesis_default,
    thesis_few_labels,
    thesis_fixed_validation,
    thesis_next_loss,
    thesis_own_loss,
    thesis_split_ratio,
)

PRESETS: dict[str, Callable[[], dict[str, Any]]] = {
    "quickstart": quickstart,
    "photos": photos,
    "vectors": vectors,
    "thesis_default": thesis_default,
    "thesis_balanced": thesis_balanced,
    "thesis_split_ratio": thesis_split_ratio,
    "thesis_cross_validation": thesis_cross_validation,
    "thesis_fixed_validation": thesis_fixed_validation,
    "fixed_validation_all": fixed_validation_all,
    "thesis_own_loss": thesis_own_loss,
    "thesis_next_loss": thesis_next_loss,
    "thesis_few_labels": thesis_few_labels,
    "reality_check": reality_check,
    "triplet_report": triplet_report,
    "triplet_tutorial": triplet_tutorial,
    "generalization": generalization,
}

__all__ = ["PRESETS", "SMOKE", "quickstart", "shrink"]
