"""Check a whole study before anything starts: names, metrics, settings, numbers, splits."""

from itertools import product

from search_spaces import find_card, pick, value_text
from search_spaces.own import find_function
from search_spaces.space import Choice
from study.config.budget import check_search, search_epochs
from study.config.cell_checks import check_cell
from study.config.cells import (
    RECALLS,
    axes,
    for_cell,
    is_searched,
    list_cells,
    make_splits,
    measured_metrics,
)
from study.config.keys.key_types import SEED, SEEDS
from study.config.keys.keys import Keys
from study.config.keys.overrides import check_axes_remain, check_entries, check_matches
from study.config.protocols import find_protocol
from study.strategies.catalogue import STRATEGIES
from trainables.contract import PEEKING, is_closed_set
from trainables.datasets.catalogue import DATASETS
from trainables.metrics.retrieval import LOSS_VALUE, check_metric
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import check_channels, check_weights


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
    if keys.select_metric.endswith(("negative_cosine", LOSS_VALUE)):
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
            if isinstance(param.domain, Choice) and param.domain.own and ":" in str(value):
                find_function(str(value))
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
        check_cell(own, cell)
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
    if keys.seed + SEEDS > SEED:
        raise ValueError(
            f"seed={keys.seed} leaves no seeds for the first replicate, which takes {SEEDS}; use "
            f"{SEED - SEEDS} or less."
        )


def _check_division(keys: Keys) -> None:
    """Check that a split file serves one dataset and protocol, and that every split is lawful."""
    closed = [name for name in keys.protocols if is_closed_set(name)]
    if closed and (len(keys.protocols) > 1 or keys.split_file):
        also = f"split_file={keys.split_file}" if keys.split_file else ", ".join(keys.protocols)
        raise ValueError(
            f"closed_set divides the images of every class, so its numbers are never ranked beside "
            f"those of class lists, but the study has {also}; make a study of closed_set alone."
        )
    honest = [name for name in keys.protocols if find_protocol(name).rule != PEEKING]
    if keys.split_file and (len(honest) > 1 or len(keys.dataset) > 1):
        several = ", ".join(honest if len(honest) > 1 else keys.dataset)
        raise ValueError(
            f"A split_file divides one dataset for one protocol, but the study has {several}; "
            f"make a study of each."
        )
    for dataset, name in product(keys.dataset, keys.protocols):
        make_splits(keys, dataset, name)
