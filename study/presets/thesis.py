"""Define the presets of the thesis: its tables, and the experiments that it left to others."""

from collections.abc import Sequence
from itertools import product
from typing import Any

from search_spaces import LOSSES
from search_spaces.experiments import (
    REALITY_SEARCH_TRIALS,
    THESIS_BACKBONES,
    THESIS_DATASETS,
    THESIS_FOLDS,
    THESIS_LABEL_LOSSES,
    THESIS_LABELS,
    THESIS_LOSSES,
    THESIS_MINED,
    THESIS_OWN,
    THESIS_RANDOM,
    THESIS_RATIO,
    THESIS_RATIO_LOSS,
    THESIS_RATIOS,
    THESIS_SCHEDULES,
    THESIS_SEARCH_EPOCHS,
    THESIS_SIZES,
    THESIS_TIE,
    THESIS_TIED,
    THESIS_TOP,
    THESIS_TRAINING,
    THESIS_VARIANTS,
    thesis_settings,
)
from study.presets.label_fractions import repeat_losses


def thesis_default() -> dict[str, Any]:
    """Repeat tables 6 to 10, 20 and 21: ten losses, three networks, four sizes and three datasets
    under the default setup, one run each.

    Batches are random where the thesis draws them at random, although a random batch of SOP holds
    one or two equal pairs (of CUB some 160): thesis_balanced has balanced ones. lifted_structure
    has mined batches (its table 5 says hard). Proxies of proxy_anchor learn at 100 times the
    network's rate, 0.06 on SOP, as in its code.
    """
    shared = _thesis("thesis_default", THESIS_DATASETS, THESIS_BACKBONES, THESIS_LOSSES)
    return {
        **shared,
        "where": [*shared["where"], *_as_printed(THESIS_LOSSES)],
        "embedding_size": list(THESIS_SIZES),
        "protocols": ["default"],
        "keep_embeddings": "none",  # our choice: they would take ten times the disk of all weights
    }


def thesis_balanced() -> dict[str, Any]:
    """Repeat thesis_default with balanced batches for contrastive, triplet, margin and
    lifted_structure, and the rates of their cards: our choice where random batches hold few equal
    pairs.
    """
    shared = _thesis("thesis_balanced", THESIS_DATASETS, THESIS_BACKBONES, THESIS_LOSSES)
    return {**thesis_default(), "name": shared["name"], "where": shared["where"]}


def thesis_split_ratio() -> dict[str, Any]:
    """Repeat table 14: hold out 30, 20, 10 or 5 in 100 of the train classes. The study compares
    these ratios; it never chooses one by the test classes.
    """
    return {
        **_section_5("thesis_split_ratio", [THESIS_RATIO_LOSS]),
        "protocols": [f"fixed_validation:{ratio:g}" for ratio in THESIS_RATIOS],
    }


def thesis_cross_validation() -> dict[str, Any]:
    """Repeat tables 12 and 13: ten folds, the three best losses, published settings."""
    return {
        **_section_5("thesis_cross_validation", THESIS_TOP),
        "protocols": [f"k_fold:{THESIS_FOLDS}"],
        "fold_order": "shuffled",
    }


def thesis_fixed_validation() -> dict[str, Any]:
    """Repeat tables 15 and 16: sweep the three best losses one parameter after the other on
    held-out classes, beside the default setup.

    The sweep covers what table 15 lists, in its order, and nothing else. Its gamma of soft_triple,
    10 to 100 by 10, multiplies similarities; ours divides them, as in the paper: the sweep goes
    over 1/10, 1/20, ..., 1/100, which are the same losses.
    """
    return {
        **_section_5("thesis_fixed_validation", THESIS_TOP),
        "protocols": ["default", "fixed_validation"],
        "val_fraction": THESIS_RATIO,
        "strategy": "coordinate",
        "grids": "published",
        "search_epochs": THESIS_SEARCH_EPOCHS,
        "grace": THESIS_SEARCH_EPOCHS,  # nothing is stopped early
    }


def fixed_validation_all() -> dict[str, Any]:
    """Run the thesis's future work: search every loss on held-out classes of every dataset, beside
    the default setup.

    Trials, epochs and seeds are our choice; each loss starts at its paper's values.
    """
    return {
        **_thesis("fixed_validation_all", THESIS_DATASETS, ["bn_inception"], list(LOSSES)),
        "embedding_size": [512],
        "settings": {},
        "protocols": ["default", "fixed_validation"],
        "val_fraction": THESIS_RATIO,
        "strategy": "hyperopt",
        "searches": 5,
        "finalist_splits": 2,
        "search_trials": REALITY_SEARCH_TRIALS,  # as many as the reality check has
        "search_epochs": THESIS_SEARCH_EPOCHS,
        "reduction": 2,
        "select_metric": "map_at_r",
    }


def thesis_next_loss() -> dict[str, Any]:
    """Run the thesis's future work on its own loss: with a memory of earlier batches, with batches
    mined offline, with both, and redesigned by us with relations between images (thesis_loss_3).

    Published settings on held-out classes, beside the default setup, in five replicates: our
    choice.
    """
    return {
        **_section_5("thesis_next_loss", list(THESIS_VARIANTS)),
        "where": [{"loss": loss, **own} for loss, own in THESIS_VARIANTS.items() if own],
        "protocols": ["default", "fixed_validation"],
        "val_fraction": THESIS_RATIO,
        "searches": 5,
        "select_metric": "map_at_r",
    }


def thesis_few_labels() -> dict[str, Any]:
    """Run the thesis's future work on semi-supervised learning: four losses that see a tenth, a
    quarter, half or all of the train images' labels, on held-out classes.

    thesis_loss_2 also sees the images without a label; the other losses do without them.
    """
    values = {
        **_section_5("thesis_few_labels", THESIS_LABEL_LOSSES),
        "label_fraction": list(THESIS_LABELS),
        "protocols": ["fixed_validation"],
        "val_fraction": THESIS_RATIO,
        "searches": 5,
        "select_metric": "map_at_r",
    }
    return values | repeat_losses(values)


def thesis_own_loss() -> dict[str, Any]:
    """Repeat tables 17 to 19: the thesis's own loss against the ten others on three datasets, with
    batches and rates as in thesis_default.
    """
    losses = [*THESIS_LOSSES, THESIS_OWN]
    shared = _thesis("thesis_own_loss", THESIS_DATASETS, ["bn_inception"], losses)
    return {
        **shared,
        "where": [*shared["where"], *_as_printed(losses)],
        "embedding_size": [512],
        "protocols": ["default"],
    }


def _as_printed(losses: Sequence[str]) -> list[dict[str, Any]]:
    """Return entries of `where` for batches as the thesis's text has them, and rates as its code.

    Section 5 needs none of them: its losses have such batches, and CUB these rates, anyway.
    """
    tied = [loss for loss in THESIS_TIED if loss in losses]
    return [
        {"loss": list(THESIS_RANDOM), "batches": "random"},
        {"loss": THESIS_MINED, "batches": "mined"},
        {"loss": tied, "weights_rate": THESIS_TIE},
    ]


def _section_5(name: str, losses: Sequence[str]) -> dict[str, Any]:
    """Return the values of section 5: CUB with BNInception and 512 dimensions."""
    return {**_thesis(name, ["cub200"], ["bn_inception"], losses), "embedding_size": [512]}


def _thesis(
    name: str, datasets: Sequence[str], backbones: Sequence[str], losses: Sequence[str]
) -> dict[str, Any]:
    """Return the values that all experiments of the thesis share, with the schedules of table 3.

    Each experiment runs once, as in the thesis.
    """
    pairs = list(product(datasets, backbones))
    return {
        "name": name,
        "dataset": list(datasets),
        "backbone": list(backbones),
        "losses": list(losses),
        "settings": thesis_settings(losses),
        **THESIS_TRAINING,
        **THESIS_SCHEDULES[pairs[0]],
        "where": [
            {"dataset": pair[0], "backbone": pair[1], **THESIS_SCHEDULES[pair]}
            for pair in pairs[1:]
        ],
        "strategy": "fixed",
        "searches": 1,
        "finalist_splits": 0,
        "metrics": ["recalls", "map_at_r"],
        "select_metric": "recall_at_1",
        # Our choice: the text has "256 resize, 227 or 224 crop" and calls for what papers really
        # do, a random resized crop and flips.
        "cache_size": 256,
        "crop": "resized",
        "flip": True,
    }
