"""Estimate what a study costs: hours from the pace of its trials, bytes from what they leave."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from search_spaces import find_card
from study.config.cells import image_transform
from study.config.plan import StudyPlan
from study.estimate.counts import CellCounts
from study.estimate.pace import (
    EarlierPaces,
    Pace,
    Probe,
    StepShape,
    earlier_paces,
    epoch_work,
    split_sizes,
    step_shape,
)
from trainables.contract import PIXELS, POOLED, Cell
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import halves, index
from trainables.datasets.pixels import cache_bytes, cache_folder
from trainables.distributed.process import own_device
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import weights_path

START_UP = 35  # seconds until the first epoch of a study; measured on two cores
CONTENTION = 1.4  # how much slots on one machine slow each other, at most; measured on two cores
QUERY_BYTES = 40  # one row of queries.csv
SINGLE = 4  # bytes of a number in weights and in kept embeddings
# Of a running trial: the driver keeps two, and a third exists before it removes the oldest.
CHECKPOINTS = 3
SAMPLE = 100, 64  # classes and dimensions for which a loss is built to measure its weights


def estimate(plan: StudyPlan, counts: Sequence[CellCounts], *, slots: int) -> dict[str, Any]:
    """Return wall seconds, hours of one accelerator and bytes; ranges are [low, high].

    Without an accelerator, the hours are those of a CPU slot.
    """
    earlier = earlier_paces(plan)
    missing = [cell for cell in plan.cells if step_shape(plan, cell) not in earlier.paces]
    costs: dict[str, Any] = {
        "seconds": None,
        "accelerator_hours": None,
        "device": None,
        "time_from": None,
        "slots": slots,
        "disk_bytes": disk(plan, counts, slots=slots),
        "cache_bytes": cache_disk(plan),
        "unknown": obstacle(plan) if missing else None,
    }
    if costs["unknown"]:
        return costs
    try:
        low, high = trial_seconds(plan, counts, earlier.paces)
    except ValueError as error:  # the pace is known, but not how many images there are
        return costs | {"unknown": str(error)}
    at_once = slots * plan.config.workers  # as if a trial's workers shared its work without loss
    wall = START_UP + low / at_once, START_UP + CONTENTION * high / at_once
    return costs | {
        "seconds": [round(part) for part in wall],
        "accelerator_hours": [round(low / 3600, 3), round(CONTENTION * high / 3600, 3)],
        "device": str(own_device()) if missing else None,
        "time_from": _time_source(earlier, timed=len(missing)),
    }


def _time_source(earlier: EarlierPaces, *, timed: int) -> str:
    here = "a few steps that were timed here"
    if not earlier.trials:
        return here
    trials = (
        f"{_counted(earlier.trials, 'earlier trial')} of {', '.join(earlier.studies)} in MLflow"
    )
    return f"{trials}; for {_counted(timed, 'cell')} without one, {here}" if timed else trials


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count > 1 else ''}"


def obstacle(plan: StudyPlan) -> str | None:
    """Return why no time can be estimated yet: data or weights that are not here."""
    try:
        for backbone in plan.config.backbone:
            path = weights_path(backbone, plan.config.weights)
            if path and not path.exists():
                return (
                    f"The weights of {backbone} are not here yet ({path}); `fairtrial run` fetches "
                    f"them."
                )
        for dataset in plan.config.dataset:
            dataset_ref = plan.dataset_ref(dataset)
            index(dataset_ref)
            if (
                cache_bytes(dataset_ref, plan.config.cache_size)
                and not cache_folder(dataset_ref, plan.config.cache_size).exists()
            ):
                return (
                    f"The images of {dataset} are not decoded yet; `fairtrial run` does that "
                    f"first, once for this machine."
                )
    except ValueError as error:
        return str(error)
    return None


def trial_seconds(
    plan: StudyPlan, counts: Sequence[CellCounts], known: Mapping[StepShape, Pace]
) -> tuple[float, float]:
    """Return the seconds of all trials in a row, timing cells whose pace is unknown."""
    probe, low, high = Probe(plan), 0.0, 0.0
    sizes = cache(lambda dataset, protocol: split_sizes(plan, dataset, protocol))
    for cell, count in zip(plan.cells, counts, strict=True):
        pace = known.get(step_shape(plan, cell)) or probe.pace(cell)
        steps, select = epoch_work(plan, cell, sizes(cell.dataset, cell.protocol))
        epoch = (steps * pace.step + select * pace.image) / count.models
        tests = count.final_trials * count.models * _images(plan, cell.dataset)[1]
        low += count.model_epochs[0] * epoch + tests * pace.image
        high += count.model_epochs[1] * epoch + tests * pace.image
    return low, high


def cache_disk(plan: StudyPlan) -> int | None:
    """Return the bytes of all decoded images, present and future; None if the data are not
    here.
    """
    try:
        return sum(
            cache_bytes(plan.dataset_ref(dataset), plan.config.cache_size)
            for dataset in plan.config.dataset
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
    network, pooled = _network(plan, cell)
    classes = len(halves(plan.dataset_ref(cell.dataset))[0])
    loss = _loss_bytes(cell.loss) * classes * cell.embedding_size // (SAMPLE[0] * SAMPLE[1])
    images, tests = _images(plan, cell.dataset)
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
    network, pooled = _network(plan, cell)
    images, tests = _images(plan, cell.dataset)
    size = 0 if cell.loss == POOLED else cell.embedding_size
    embeddings = SINGLE * images * (size + pooled)
    return network + QUERY_BYTES * tests + embeddings * plan.keeps_embeddings(seed)


def _network(plan: StudyPlan, cell: Cell) -> tuple[int, int]:
    """Return the bytes of a cell's network, and the number of its pooled features."""
    from trainables.networks.network import POOLS

    own, channels = plan.for_cell(cell), DATASETS[cell.dataset].channels
    if cell.backbone == PIXELS:
        side = image_transform(own, cell.dataset, PIXELS).image_size
        return 0, channels * side**2
    trunk, features = _trunk(cell.backbone, channels)
    pooled = features * POOLS[own.pooling][1]
    head = 0 if cell.loss == POOLED else SINGLE * (pooled + 1) * cell.embedding_size
    return trunk + head, pooled


@cache
def _trunk(backbone: str, channels: int) -> tuple[int, int]:
    """Return the bytes of its weights and its number of features, from a model without memory and
    without a weight file.
    """
    import torch

    with torch.device("meta"):
        trunk, features = find_backbone(backbone).build(channels)
    return sum(tensor.nbytes for tensor in trunk.state_dict().values()), features


@cache
def _loss_bytes(loss: str) -> int:
    """Return the bytes of its own weights for SAMPLE; they grow with both numbers."""
    from trainables.losses import find_builder

    objective = find_builder(loss)(*SAMPLE, **find_card(loss).defaults)
    return sum(tensor.nbytes for tensor in objective.state_dict().values())


def _images(plan: StudyPlan, dataset: str) -> tuple[int, int]:
    """Return the number of images, of all and of the test classes; official counts need no file."""
    source = DATASETS[dataset]
    if source.images is not None and source.test_images is not None and not plan.config.max_classes:
        return source.images, source.test_images
    found = index(plan.dataset_ref(dataset))
    return len(found.ids(found.train + found.test)), len(found.ids(found.test))
