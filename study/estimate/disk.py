"""Estimate the bytes of a study: what its trials leave, and what this machine caches for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from search_spaces import find_card
from study.config.cells import image_transform
from study.config.plan import StudyPlan
from study.driver.preflight import feature_passes, images_to_decode
from study.estimate.counts import CellCounts
from trainables.contract import OWN_FEATURES, PIXELS, POOLED, Cell
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import halves, index
from trainables.datasets.pixels import cache_bytes
from trainables.datasets.vectors import load_vectors
from trainables.networks.backbones import find_backbone
from trainables.outputs.checkpoints import KEEP

QUERY_BYTES = 40  # one row of queries.csv
SINGLE = 4  # bytes of a number in weights, features and kept embeddings
CHECKPOINTS = KEEP + 1  # of a running trial: a further one exists before the oldest goes
SAMPLE = 100, 64  # classes and dimensions for which a loss is built to measure its weights


class NetworkSize(NamedTuple):
    """Hold the bytes of the weights that a trial learns, and the number of its pooled features."""

    bytes: int
    features: int


def cache_disk(plan: StudyPlan) -> int | None:
    """Return the bytes of all decoded images and computed features, present and future.

    Return None if the data are not here.
    """
    try:
        decoded = sum(
            cache_bytes(plan.dataset_ref(dataset), plan.config.cache_size, plan.config.resize)
            for dataset in images_to_decode(plan)
        )
        return decoded + sum(
            SINGLE
            * len(each.ids)
            * trunk_size(each.backbone, index(each.dataset_ref).channels, each.pooling).features
            for each in feature_passes(plan)
        )
    except ValueError:
        return None


def disk(plan: StudyPlan, counts: Sequence[CellCounts], *, slots: int) -> int | None:
    """Return the bytes that the study leaves, plus the checkpoints of trials that run at once.

    Decoded images are not included. Return None if the number of images is not known yet.
    """
    try:
        parts = [
            _cell_disk(plan, cell, count) for cell, count in zip(plan.cells, counts, strict=True)
        ]
    except ValueError:
        return None
    trials = sum(count.search_trials + count.final_trials for count in counts)
    baselines = sum(_baseline_disk(plan, cell, seed) for cell, seed in plan.baseline_cells())
    left = sum(each for each, _ in parts) + baselines
    return left + min(slots, trials) * max(running for _, running in parts)


def _cell_disk(plan: StudyPlan, cell: Cell, count: CellCounts) -> tuple[int, int]:
    """Return what it leaves in MLflow, and what one of its trials also needs while it runs."""
    network, pooled = network_size(plan, cell)
    classes = len(halves(plan.dataset_ref(cell.dataset))[0])
    loss = _loss_bytes(cell.loss) * classes * cell.embedding_size // (SAMPLE[0] * SAMPLE[1])
    images, tests = count_images(plan, cell.dataset)
    # A trial's state: weights, two moments of each, and the weights of its best epoch. MLflow gets
    # a search trial's only if asked.
    state = (4 * network + 3 * loss) * count.models
    queries = (
        QUERY_BYTES
        * tests
        * (count.models * (2 if plan.config.last_too else 1) + (count.models > 1))
    )
    final = network * count.models + queries
    embeddings = SINGLE * images * (cell.embedding_size + pooled) * count.models
    shares = {
        "all": count.final_trials,
        "first": count.final_trials // (plan.config.searches * plan.config.reproductions),
        "none": 0,
    }
    left = (
        final * count.final_trials
        + embeddings * shares[plan.config.keep_embeddings]
        + state * plan.config.searches * plan.search_trials(cell) * plan.config.keep_checkpoints
    )
    return left, CHECKPOINTS * state + final + embeddings * (plan.config.keep_embeddings != "none")


def _baseline_disk(plan: StudyPlan, cell: Cell, seed: int) -> int:
    """Return what a baseline leaves: its network, a row per test query, and its embeddings.

    A network without an embedding layer keeps its features once.
    """
    network, pooled = network_size(plan, cell)
    images, tests = count_images(plan, cell.dataset)
    size = 0 if cell.loss == POOLED else cell.embedding_size
    embeddings = SINGLE * images * (size + pooled)
    return network + QUERY_BYTES * tests + embeddings * plan.keeps_embeddings(seed)


def network_size(plan: StudyPlan, cell: Cell) -> NetworkSize:
    """Return the size of what a cell's trials learn: with train=head, of the head alone."""
    own, channels = plan.for_cell(cell), DATASETS[cell.dataset].channels
    if cell.backbone == PIXELS:
        side = image_transform(own, cell.dataset, PIXELS).image_size
        return NetworkSize(0, channels * side**2)
    if cell.dataset == OWN_FEATURES:
        trunk = NetworkSize(0, load_vectors(plan.dataset_ref(cell.dataset)).shape[1])
    else:
        trunk = trunk_size(cell.backbone, channels, own.pooling)
    size = 0 if cell.loss == POOLED else cell.embedding_size
    head = (trunk.features + 1) * size
    if own.head == "mlp" and size:
        head = (trunk.features + 1) * own.head_width + (own.head_width + 1) * size
    return NetworkSize((own.train == "all") * trunk.bytes + SINGLE * head, trunk.features)


@cache
def trunk_size(backbone: str, channels: int, pooling: str) -> NetworkSize:
    """Return the size of a trunk and its pooled features, from a model without memory and without
    a weight file.
    """
    import torch

    from trainables.networks.network import POOLS

    with torch.device("meta"):
        trunk, features = find_backbone(backbone).build(channels)
    weights = sum(tensor.nbytes for tensor in trunk.state_dict().values())
    return NetworkSize(weights, features * POOLS[pooling][1])


@cache
def _loss_bytes(loss: str) -> int:
    """Return the bytes of its own weights for SAMPLE; they grow with both numbers."""
    from trainables.losses import find_builder

    objective = find_builder(loss)(*SAMPLE, **find_card(loss).defaults)
    return sum(tensor.nbytes for tensor in objective.state_dict().values())


def count_images(plan: StudyPlan, dataset: str) -> tuple[int, int]:
    """Return the number of images, of all and of the test classes; official counts need no file."""
    source = DATASETS[dataset]
    if source.images is not None and source.test_images is not None and not plan.config.max_classes:
        return source.images, source.test_images
    found = index(plan.dataset_ref(dataset))
    return len(found.ids(found.train + found.test)), len(found.ids(found.test))
