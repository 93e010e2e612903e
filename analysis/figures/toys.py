"""Draw three toy embeddings that only R-Precision and MAP@R tell apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.figures.style import INK, SERIES, Drawing, Picture, styled_figure
from analysis.ranking.measurement import metric_label

TOY_METRICS = ("nmi", "f1", "recall_at_1", "r_precision", "map_at_r")
PER_CLASS, CLASSES = 160, 3
GAPS = (0.06, 0.1, 1.0)  # between squares of side one: nearly touching, a little apart, far apart
# The toys lie on so small a patch of the sphere that cosines order them as distances do.
PATCH = 0.02

Points = NDArray[np.float64]


def toys(seed: int = 0) -> list[tuple[Points, NDArray[np.int64]]]:
    """Return points and classes: the same squares of points, moved apart from toy to toy."""
    rng = np.random.default_rng(seed)
    inside = rng.random((CLASSES * PER_CLASS, 2))
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    return [
        (inside + np.stack([labels * (1 + gap), np.zeros(len(labels))], axis=1), labels)
        for gap in GAPS
    ]


def toy_scores(points: Points, labels: NDArray[np.int64]) -> dict[str, float]:
    """Return the scores of a toy, by the metrics that trials are scored with."""
    import torch

    from trainables.metrics.retrieval import score_retrieval

    centred = PATCH * (points - points.mean(axis=0))
    lifted = np.column_stack([centred, np.sqrt(1 - (centred**2).sum(axis=1))])
    return score_retrieval(torch.from_numpy(lifted), torch.from_numpy(labels), TOY_METRICS).means


def toy_embeddings() -> Drawing:
    """Draw the argument of A Metric Learning Reality Check (Musgrave et al. 2020) for MAP@R."""
    embeddings = toys()
    with styled_figure(1.75) as figure:
        for axis, (points, labels) in zip(
            figure.subplots(1, len(embeddings)), embeddings, strict=True
        ):
            for label in range(CLASSES):
                colour, marker, _ = SERIES[label]
                axis.plot(
                    *points[labels == label].T,
                    linestyle="",
                    marker=marker,
                    color=colour,
                    markersize=2.6,
                    alpha=0.8,
                    rasterized=True,
                )
            scores = toy_scores(points, labels)
            lines = [
                f"{metric_label(name) if name not in ('nmi', 'f1') else name.upper()}  "
                f"{100 * scores[name]:.1f}"
                for name in TOY_METRICS
            ]
            axis.set_title(
                f"{',  '.join(lines[:3])}\n{',  '.join(lines[3:])}", fontsize=8, color=INK
            )
            middle = points[:, 0].mean()
            axis.set(
                aspect="equal",
                xticks=[],
                yticks=[],
                xlim=(middle - 2.7, middle + 2.7),
                ylim=(-0.2, 1.2),
            )
            axis.spines[:].set_visible(False)
            axis.grid(visible=False)
        return Drawing("toy-embeddings", "Three toy embeddings with their scores", figure)


def captioned_toys() -> list[Picture]:
    """Return the toys with their caption, as every figure of the catalogue is returned."""
    caption = (
        "R-Precision and MAP@R tell these three toy embeddings apart; NMI, F1 and Recall@1 are "
        "near their best on all of them."
    )
    return [Picture(toy_embeddings(), caption)]
