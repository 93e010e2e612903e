"""Lay embeddings out on a plane: t-SNE of all images together, and UMAP."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from analysis.maps.embeddings import Float32Array

FEWEST_IMAGES = 8  # fewer are laid out by their two main directions
PERPLEXITY = 30.0

Plane = NDArray[np.float64]  # (images, 2)


def joint_tsne(units: Float32Array, *, perplexity: float = PERPLEXITY, seed: int = 0) -> Plane:
    """Return one t-SNE of train and test images (Maaten & Hinton 2008), a row per image."""
    if len(units) < FEWEST_IMAGES:
        return main_directions(units)
    from openTSNE import TSNE

    layout = TSNE(
        perplexity=fitting_perplexity(perplexity, len(units)),
        initialization="pca",
        random_state=seed,
        n_jobs=1,  # several threads give another layout each time, and spin on a busy machine
    )
    return np.asarray(layout.fit(np.asarray(units, dtype=np.float64)), dtype=np.float64)


def umap(units: Float32Array, *, neighbours: int = 15, seed: int = 0) -> Plane:
    """Return the same layout by UMAP (McInnes et al. 2018).

    Distances between groups mean a little more than in t-SNE.
    """
    if len(units) < FEWEST_IMAGES:
        return main_directions(units)
    from umap import UMAP

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a seed means one thread
        return np.asarray(
            UMAP(n_neighbors=min(neighbours, len(units) - 1), random_state=seed).fit_transform(
                units
            ),
            dtype=np.float64,
        )


def fitting_perplexity(perplexity: float, points: int) -> float:
    """Return the perplexity, lowered where there are fewer than three times as many neighbours."""
    return min(perplexity, (points - 1) / 3)


def main_directions(points: Float32Array) -> Plane:
    """Return the two main directions, each with a fixed sign: equal points give equal layouts."""
    centred = np.asarray(points, dtype=np.float64)
    centred = centred - centred.mean(axis=0) if len(centred) else centred
    plane = np.zeros((len(centred), 2))
    if len(centred) < 2:
        return plane
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    main = (left * scale)[:, :2]
    signs = np.sign(main[np.abs(main).argmax(axis=0), np.arange(main.shape[1])])
    plane[:, : main.shape[1]] = main * np.where(signs == 0, 1, signs)
    return plane
