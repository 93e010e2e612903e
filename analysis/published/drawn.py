"""The papers' figures, drawn from their own numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pandas as pd

from analysis.figures import toy_embeddings
from analysis.figures.catalogue import OF_SCORES, TOYS, Picture, from_scores
from analysis.published.files import reality_scores, thesis_scores
from analysis.published.thesis import TOURNAMENT
from search_spaces import pick


def _drawn(name: str, scores: Callable[[], pd.DataFrame]) -> list[Picture]:
    return from_scores(OF_SCORES[name], scores())


PAPER_FIGURES: dict[str, dict[str, Callable[[], list[Picture]]]] = {
    "thesis": {
        **{name: partial(_drawn, name, thesis_scores) for name in OF_SCORES},
        "critical_difference": partial(_drawn, "critical_difference", partial(thesis_scores, TOURNAMENT)),  # its own loss met few others
    },
    "reality_check": {
        **{name: partial(_drawn, name, reality_scores) for name in OF_SCORES if name not in ("recall_by_size", "recall_by_backbone")},
        "toy_embeddings": lambda: [Picture(toy_embeddings(), TOYS)],
    },
}


def published_figure(paper: str, name: str) -> list[Picture]:
    """A ValueError with the near name if there is no such paper, or it has no such figure."""
    return pick(pick(PAPER_FIGURES, paper, "paper with figures"), name, f"figure of {paper}")()
