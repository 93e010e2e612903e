"""Three toy embeddings on which NMI, F1 and Recall@1 are near their best, while R-Precision and MAP@R tell them apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.figures.style import INK, SERIES, Drawing, sheet
from analysis.tables.number import metric_label

METRICS = ("nmi", "f1", "recall_at_1", "r_precision", "map_at_r")
PER_CLASS, CLASSES = 160, 3
GAPS = (0.06, 0.1, 1.0)  # between squares of side one: nearly touching, a little apart, far apart
PATCH = 0.02  # the toys lie on so small a patch of the sphere that cosines order them as distances do

Points = NDArray[np.float64]


def toys(seed: int = 0) -> list[tuple[Points, NDArray[np.int64]]]:
    """Places on the plane, and classes: the same squares of points, moved apart from toy to toy."""
    rng = np.random.default_rng(seed)
    inside = rng.random((CLASSES * PER_CLASS, 2))
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    return [(inside + np.stack([labels * (1 + gap), np.zeros(len(labels))], axis=1), labels) for gap in GAPS]


def toy_scores(points: Points, labels: NDArray[np.int64]) -> dict[str, float]:
    """By the metrics that trials are scored with."""
    import torch

    from trainables.metrics.retrieval import retrieval

    centred = PATCH * (points - points.mean(axis=0))
    lifted = np.column_stack([centred, np.sqrt(1 - (centred**2).sum(axis=1))])
    return retrieval(torch.from_numpy(lifted), torch.from_numpy(labels), METRICS).means


def toy_embeddings() -> Drawing:
    """The argument of A Metric Learning Reality Check (Musgrave et al. 2020) for MAP@R."""
    found = toys()
    with sheet(1.75) as figure:
        for axis, (points, labels) in zip(figure.subplots(1, len(found)), found, strict=True):
            for label in range(CLASSES):
                colour, marker, _ = SERIES[label]
                axis.plot(*points[labels == label].T, linestyle="", marker=marker, color=colour, markersize=2.6, alpha=0.8, rasterized=True)
            scores = toy_scores(points, labels)
            lines = [f"{metric_label(name) if name not in ('nmi', 'f1') else name.upper()}  {100 * scores[name]:.1f}" for name in METRICS]
            axis.set_title(f"{',  '.join(lines[:3])}\n{',  '.join(lines[3:])}", fontsize=8, color=INK)
            middle = points[:, 0].mean()
            axis.set(aspect="equal", xticks=[], yticks=[], xlim=(middle - 2.7, middle + 2.7), ylim=(-0.2, 1.2))
            axis.spines[:].set_visible(False)
            axis.grid(visible=False)
        return Drawing("toy-embeddings", "Three toy embeddings with their scores", figure)
