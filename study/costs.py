"""What a study would cost: hours from the pace of its trials, bytes from the sizes of what it leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from search_spaces import find_card
from study.config import StudyConfig
from study.pace import Kind, Pace, Past, Probe, epoch_work, kind_of, past, split_sizes
from study.planning import CellPlan
from trainables.contract import Cell
from trainables.datasets.catalogue import DATASETS, halves, index
from trainables.datasets.pixels import cache_bytes, cache_folder
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import weights_path
from trainables.process import own_device

START_UP = 35  # seconds until the first epoch of a study; measured on two cores
CONTENTION = 1.4  # slots that share a machine slow each other by up to this; measured on two cores
QUERY_BYTES = 40  # one row of queries.csv
HALF, SINGLE = 2, 4  # bytes of a number in kept embeddings, and in weights
CHECKPOINTS = 3  # of a running trial: recorder.py keeps two, and the next is written before the older one goes
SAMPLE = 100, 64  # classes and dimensions for which a loss is built to see what it weighs


def estimate(config: StudyConfig, plans: Sequence[CellPlan], *, slots: int) -> dict[str, Any]:
    """Seconds from start to end, hours of one accelerator (here a CPU's slot if there is none) and bytes; ranges are [low, high]."""
    before = past(config)
    missing = [cell for cell in config.cells() if kind_of(config, cell) not in before.paces]
    costs: dict[str, Any] = {
        "seconds": None,
        "accelerator_hours": None,
        "device": None,
        "time_from": None,
        "slots": slots,
        "disk_bytes": disk(config, plans, slots=slots),
        "cache_bytes": cache_disk(config),
        "unknown": obstacle(config) if missing else None,
    }
    if costs["unknown"]:
        return costs
    try:
        low, high = trial_seconds(config, plans, before.paces)
    except ValueError as error:  # the pace is known, but not how many images there are
        return costs | {"unknown": str(error)}
    at_once = slots * config.workers  # as if a trial's workers shared its work without loss
    wall = START_UP + low / at_once, START_UP + CONTENTION * high / at_once
    return costs | {
        "seconds": [round(part) for part in wall],
        "accelerator_hours": [round(low / 3600, 3), round(CONTENTION * high / 3600, 3)],
        "device": str(own_device()) if missing else None,
        "time_from": _told(before, timed=len(missing)),
    }


def _told(before: Past, *, timed: int) -> str:
    """Where the time comes from."""
    here = "a few steps that were timed here"
    if not before.trials:
        return here
    earlier = f"{_several(before.trials, 'earlier trial')} of {', '.join(before.studies)} in MLflow"
    return f"{earlier}; for {_several(timed, 'cell')} without one, {here}" if timed else earlier


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count > 1 else ''}"


def obstacle(config: StudyConfig) -> str | None:
    """Why no time can be told yet: data or weights that are not here."""
    try:
        for backbone in config.backbone:
            path = weights_path(backbone, config.weights)
            if path and not path.exists():
                return f"The weights of {backbone} are not here yet ({path}); `fairtrial run` fetches them."
        for dataset in config.dataset:
            origin = config.origin(dataset)
            index(origin)
            if cache_bytes(origin, config.cache_size) and not cache_folder(origin, config.cache_size).exists():
                return f"The images of {dataset} are not decoded yet; `fairtrial run` does that first, once for this machine."
    except ValueError as error:
        return str(error)
    return None


def trial_seconds(config: StudyConfig, plans: Sequence[CellPlan], known: Mapping[Kind, Pace]) -> tuple[float, float]:
    """Of all trials one after the other; what is not known is timed."""
    probe, low, high = Probe(config), 0.0, 0.0
    sizes = cache(lambda dataset, protocol: split_sizes(config, dataset, protocol))
    for cell, plan in zip(config.cells(), plans, strict=True):
        pace = known.get(kind_of(config, cell)) or probe.pace(cell)
        steps, select = epoch_work(config, cell, sizes(cell.dataset, cell.protocol))
        epoch = (steps * pace.step + select * pace.image) / plan.models
        tests = plan.final_trials * plan.models * _images(config, cell.dataset)[1]
        low += plan.model_epochs[0] * epoch + tests * pace.image
        high += plan.model_epochs[1] * epoch + tests * pace.image
    return low, high


def cache_disk(config: StudyConfig) -> int | None:
    """Bytes of all decoded images, those that are there and those that will be; None if the data are not here."""
    try:
        return sum(cache_bytes(config.origin(dataset), config.cache_size) for dataset in config.dataset)
    except ValueError:
        return None


def disk(config: StudyConfig, plans: Sequence[CellPlan], *, slots: int) -> int | None:
    """Bytes that the study leaves, and the checkpoints of the trials that run at a time, which go with them; without decoded images.

    None: nobody knows yet how many images there are.
    """
    try:
        parts = [_cell_disk(config, cell, plan) for cell, plan in zip(config.cells(), plans, strict=True)]
    except ValueError:
        return None
    trials = sum(plan.search_trials + plan.final_trials for plan in plans)
    return sum(left for left, _ in parts) + min(slots, trials) * max(running for _, running in parts)


def _cell_disk(config: StudyConfig, cell: Cell, plan: CellPlan) -> tuple[int, int]:
    """What it leaves in MLflow, and what one of its trials has beside that while it runs."""
    from trainables.networks.network import POOLS

    trunk, features = _trunk(cell.backbone, DATASETS[cell.dataset].channels)
    pooled = features * POOLS[config.of(cell).pooling][1]
    network = trunk + SINGLE * (pooled + 1) * cell.embedding_size
    classes = len(halves(config.origin(cell.dataset))[0])
    loss = _loss_bytes(cell.loss) * classes * cell.embedding_size // (SAMPLE[0] * SAMPLE[1])
    images, tests = _images(config, cell.dataset)
    # A trial's state: weights, two moments of each, and the weights of its best epoch. MLflow gets a search trial's only if asked.
    state = (4 * network + 3 * loss) * plan.models
    queries = QUERY_BYTES * tests * (plan.models * (2 if config.last_too else 1) + (plan.models > 1))
    final = network * plan.models + queries
    embeddings = HALF * images * (cell.embedding_size + pooled) * plan.models
    shares = {"all": plan.final_trials, "first": plan.final_trials // config.reproductions, "none": 0}
    left = final * plan.final_trials + embeddings * shares[config.keep_embeddings] + state * plan.search_trials * config.keep_checkpoints
    return left, CHECKPOINTS * state + final + embeddings * (config.keep_embeddings != "none")


@cache
def _trunk(backbone: str, channels: int) -> tuple[int, int]:
    """Bytes of its weights, and how many features it gives. Built without memory and without a weight file."""
    import torch

    with torch.device("meta"):
        trunk, features = find_backbone(backbone).build(channels)
    return sum(tensor.nbytes for tensor in trunk.state_dict().values()), features


@cache
def _loss_bytes(loss: str) -> int:
    """Of its own weights, for SAMPLE; they grow with both."""
    from trainables.losses import find_builder

    objective = find_builder(loss)(*SAMPLE, **find_card(loss).defaults)
    return sum(tensor.nbytes for tensor in objective.state_dict().values())


def _images(config: StudyConfig, dataset: str) -> tuple[int, int]:
    """All, and those of the test classes; official counts need no file."""
    source = DATASETS[dataset]
    if source.images is not None and source.test_images is not None and not config.max_classes:
        return source.images, source.test_images
    found = index(config.origin(dataset))
    return len(found.ids(found.train + found.test)), len(found.ids(found.test))
