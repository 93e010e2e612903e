"""Check a whole study before anything starts: names, metrics, settings, numbers, splits."""

from itertools import product

from search_spaces import LOSSES, LossSpace, find_card, pick, value_text
from study.config.budget import check_search, search_epochs
from study.config.cells import (
    RECALLS,
    axes,
    for_cell,
    image_transform,
    is_searched,
    list_cells,
    make_splits,
    measured_metrics,
)
from study.config.key_types import SEED, SEEDS
from study.config.keys import Keys
from study.config.overrides import check_axes_remain, check_entries, check_matches
from study.config.protocols import find_protocol
from study.strategies.catalogue import STRATEGIES
from trainables.contract import NO_TRUNK, OWN_FEATURES, PEEKING, Cell
from trainables.datasets.catalogue import DATASETS
from trainables.metrics.retrieval import check_metric
from trainables.networks.backbones import POOLINGS, find_backbone
from trainables.networks.weights import NONE, PRETRAINED, check_channels, check_weights
from trainables.training.optimiser import OPTIMISERS


def check_study(keys: Keys) -> None:
    """Raise ValueError with law, fact and cure if the study cannot run as its keys say."""
    _check_names(keys)
    _check_metrics(keys)
    _check_settings(keys)
    _check_overrides(keys)
    _check_numbers(keys)
    _check_seeds(keys)
    _check_division(keys)


def _check_names(keys: Keys) -> None:
    for name in keys.dataset:
        pick(DATASETS, name, "dataset")
    pick(STRATEGIES, keys.strategy, "strategy")
    for name in keys.protocols:
        find_protocol(name)
    for name in keys.losses:
        find_card(name)
    for name in keys.backbone:
        if not find_backbone(name).head:
            raise ValueError(f"{name} cannot be trained: it is a baseline, listed under baselines.")
        check_weights(name, keys.weights)
        for dataset in keys.dataset:
            channels = DATASETS[dataset].channels
            check_channels(name, keys.weights, dataset=dataset, channels=channels)


def _check_metrics(keys: Keys) -> None:
    for name in {*keys.metrics, keys.select_metric} - {RECALLS}:
        check_metric(name)
    if keys.select_metric.endswith("negative_cosine"):
        raise ValueError(
            f"select_metric must be higher-is-better, but {keys.select_metric} is lower-is-better; "
            f"choose another one, such as recall_at_1 or map_at_r."
        )
    for dataset in keys.dataset:
        measured = measured_metrics(keys, dataset)
        if not {"recall_at_1", "map_at_r"} <= set(measured):
            raise ValueError(
                f"metrics must hold recall_at_1 and map_at_r, which rank the losses, but got "
                f"{', '.join(keys.metrics)}."
            )
        if keys.select_metric not in measured:
            raise ValueError(
                f"select_metric={keys.select_metric} must be measured; add it to metrics "
                f"({', '.join(keys.metrics)})."
            )


def _check_settings(keys: Keys) -> None:
    for loss, values in keys.settings.items():
        card = find_card(loss)
        if loss not in keys.losses:
            raise ValueError(
                f"settings has values for {loss}, which is not among the losses of this study; "
                f"add it, or leave them out."
            )
        for key, value in values.items():
            param = pick(card.params, key, f"parameter of {loss}")
            if value not in param.domain:
                near, paper = value_text(param.domain.nearest(value)), value_text(param.paper)
                raise ValueError(
                    f"{loss}'s {key} must be {param.domain}, but got {value_text(value)}; use "
                    f"{near}, or its default {paper}."
                )
            if keys.strategy != "fixed" and value not in param.search:
                raise ValueError(
                    f"{loss}'s {key} is searched in {param.search}, but would start at "
                    f"{value_text(value)}; start at {value_text(param.search.nearest(value))}, or "
                    f"set strategy=fixed."
                )


def _check_overrides(keys: Keys) -> None:
    for key in ("where", "leave_out"):
        check_entries(getattr(keys, key), axes(keys), key=key, known=Keys.model_fields)
    cells = list_cells(keys)
    check_axes_remain(axes(keys), cells)
    check_matches(keys.where, cells)
    for name in keys.search_training:
        if any(name in entry for entry in keys.where):
            raise ValueError(
                f"A search of {name} starts at one value in all cells, so where cannot set it; "
                f"leave it out there."
            )


def _check_numbers(keys: Keys) -> None:
    """Check numbers against each other and the data, in each cell where they depend on it."""
    for cell in list_cells(keys):
        own = for_cell(keys, cell)
        _check_cell(own, cell)
        if keys.where and is_searched(keys, cell):
            check_search(own.model_copy(update={"search_epochs": search_epochs(keys)}))
    check_search(keys)
    for key in ("data_root", "train_classes", "test_classes"):
        if getattr(keys, key) and not any(DATASETS[name].needs_root for name in keys.dataset):
            raise ValueError(
                f"{key} is for image_folder, csv and features, not for "
                f"{', '.join(keys.dataset)}; leave it out."
            )
    if keys.exclude and len(keys.dataset) > 1:
        raise ValueError(
            "exclude names files of one dataset, but the study has several; run a study for each."
        )


def _check_seeds(keys: Keys) -> None:
    """Check that no two trials share a seed, and that every generator takes the last one."""
    if keys.reproductions >= SEEDS:
        raise ValueError(
            f"reproductions={keys.reproductions} must be below {SEEDS}: so many seeds each "
            "replicate has."
        )
    if keys.seed + keys.searches * SEEDS > SEED:
        raise ValueError(
            f"seed={keys.seed} leaves no seeds for {keys.searches} searches, which take {SEEDS} "
            f"each; use {SEED - keys.searches * SEEDS} or less."
        )


def _check_division(keys: Keys) -> None:
    """Check that a split file serves one dataset and protocol, and that every split is lawful."""
    honest = [name for name in keys.protocols if find_protocol(name).rule != PEEKING]
    if keys.split_file and (len(honest) > 1 or len(keys.dataset) > 1):
        several = ", ".join(honest if len(honest) > 1 else keys.dataset)
        raise ValueError(
            f"A split_file divides one dataset for one protocol, but the study has {several}; "
            f"make a study of each."
        )
    for dataset, name in product(keys.dataset, keys.protocols):
        make_splits(keys, dataset, name)


def _check_cell(keys: Keys, cell: Cell) -> None:
    """Raise ValueError if this cell cannot be trained. keys: as the cell has them."""
    _check_trunk(keys, cell)
    _check_cell_training(keys)
    _check_batch(keys, cell.loss, find_card(cell.loss))
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
    if keys.views and cell.dataset == OWN_FEATURES:
        raise ValueError(
            f"dataset={OWN_FEATURES} has no images to crop, but views={keys.views}; leave it out."
        )


def _check_cell_training(keys: Keys) -> None:
    pick(POOLINGS, keys.pooling, "pooling")
    pick(OPTIMISERS, keys.optimizer, "optimizer")
    if keys.batch_size % keys.images_per_class:
        near = max(1, round(keys.batch_size / keys.images_per_class)) * keys.images_per_class
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
            f"images_per_class={keys.batch_size // 2} or less."
        )
    if keys.batch_size < 2 * keys.workers:
        raise ValueError(
            f"Each of workers={keys.workers} needs at least two images of a batch, but "
            f"batch_size={keys.batch_size}; use {2 * keys.workers} or more."
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
            f"memory={keys.memory} is for losses over tuples without a miner, not {loss}; "
            f"leave it out, or use one of {able}."
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
