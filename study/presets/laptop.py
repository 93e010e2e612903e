"""Define the presets for a laptop: quickstart, and studies of people's own photos and vectors."""

from typing import Any

from search_spaces.experiments import (
    THESIS_LOSSES,
    TUTORIAL_BATCH,
    TUTORIAL_LOSSES,
    TUTORIAL_RAW,
)
from search_spaces.training import (
    AUTO,
    EMBEDDING_SIZE,
    IMAGES_PER_CLASS,
    PHOTOS,
    PHOTOS_BATCH,
    PHOTOS_SIZE,
    SKETCHES_BATCH,
    SKETCHES_LEARNING_RATE,
    WEIGHT_DECAY,
)


def quickstart() -> dict[str, Any]:
    """Compare the default setup with the validation setup for the ten losses of the thesis, on
    drawings that ship with Fair Trial; minutes on a laptop.

    Only the head is trained, on a trunk that was pretrained on other classes: a laptop then has
    time for three whole searches of ten losses, where it has time for four losses otherwise.
    """
    return {
        "name": "quickstart",
        "dataset": ["sketches"],
        "backbone": ["small"],
        "weights": "pretrained",
        "pooling": "gap",
        "train": "head",
        "embedding_size": [EMBEDDING_SIZE],
        "losses": list(THESIS_LOSSES),
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
        "center_crop": 1.0,
        "crop": "shifted",
        "max_shift": 1,
        "flip": False,
    }


def triplet_tutorial() -> dict[str, Any]:
    """Compare what the triplet tutorial explains, on drawings: distance swap, raw and normalised
    vectors, easy, semi-hard and hard mining, a distance of one's own, a hinge on pairs and NT-Xent.

    The tutorial trains nothing; data, network and schedule are those of the quickstart. Every tag
    of triplet_p_norm is one choice. Your own distance, a function of two (n, size) tensors:
    --set settings.triplet_distance.distance=module:NAME.
    """
    return {
        **quickstart(),
        "name": "triplet_tutorial",
        "losses": list(TUTORIAL_LOSSES),
        "settings": {name: dict(each) for name, each in TUTORIAL_LOSSES.items() if each},
        "where": [{"loss": TUTORIAL_RAW, "normalize": False}],
        "strategy": "fixed",
        "batch_size": TUTORIAL_BATCH,
        "metrics": ["recall_at_1", "map_at_r", "triplet_accuracy", "loss_value"],
    }


def photos() -> dict[str, Any]:
    """Compare five losses on your own photographs, on a pretrained trunk: its head alone without a
    GPU, all of it with one; folds where a split would hold out too few classes.
    """
    return {
        "name": "photos",
        "dataset": ["image_folder"],
        "backbone": ["resnet50"],
        "weights": "pretrained",
        "pooling": "gap",
        "train": AUTO,
        **dict.fromkeys(PHOTOS["head"], AUTO),
        "crop_scale": [0.25, 1.0],
        **_five_losses(),
    }


def vectors() -> dict[str, Any]:
    """Compare five losses on vectors that you have, by training an embedding layer on them."""
    return {
        "name": "vectors",
        "dataset": ["features"],
        "backbone": ["none"],
        "weights": "none",
        "train": "head",
        **PHOTOS["head"],
        "views": 0,
        **_five_losses(),
    }


def _five_losses() -> dict[str, Any]:
    return {
        "embedding_size": [PHOTOS_SIZE],
        "losses": ["contrastive", "triplet", "multi_similarity", "proxy_anchor", "arcface"],
        "protocols": ["default", AUTO],
        "strategy": "hyperopt",
        "searches": 3,
        "search_trials": 8,
        "batch_size": PHOTOS_BATCH,
        "images_per_class": IMAGES_PER_CLASS,
        "weight_decay": WEIGHT_DECAY,
    }
