"""Check that one cell of a study can be trained: its trunk, numbers, batches and crops."""

from search_spaces import LOSSES, LossSpace, find_card, pick
from study.config.cells import image_transform, is_searched
from study.config.keys.keys import Keys
from trainables.contract import NO_TRUNK, OWN_FEATURES, Cell
from trainables.datasets.catalogue import DATASETS
from trainables.metrics.retrieval import LOSS_VALUE
from trainables.networks.backbones import POOLINGS, find_backbone
from trainables.networks.weights import NONE, PRETRAINED
from trainables.training.optimiser import OPTIMISERS


def check_cell(keys: Keys, cell: Cell) -> None:
    """Raise ValueError if this cell cannot be trained. keys: as the cell has them."""
    _check_trunk(keys, cell)
    _check_cell_training(keys)
    _check_batch(keys, cell.loss, find_card(cell.loss))
    _check_weights_rate(keys, cell)
    if cell.backbone != NO_TRUNK:
        _check_transform(keys, cell.dataset, cell.backbone)


def _check_trunk(keys: Keys, cell: Cell) -> None:
    """Check what a frozen trunk needs, and that vectors in place of images have no trunk."""
    if cell.dataset == OWN_FEATURES and (cell.backbone != NO_TRUNK or keys.train != "head"):
        raise ValueError(
            f"dataset={OWN_FEATURES} brings vectors, but backbone={cell.backbone} with "
            f"train={keys.train} takes images; set backbone={NO_TRUNK}, weights={NONE} and "
            f"train=head."
        )
    if cell.backbone == NO_TRUNK and cell.dataset != OWN_FEATURES:
        raise ValueError(
            f"backbone={NO_TRUNK} is for dataset={OWN_FEATURES}, but {cell.dataset} has images; "
            f"choose one of `fairtrial list backbones`."
        )
    if keys.train == "head":
        _check_frozen(keys, cell)
    elif keys.views:
        raise ValueError(
            f"With train=all every epoch has its own crops, but views={keys.views}; leave it out."
        )
    elif keys.chunk and not keys.freeze_bn and find_backbone(cell.backbone).batch_norm:
        raise ValueError(
            f"chunk={keys.chunk} would change what batch norm in {cell.backbone} sees; set "
            f"freeze_bn=true, or leave chunk out."
        )


def _check_frozen(keys: Keys, cell: Cell) -> None:
    if cell.backbone != NO_TRUNK and keys.weights == NONE:
        raise ValueError(
            f"train=head keeps the backbone's weights, but weights={NONE} are random; use "
            f"weights={PRETRAINED} or a file, or train=all."
        )
    for key in ("warm_up", "head_learning_rate"):
        if value := getattr(keys, key):
            raise ValueError(
                f"{key}={value} is for a backbone that learns, but train=head; leave it out, and "
                f"set the head's rate as learning_rate."
            )
    for key in ("compile", "chunk"):
        if value := getattr(keys, key):
            raise ValueError(
                f"{key}={str(value).lower()} is for a backbone that learns, but train=head; leave "
                f"it out."
            )
    if keys.views and cell.dataset == OWN_FEATURES:
        raise ValueError(
            f"dataset={OWN_FEATURES} has no images to crop, but views={keys.views}; leave it out."
        )


def _check_weights_rate(keys: Keys, cell: Cell) -> None:
    searched = is_searched(keys, cell) and "weights_lr" in find_card(cell.loss).params
    if keys.weights_rate is not None and searched:
        raise ValueError(
            f"weights_rate={keys.weights_rate:g} sets the rate of {cell.loss}'s own weights, but "
            f"the search varies it as weights_lr; leave weights_rate out, or set strategy=fixed."
        )


def _check_cell_training(keys: Keys) -> None:
    pick(POOLINGS, keys.pooling, "pooling")
    pick(OPTIMISERS, keys.optimizer, "optimizer")
    if keys.batch_size % keys.images_per_class:
        classes = max(2, round(keys.batch_size / keys.images_per_class))
        near = classes * keys.images_per_class
        raise ValueError(
            f"batch_size={keys.batch_size} must be a multiple of "
            f"images_per_class={keys.images_per_class}; use {near}."
        )
    if keys.warm_up >= keys.epochs:
        raise ValueError(
            f"warm_up={keys.warm_up} must be below epochs={keys.epochs}; use {keys.epochs - 1} or "
            f"less."
        )
    if keys.batch_size // keys.images_per_class < 2:
        raise ValueError(
            f"A batch must hold at least two classes, but batch_size={keys.batch_size} and "
            f"images_per_class={keys.images_per_class}; use "
            f"batch_size={2 * keys.images_per_class} or more."
        )
    if keys.batch_size < 2 * keys.workers:
        raise ValueError(
            f"Each of workers={keys.workers} needs at least two images of a batch, but "
            f"batch_size={keys.batch_size}; use {2 * keys.workers} or more."
        )
    if keys.gpu_type and keys.gpus_per_worker == 0:
        raise ValueError(
            f"gpu_type={keys.gpu_type} needs a GPU for every worker, but gpus_per_worker=0; leave "
            f"one of them out."
        )


def _check_batch(keys: Keys, loss: str, card: LossSpace) -> None:
    kind = keys.batches or card.batches
    if (
        keys.images_per_class < 2
        and kind in ("balanced", "mined")
        and card.kind in ("pair", "triplet")
        and not card.per_class
    ):
        raise ValueError(
            f"{loss} compares images of one class, but "
            f"images_per_class={keys.images_per_class}; use 2 or more."
        )
    if kind == "triplets" and keys.batch_size < 6:
        raise ValueError(
            f"{loss} needs at least two triplets in a batch, but "
            f"batch_size={keys.batch_size}; use 6 or more."
        )
    if kind in ("balanced", "mined") and card.per_class and keys.batch_size % card.per_class:
        near = max(2, round(keys.batch_size / card.per_class)) * card.per_class
        raise ValueError(
            f"{loss} is defined for {card.per_class} images of each class, but "
            f"batch_size={keys.batch_size}; use {near}."
        )
    if keys.memory and not card.memory:
        able = ", ".join(name for name, each in LOSSES.items() if each.memory)
        raise ValueError(
            f"memory={keys.memory} is for losses over tuples without a miner and for the thesis's "
            f"own, not {loss}; leave it out, or use one of {able}."
        )
    if LOSS_VALUE in keys.metrics and card.has_class_weights:
        raise ValueError(
            f"{LOSS_VALUE} is for losses that know no classes, but {loss} has weights for the "
            f"train classes and none for others; leave out one of them."
        )
    if 0 < keys.memory < keys.batch_size:
        raise ValueError(
            f"memory={keys.memory} must hold at least one batch; use {keys.batch_size} or more."
        )
    if card.batches == "triplets" != kind:
        raise ValueError(
            f"{loss} reads its batches as anchor, positive, negative, but batches={kind} has "
            f"another order; leave batches out."
        )
    if card.per_class and kind != "balanced":
        raise ValueError(
            f"{loss} is defined for {card.per_class} images of each class, but "
            f"batches={kind} has other numbers; leave batches out."
        )


def _check_transform(keys: Keys, dataset: str, backbone: str) -> None:
    size = image_transform(keys, dataset, backbone).image_size
    if keys.crop_scale[1] > 1:
        raise ValueError(
            f"crop_scale is a share of the image's area, 1 at most, but got {keys.crop_scale[1]:g}."
        )
    if keys.crop == "shifted" and keys.max_shift >= size:
        raise ValueError(
            f"max_shift={keys.max_shift} would move images of {size} pixels out of sight; use "
            f"{size // 4} or less."
        )
    if not DATASETS[dataset].pixels and size > keys.cache_size:
        raise ValueError(
            f"cache_size={keys.cache_size} must not be below image_size={size}; use "
            f"cache_size={-(-size * 8 // 7)}."
        )
