"""Define quickstart, the preset that runs on a laptop."""

from typing import Any

from search_spaces.training import (
    EMBEDDING_SIZE,
    IMAGES_PER_CLASS,
    SKETCHES_BATCH,
    SKETCHES_LEARNING_RATE,
    WEIGHT_DECAY,
)


def quickstart() -> dict[str, Any]:
    """Compare the default setup with the validation setup for four losses, on drawings that ship
    with Fair Trial; minutes on a laptop.
    """
    return {
        "name": "quickstart",
        "dataset": ["sketches"],
        "backbone": ["tiny"],
        "embedding_size": [EMBEDDING_SIZE],
        "losses": ["contrastive", "triplet", "multi_similarity", "proxy_anchor"],
        "protocols": ["default", "fixed_validation"],
        "val_fraction": 0.1,
        "strategy": "hyperopt",
        "searches": 3,
        "search_trials": 8,
        "reduction": 2,
        "epochs": 8,
        "batch_size": SKETCHES_BATCH,
        "images_per_class": IMAGES_PER_CLASS,
        "steps_per_epoch": 40,
        "learning_rate": SKETCHES_LEARNING_RATE,
        "weight_decay": WEIGHT_DECAY,
        "lr_step": 6,
        "lr_gamma": 0.2,
        "weights": "none",
        "pooling": "grid",
        "center_crop": 1.0,
        "crop": "shifted",
        "max_shift": 1,
        "flip": False,
    }
