"""List what the sources' experiments consist of: losses, networks, sizes, schedules and budgets."""

from collections.abc import Iterable, Mapping
from typing import Any

from search_spaces.own import find_card
from search_spaces.space import Value

Values = Mapping[str, Any]

# The thesis, section 3.2: oldest first, as in tables 6 to 10.
THESIS_DATASETS = ("cub200", "cars196", "sop")
THESIS_BACKBONES = ("resnet50", "bn_inception", "googlenet")
THESIS_SIZES = (64, 128, 512, 1024)
THESIS_LOSSES = (
    "contrastive", "triplet", "lifted_structure", "n_pair", "proxy_nca",
    "margin", "arcface", "multi_similarity", "soft_triple", "proxy_anchor",
)  # fmt: skip
THESIS_OWN = "thesis_loss_2"  # section 6: tables 17 to 19 are of the second variation
# Section 5 trains only on CUB with BNInception and 512 dimensions, with the three losses that won
# its tournament (table 11).
THESIS_TOP = ("multi_similarity", "soft_triple", "proxy_anchor")
THESIS_RATIOS = (0.3, 0.2, 0.1, 0.05)  # table 14: shares of the train classes held out
THESIS_RATIO_LOSS = "multi_similarity"  # table 14
THESIS_RATIO = 0.1  # of tables 15 and 16
THESIS_FOLDS = 10  # section 5.1, drawn at random

# Section 3.4. Weight decay, frozen batch norm, warm-up, pooling and clipping come from its code;
# the text prints none of them.
THESIS_TRAINING: Values = {
    "epochs": 100,
    "optimizer": "adamw",
    "weight_decay": 1e-4,
    "images_per_class": 5,  # section 3.4, for multi_similarity
    "weights": "imagenet",
    "pooling": "gap+gmp",
    "freeze_bn": True,
    "warm_up": 1,
    "clip_value": 10.0,
}
# Section 3.4: sampling is random where a method has none of its own, as multi_similarity and n_pair
# have. Their cards have balanced batches for these losses (our choice, the preset thesis_balanced).
THESIS_RANDOM = ("contrastive", "triplet", "margin")
THESIS_MINED = "lifted_structure"  # table 5: hard; its paper adds each pair's hardest neighbours
# The code trains these proxies at 100 times the network's rate: 0.01, and 0.06 on SOP.
THESIS_TIED, THESIS_TIE = ("proxy_anchor", THESIS_OWN), 100.0
# Table 3, and the batch sizes of section 3.4.
_SCHEDULE_KEYS = ("learning_rate", "lr_step", "lr_gamma", "batch_size")
_SCHEDULES = {
    ("cub200",  "resnet50"):     (1e-4, 5,  0.1,  100),
    ("cub200",  "bn_inception"): (1e-4, 10, 0.1,  180),
    ("cub200",  "googlenet"):    (1e-4, 10, 0.1,  180),
    ("cars196", "resnet50"):     (1e-4, 10, 0.1,  100),
    ("cars196", "bn_inception"): (1e-4, 20, 0.1,  180),
    ("cars196", "googlenet"):    (1e-4, 20, 0.1,  180),
    ("sop",     "resnet50"):     (6e-4, 10, 0.25, 100),
    ("sop",     "bn_inception"): (6e-4, 20, 0.25, 180),
    ("sop",     "googlenet"):    (6e-4, 20, 0.25, 180),
}  # fmt: skip
THESIS_SCHEDULES: Mapping[tuple[str, str], Values] = {
    cell: dict(zip(_SCHEDULE_KEYS, row, strict=True)) for cell, row in _SCHEDULES.items()
}
# Its future work. A memory of CUB's size, f of the labels and the losses are our choice: it says
# "some kind of memory and/or offline mining" and "a semi-supervised setup".
THESIS_MEMORY = 4096
THESIS_VARIANTS: Mapping[str, Values] = {
    "proxy_anchor": {},
    "thesis_loss_1": {},
    THESIS_OWN: {},
    f"{THESIS_OWN}@memory": {"memory": THESIS_MEMORY},
    f"{THESIS_OWN}@mined": {"batches": "mined"},
    f"{THESIS_OWN}@both": {"memory": THESIS_MEMORY, "batches": "mined"},
    "thesis_loss_3": {},
    "thesis_loss_3@memory": {"memory": THESIS_MEMORY},
}
THESIS_LABELS = (0.1, 0.25, 0.5, 1.0)
THESIS_LABEL_LOSSES = ("contrastive", "multi_similarity", "proxy_anchor", THESIS_OWN)
# Our choice: the thesis says only that search trials do not run to full convergence, and that its
# best loss needs less than 20 epochs.
THESIS_SEARCH_EPOCHS = 20


def thesis_settings(losses: Iterable[str]) -> dict[str, dict[str, Value]]:
    """Return table 4's values that differ from the papers', by loss, in our sense of each value.

    SoftTriple's gamma does not differ: the thesis prints its inverse.
    """
    found: dict[str, dict[str, Value]] = {}
    for loss in losses:
        for key, param in find_card(loss).params.items():
            if param.thesis is not None and param.ours(param.thesis) != param.paper:
                found.setdefault(loss, {})[key] = param.ours(param.thesis)
    return found


# The reality check, "Fair comparisons and reproducibility" and "Hyperparameter search via cross
# validation"; losses in the order of its tables.
REALITY_DATASETS = ("cub200", "cars196", "sop")
REALITY_LOSSES = (
    "contrastive_euclidean", "triplet_euclidean", "nt_xent", "proxy_nca_pml", "margin",
    "margin_per_class", "normalized_softmax", "cosface", "arcface", "fast_ap", "snr_contrastive",
    "multi_similarity_no_miner", "multi_similarity", "soft_triple",
)  # fmt: skip
REALITY_FOLDS, REALITY_SEARCH_TRIALS, REALITY_REPRODUCTIONS = 4, 50, 10  # folds consecutive
REALITY_TRAINING: Values = {
    "embedding_size": [128],
    "batch_size": 32,
    "images_per_class": 4,  # C = 8, M = 4
    "optimizer": "rmsprop",
    "learning_rate": 1e-6,
    "momentum": 0.9,  # from its released configuration, for trunk and embedding layer
    "weight_decay": 1e-4,  # from its code
    "weights": "imagenet",
    "pooling": "gap",
    "freeze_bn": True,
    "image_size": 227,
    "cache_size": 256,
    "center_crop": 227 / 256,
    "crop": "resized",
    "crop_scale": [0.16, 1.0],  # share of the area, from its code; its text: sides of 40 to 256
    "crop_ratio": [3 / 4, 4 / 3],
    "flip": True,
    "steps_per_epoch": 100,  # from its code
}
REALITY_CLASSIFICATION: Values = {"batches": "balanced", "images_per_class": 1}  # C = 32, M = 1
# From its code, which ends a run once 10 epochs in a row bring no better score. It scores every
# second epoch and each fold on its own; we score every epoch and the mean of the folds.
REALITY_EPOCHS, REALITY_PATIENCE = 1000, 10

# The triplet report, section II. A batch consists of triplets, three images each; every train image
# of CUB's closed-set lists is an anchor once per epoch. The report does not name these lists, but
# its accuracies are multiples of 1/5,794, their number of test images.
TRIPLET_IMAGES = 5_994
TRIPLET_EXPERIMENTS: Mapping[int, Values] = {
    1: {"epochs": 20, "learning_rate": 0.001, "triplets": 32},
    2: {"epochs": 20, "learning_rate": 0.002, "triplets": 32},
    3: {"epochs": 20, "learning_rate": 0.001, "triplets": 64},
    4: {"epochs": 20, "learning_rate": 0.002, "triplets": 64},
    5: {"epochs": 60, "learning_rate": 0.001, "triplets": 32},
    6: {"epochs": 60, "learning_rate": 0.001, "triplets": 64},
}
TRIPLET_EXTENDED = (5, 6)  # with ResNet18 only
TRIPLET_SIZE = 512  # its 11.4 and 21.5 million parameters are those of such a head

# The triplet tutorial: its losses, distance swap, raw vectors, and its three kinds of mining. Its
# contrastive loss is the hinge on single distances.
TUTORIAL_LOSSES: Mapping[str, Mapping[str, Value]] = {
    "triplet_p_norm": {},
    "triplet_p_norm@swap": {"swap": True},
    "triplet_p_norm@raw": {},
    "triplet_p_norm@easy": {"mining": "easy"},
    "triplet_p_norm@semi_hard": {"mining": "semi_hard"},
    "triplet_p_norm@hard": {"mining": "hard"},
    "triplet_distance": {},
    "hinge_embedding": {},
    "nt_xent": {},
}
TUTORIAL_RAW = "triplet_p_norm@raw"
TUTORIAL_BATCH = 60  # our choice: 20 triplets, or 12 classes of 5 images

# The generalisation paper, sections 2.1 and 2.2.
GENERALIZATION_DATASETS = ("cars196", "cub200")
GENERALIZATION_LOSSES = (
    "batch_all_nca",
    "n_pair_nca",
    "semi_hard_negative_nca",
    "easy_positive_semi_hard_negative",
)
GENERALIZATION_TRAINING: Values = {
    "backbone": ["resnet18"],
    "embedding_size": [64],
    "batch_size": 128,
    "optimizer": "sgd",
    "weights": "imagenet",
    "pooling": "gap",
    "image_size": 256,
    "cache_size": 256,
    "resize": "squash",  # 256 by 256, whatever an image's shape
    "center_crop": 1.0,
    "crop": "shifted",  # random crops of the image padded by 10 pixels
    "max_shift": 10,
    "flip": True,
}
# Our choice: the paper prints no learning rate, schedule, epochs, momentum or images per class.
GENERALIZATION_OURS: Values = {
    "epochs": 40,
    "learning_rate": 0.01,
    "lr_step": 20,
    "lr_gamma": 0.1,
    "momentum": 0.0,  # as in the released code of easy positives
    "weight_decay": 0.0,
    "images_per_class": 4,
}
