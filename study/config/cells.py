"""List the cells and baselines of a study, and what its keys mean for a dataset, a protocol or one
cell.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

from search_spaces import Value
from search_spaces.training import AUTO, trained_values
from study.config.keys.keys import Keys
from study.config.keys.overrides import AXIS_KEYS, matches, values_for
from study.config.protocols import (
    KFold,
    StudyProtocol,
    check_splits,
    find_protocol,
    make_protocol,
)
from study.config.seeds import split_seed
from study.config.split_files import parse_splits
from trainables.contract import (
    OWN_FEATURES,
    PCA,
    PEEKING,
    PIXELS,
    POOLED,
    UNTRAINED,
    Cell,
    DatasetRef,
    ImageTransform,
    Split,
    Training,
    is_closed_set,
)
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import halves
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import NONE

RECALLS = "recalls"  # among metrics: recall at the dataset's own list of k
SomeKeys = TypeVar("SomeKeys", bound=Keys)


def axes(keys: Keys) -> dict[str, tuple[Any, ...]]:
    """Return the values of each axis of the study's cells."""
    return {axis: getattr(keys, key) for axis, key in AXIS_KEYS.items()}


def list_cells(keys: Keys) -> tuple[Cell, ...]:
    """Return dataset x backbone x embedding size x loss x protocol, in order, minus leave_out."""
    every = (Cell(*parts) for parts in product(*axes(keys).values()))
    return tuple(
        cell for cell in every if not any(matches(entry, cell) for entry in keys.leave_out)
    )


def list_baselines(
    keys: Keys, cells: Iterable[Cell], seeds: Sequence[int]
) -> list[tuple[Cell, int]]:
    """Return the baselines with their seeds, for every dataset, backbone and embedding size.

    What no seed changes runs once, such as raw pixels and the features of a pretrained network; a
    network with random weights or a random head runs for every seed. A study with folds also has a
    PCA of as many dimensions as the models of all folds have together.
    """
    known = keys.weights != NONE or keys.train == "head"  # features that are worth something
    fitting = (PIXELS, POOLED if known else UNTRAINED) if AUTO in keys.baselines else ()
    wanted = {*keys.baselines, *fitting}
    once = (PCA, POOLED) if known else ()
    # Under closed_set baselines are scored on other images, and their protocol says so.
    closed = next((name for name in keys.protocols if is_closed_set(name)), "none")
    networks = dict.fromkeys(replace(cell, loss=UNTRAINED, protocol=closed) for cell in cells)
    found: list[tuple[Cell, int]] = []
    for dataset in keys.dataset:
        here = [cell for cell in networks if cell.dataset == dataset]
        if PIXELS in wanted and dataset != OWN_FEATURES:
            found.append((Cell(dataset, PIXELS, 0, UNTRAINED, closed), seeds[0]))
        for name in (POOLED, UNTRAINED, PCA):
            sized = [*here, *_wider(keys, here)] if name == PCA else here
            scored = [replace(cell, loss=name) for cell in sized] if name in wanted else []
            found += product(scored, seeds[:1] if name in once else seeds)
    return found


def _wider(keys: Keys, networks: Sequence[Cell]) -> list[Cell]:
    """Return each network with the dimensions of all fold models together."""
    protocols = [study_protocol(keys, name) for name in keys.protocols]
    folds = [each.folds for each in protocols if isinstance(each, KFold)]
    sizes = [replace(one, embedding_size=k * one.embedding_size) for one in networks for k in folds]
    return [cell for cell in dict.fromkeys(sizes) if cell not in networks]


def for_cell(keys: SomeKeys, cell: Cell) -> SomeKeys:
    """Return the keys as this cell has them: with the values of `where`."""
    return keys.model_copy(update=values_for(keys.where, cell)) if keys.where else keys


def is_searched(keys: Keys, cell: Cell) -> bool:
    """Return whether the study searches settings for this cell."""
    protocol = find_protocol(cell.protocol)
    peeks = keys.peek_search and protocol.rule == PEEKING
    return keys.strategy != "fixed" and (peeks or protocol.searches)


def dataset_ref(keys: Keys, dataset: str) -> DatasetRef:
    """Return where the dataset is and which of its classes and images the study uses."""
    brought = DATASETS[dataset].needs_root
    return DatasetRef(
        dataset,
        keys.data_root if brought else None,
        keys.train_classes if brought else (),
        keys.test_classes if brought else (),
        keys.exclude,
        keys.max_classes,
        **_closed_set(keys, dataset),
    )


def _closed_set(keys: Keys, dataset: str) -> dict[str, Any]:
    """Return how a study of a closed set divides images; a study of other protocols does not.

    closed_set:0.7 draws a share of the images even where there are official lists.
    """
    names = [name for name in keys.protocols if is_closed_set(name)]
    if not names:
        return {}
    share = study_protocol(keys, names[0]).train_share  # type: ignore[attr-defined]
    if DATASETS[dataset].closed_train_images and ":" not in names[0]:
        return {"closed_set": True}
    return {"closed_set": True, "train_share": share, "share_seed": keys.split_seed}


def measured_metrics(keys: Keys, dataset: str) -> tuple[str, ...]:
    """Return the metrics, with `recalls` spelled out."""
    recalls = [f"recall_at_{k}" for k in DATASETS[dataset].recalls]
    names = [part for name in keys.metrics for part in (recalls if name == RECALLS else [name])]
    return tuple(dict.fromkeys(names))


def values_of_fields(keys: Keys, kind: Any) -> dict[str, Any]:
    """Return the values of the keys that are fields of `kind`, a part of a TrialSpec."""
    return {field.name: getattr(keys, field.name) for field in fields(kind)}


def make_training(keys: Keys, dataset: str, epochs: int, setting: Mapping[str, Value]) -> Training:
    """Return how a cell is trained, with the values that the setting replaces."""
    values = values_of_fields(keys, Training) | trained_values(setting)
    return Training(**values | {"metrics": measured_metrics(keys, dataset), "epochs": epochs})


def image_transform(keys: Keys, dataset: str, backbone: str) -> ImageTransform:
    """Return the transform with the backbone's input size, unless the keys set another or all
    images are smaller.
    """
    own = find_backbone(backbone).input_size
    size = own if backbone == PIXELS else keys.image_size or own
    if not (keys.image_size and backbone != PIXELS):
        size = min(size, DATASETS[dataset].side or size)
    return ImageTransform(**values_of_fields(keys, ImageTransform) | {"image_size": size})


def study_protocol(keys: Keys, name: str) -> StudyProtocol:
    """Return the protocol with the study's keys."""
    return make_protocol(name, dict(keys))


def make_splits(
    keys: Keys, dataset: str, protocol: str, *, replicate: int = 1, further: int = 0
) -> tuple[Split, ...]:
    """Draw the splits of a dataset under a protocol, or read them from split_file.

    further: counts the splits beside the replicate's own, for finalists.
    """
    sides = halves(dataset_ref(keys, dataset))
    seed = split_seed(keys.split_seed, replicate, further=further)
    divides = study_protocol(keys.model_copy(update={"split_seed": seed}), protocol)
    if keys.split_file and divides.rule != PEEKING:
        return _read_splits(keys.split_file, dataset, protocol, divides=divides, sides=sides)
    splits = divides.splits(*sides)
    check_splits(splits, *sides, rule=divides.rule)
    return splits


def _read_splits(
    path: str,
    dataset: str,
    protocol: str,
    *,
    divides: StudyProtocol,
    sides: tuple[Sequence[int], Sequence[int]],
) -> tuple[Split, ...]:
    try:
        text = Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no text"
        raise ValueError(
            f"split_file={path} cannot be read ({reason}); every study writes such files into its "
            f"splits folder."
        ) from None
    return parse_splits(text, path, dataset, protocol=protocol, divides=divides, halves=sides)
