"""Draw the papers' figures from the papers' own numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd

from analysis.figures.from_scores import OF_SCORES
from analysis.figures.style import Picture
from analysis.figures.toys import captioned_toys
from analysis.published.files import reality_scores, thesis_scores
from analysis.published.thesis import TOURNAMENT_TABLES
from search_spaces import pick


def _of_scores(name: str, scores: Callable[[], pd.DataFrame]) -> list[Picture]:
    return OF_SCORES[name].draw(scores())


PAPER_FIGURES: dict[str, dict[str, Callable[[], list[Picture]]]] = {
    "thesis": {
        **{name: partial(_of_scores, name, thesis_scores) for name in OF_SCORES},
        # The thesis's own loss shares too few cells with the others, so it is left out here.
        "critical_difference": partial(
            _of_scores, "critical_difference", partial(thesis_scores, TOURNAMENT_TABLES)
        ),
    },
    "reality_check": {
        **{
            name: partial(_of_scores, name, reality_scores)
            for name in OF_SCORES
            if name not in ("recall_by_size", "recall_by_backbone")
        },
        "toy_embeddings": captioned_toys,
    },
}


def published_figure(paper: str, name: str) -> list[Picture]:
    """Return a figure of a paper; a ValueError names the nearest known paper or figure."""
    return pick(pick(PAPER_FIGURES, paper, "paper with figures"), name, f"figure of {paper}")()
