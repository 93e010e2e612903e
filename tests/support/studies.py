"""Make the values of a small study that trains a whole network from nothing."""

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from study.presets import quickstart

# Whatever quickstart shows to newcomers, tests of all else have four losses on a tiny network.
TINY: dict[str, Any] = {
    "backbone": ["tiny"],
    "weights": "none",
    "pooling": "grid",
    "train": "all",
    "embedding_size": [64],
    "losses": ["contrastive", "triplet", "multi_similarity", "proxy_anchor"],
    "learning_rate": 2e-3,
}


def from_scratch() -> dict[str, Any]:
    """Return quickstart with four losses on a tiny network that starts from random weights."""
    return quickstart() | TINY


def own_data(folder: Path) -> dict[str, list[str]]:
    """Return what each preset needs before it is a study: data of the user's own, 40 classes."""
    rng = np.random.default_rng(0)
    photos, vectors = folder / "photos", folder / "vectors.npz"
    if not vectors.exists():
        for name in range(40):
            (photos / f"{name:02}").mkdir(parents=True)
            for number in range(3):
                noise = rng.integers(256, size=(16, 20, 3), dtype=np.uint8)
                Image.fromarray(noise).save(photos / f"{name:02}" / f"{number}.png")
        labels = np.repeat(np.arange(40), 6)
        np.savez(vectors, features=rng.normal(size=(240, 8)), labels=labels)
    return {"photos": [f"data_root={photos}"], "vectors": [f"data_root={vectors}"]}
