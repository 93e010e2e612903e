"""List all figures by name, each with what it is about and how it is drawn from one study."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.figures.from_scores import OF_SCORES, ScoreFigure
from analysis.figures.from_study import (
    Draw,
    FigureData,
    by_comparison,
    captioned_curves,
    captioned_differences,
    captioned_importance,
    captioned_losses,
    captioned_parallel_coordinates,
    captioned_search,
    captioned_slices,
    captioned_transfer,
    draw_map,
    draw_methods,
)
from analysis.figures.style import Picture
from analysis.figures.toys import captioned_toys
from analysis.ranking.measurement import CLOSED_NOTE
from search_spaces import pick


@dataclass(frozen=True)
class FigureEntry:
    """Hold a figure of the catalogue: what it is about, and the function that draws it."""

    about: str
    draw: Draw
    of_losses: bool = False  # drawn of single losses, which --loss chooses


def _of_scores(figure: ScoreFigure) -> FigureEntry:
    return FigureEntry(figure.about, lambda data: figure.draw(data.study.scores))


FIGURES: dict[str, FigureEntry] = {
    "differences": FigureEntry(
        "both setups with intervals and baselines, and the signed difference",
        by_comparison(captioned_differences),
    ),
    "curves": FigureEntry(
        "learning curves of every loss and protocol, with the chosen epochs",
        by_comparison(captioned_curves),
    ),
    "training_loss": FigureEntry(
        "the training loss of every final trial by epoch", by_comparison(captioned_losses)
    ),
    "search": FigureEntry(
        "the score of every search trial, and the best so far", by_comparison(captioned_search)
    ),
    "parallel_coordinates": FigureEntry(
        "the settings that the search tried, stronger for better",
        by_comparison(captioned_parallel_coordinates),
    ),
    "slices": FigureEntry("the score over every parameter", by_comparison(captioned_slices)),
    "importance": FigureEntry(
        "which hyperparameters matter (fANOVA)", by_comparison(captioned_importance)
    ),
    "validation_against_test": FigureEntry(
        "the score that chose the epoch against the test score", by_comparison(captioned_transfer)
    ),
    **{name: _of_scores(figure) for name, figure in OF_SCORES.items()},
    "same_vs_different": FigureEntry(
        "cosine to the nearest of an image's class and of another one",
        draw_map("same_vs_different"),
        of_losses=True,
    ),
    "joint_map": FigureEntry(
        "train and test images in one t-SNE", draw_map("joint_map"), of_losses=True
    ),
    "yoked_map": FigureEntry(
        "embedding layer and features below it, yoked t-SNE",
        draw_map("yoked_map"),
        of_losses=True,
    ),
    "yoked_models": FigureEntry(
        "the first two losses of a ranking, yoked t-SNE",
        draw_map("yoked_models", losses=2),
        of_losses=True,
    ),
    "generalization_maps": FigureEntry(
        "all losses, both layers, train and test images: joint and yoked t-SNE, similarities",
        draw_methods(),
        of_losses=True,
    ),
    "umap": FigureEntry("train and test images by UMAP", draw_map("umap"), of_losses=True),
    "gallery": FigureEntry(
        "queries and their nearest images, right and wrong", draw_map("gallery"), of_losses=True
    ),
    "toy_embeddings": FigureEntry(
        "why MAP@R: toys on which other metrics saturate", lambda data: captioned_toys()
    ),
}


def draw(name: str, data: FigureData) -> list[Picture]:
    """Return the pictures of one of FIGURES; a ValueError names the nearest known figure."""
    pictures = pick(FIGURES, name, "figure").draw(data)
    return [each.marked(CLOSED_NOTE) for each in pictures] if data.study.closed else pictures
