"""Many dimensions on a plane: t-SNE of all images together, and UMAP."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray

from analysis.maps.kept import Floats

FEWEST = 8  # images; fewer are laid out by their two main directions
PERPLEXITY = 30.0

Plane = NDArray[np.float64]


def joint_tsne(units: Floats, *, perplexity: float = PERPLEXITY, seed: int = 0) -> Plane:
    """Train and test images in one t-SNE (Maaten & Hinton 2008), so that their places can be compared. One row per image."""
    if len(units) < FEWEST:
        return main_directions(units)
    from openTSNE import TSNE

    layout = TSNE(perplexity=fitting(perplexity, len(units)), initialization="pca", random_state=seed, n_jobs=-1)
    return np.asarray(layout.fit(np.asarray(units, dtype=np.float64)), dtype=np.float64)


def umap(units: Floats, *, neighbours: int = 15, seed: int = 0) -> Plane:
    """The same by UMAP (McInnes et al. 2018): distances between groups mean a little more than in t-SNE."""
    if len(units) < FEWEST:
        return main_directions(units)
    from umap import UMAP

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it tells that a seed means one thread
        return np.asarray(UMAP(n_neighbors=min(neighbours, len(units) - 1), random_state=seed).fit_transform(units), dtype=np.float64)


def fitting(perplexity: float, points: int) -> float:
    """A perplexity needs three times as many neighbours."""
    return min(perplexity, (points - 1) / 3)


def main_directions(points: Floats) -> Plane:
    """The two main directions, each with its sign fixed, so that the same points always lie the same way."""
    centred = np.asarray(points, dtype=np.float64)
    centred = centred - centred.mean(axis=0) if len(centred) else centred
    plane = np.zeros((len(centred), 2))
    if len(centred) < 2:
        return plane
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    found = (left * scale)[:, :2]
    signs = np.sign(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])])
    plane[:, : found.shape[1]] = found * np.where(signs == 0, 1, signs)
    return plane
