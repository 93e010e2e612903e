"""Define the presets of the reality check, the triplet report and the generalisation paper."""

from typing import Any

from search_spaces import LOSSES
from search_spaces.experiments import (
    GENERALIZATION_DATASETS,
    GENERALIZATION_LOSSES,
    GENERALIZATION_OURS,
    GENERALIZATION_TRAINING,
    REALITY_CLASSIFICATION,
    REALITY_DATASETS,
    REALITY_EPOCHS,
    REALITY_FOLDS,
    REALITY_LOSSES,
    REALITY_PATIENCE,
    REALITY_REPRODUCTIONS,
    REALITY_SEARCH_TRIALS,
    REALITY_TRAINING,
    TRIPLET_EXPERIMENTS,
    TRIPLET_EXTENDED,
    TRIPLET_IMAGES,
    TRIPLET_SIZE,
)


def reality_check() -> dict[str, Any]:
    """Repeat A Metric Learning Reality Check: search 14 losses in four folds and train each ten
    times, beside the pretrained network.

    The pretrained row is the baseline `pca`, with 128 dimensions and with 512. The paper does not
    say how its pretrained network comes to either: a PCA of the pooled features, fitted on all
    train classes, centred and not whitened, is our choice.
    """
    return {
        "name": "reality_check",
        "dataset": list(REALITY_DATASETS),
        "backbone": ["bn_inception"],
        "losses": list(REALITY_LOSSES),
        "protocols": [f"k_fold:{REALITY_FOLDS}"],
        "fold_order": "consecutive",
        "strategy": "hyperopt",
        "search_trials": REALITY_SEARCH_TRIALS,
        "searches": 1,  # as the paper: one search, then reproductions with other seeds
        "finalist_splits": 0,
        "reproductions": REALITY_REPRODUCTIONS,
        "baselines": ["pixels", "pca"],
        **REALITY_TRAINING,
        "where": [
            {
                "loss": [name for name in REALITY_LOSSES if _classifies(name)],
                **REALITY_CLASSIFICATION,
            }
        ],
        "epochs": REALITY_EPOCHS,
        "patience": REALITY_PATIENCE,
        "grace": REALITY_EPOCHS,  # as the paper: no trial ends because others are better
        "metrics": ["recall_at_1", "r_precision", "map_at_r"],  # its P@1 is recall_at_1
        "select_metric": "map_at_r",  # our choice: the one of its metrics that it argues for
    }


def _classifies(loss: str) -> bool:
    """Return whether the loss has weights for every class: the paper's second kind."""
    return LOSSES[loss].kind in ("proxy", "classification")


def triplet_report() -> dict[str, Any]:
    """Repeat the triplet report's ten runs on CUB: experiments 1 to 6 with ResNet18, 1 to 4 with
    ResNet34, in a closed set and scored at the last epoch: it has no validation set.

    Margin, norm and crop are our choice: the report prints none of them. That train and test share
    classes, and 512 dimensions, follow from its printed numbers.
    """
    loss = "triplet_p_norm"
    return {
        "name": "triplet_report",
        "dataset": ["cub200"],
        "backbone": ["resnet18", "resnet34"],
        "embedding_size": [TRIPLET_SIZE],
        "losses": [f"{loss}@{number}" for number in TRIPLET_EXPERIMENTS],
        "leave_out": [
            {"backbone": "resnet34", "loss": [f"{loss}@{number}" for number in TRIPLET_EXTENDED]}
        ],
        "where": [
            {
                "loss": f"{loss}@{number}",
                "epochs": values["epochs"],
                "learning_rate": values["learning_rate"],
                "batch_size": 3 * values["triplets"],
                "steps_per_epoch": -(-TRIPLET_IMAGES // values["triplets"]),
            }
            for number, values in TRIPLET_EXPERIMENTS.items()
        ],
        "epochs": TRIPLET_EXPERIMENTS[1]["epochs"],
        "learning_rate": TRIPLET_EXPERIMENTS[1]["learning_rate"],
        "batch_size": 3 * TRIPLET_EXPERIMENTS[1]["triplets"],
        "images_per_class": 2,  # batches are triplets, which do not ask
        "protocols": ["closed_set"],
        "strategy": "fixed",
        "searches": 1,
        "select_metric": "recall_at_1",
        "optimizer": "adam",
        "weights": "imagenet",
        "pooling": "gap",
        "keep_embeddings": "all",  # it draws maps of every run
        "metrics": [
            "recall_at_1",
            "map_at_r",
            "triplet_accuracy",
            "positive_cosine",
            "negative_cosine",
            "precision_at_1",
            "precision_at_5",
            "precision_at_10",
            "loss_value",
        ],
    }


def generalization() -> dict[str, Any]:
    """Repeat Visualising how embeddings generalise: pick triplets in four ways, and score the
    embedding (FC) and the features below (GAP).

    Test recall is that of the final trials; train recall comes from the embeddings of all images,
    which every run keeps. Learning rate, schedule, epochs and images per class are our choice: the
    paper prints none. Training images are resized to 256 by 256, whatever their shape, as in the
    paper; so are test images, of which it says nothing.
    """
    return {
        "name": "generalization",
        "dataset": list(GENERALIZATION_DATASETS),
        "losses": list(GENERALIZATION_LOSSES),
        "protocols": ["default"],
        "strategy": "fixed",
        "searches": 1,
        "select_metric": "recall_at_1",
        **GENERALIZATION_TRAINING,
        **GENERALIZATION_OURS,
        "metrics": ["recall_at_1", "map_at_r", "pooled_recall_at_1", "pooled_map_at_r"],
        "keep_embeddings": "all",
    }
