"""Draw figures: each function returns a Drawing, or None where there is nothing to draw."""

from analysis.figures.curves import learning_curves
from analysis.figures.embedding_maps import joint_map, yoked_map
from analysis.figures.gallery import gallery
from analysis.figures.ranks import critical_difference
from analysis.figures.recalls import (
    recall_by,
    recall_by_loss,
    recall_frame,
    validation_against_test,
)
from analysis.figures.search import search_progress
from analysis.figures.settings import importance_bars, parallel_coordinates, slices
from analysis.figures.setups import setup_differences
from analysis.figures.similarity import same_vs_different
from analysis.figures.style import Drawing
from analysis.figures.toys import toy_embeddings
from analysis.figures.years import improvement_by_year

__all__ = [
    "Drawing",
    "critical_difference",
    "gallery",
    "importance_bars",
    "improvement_by_year",
    "joint_map",
    "learning_curves",
    "parallel_coordinates",
    "recall_by",
    "recall_by_loss",
    "recall_frame",
    "same_vs_different",
    "search_progress",
    "setup_differences",
    "slices",
    "toy_embeddings",
    "validation_against_test",
    "yoked_map",
]
