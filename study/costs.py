"""What a study would cost: hours from timing a few real steps on this machine, bytes from the sizes of what it leaves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from search_spaces import find_card
from study.config import StudyConfig
from study.planning import CellPlan
from trainables.contract import Cell
from trainables.datasets.catalogue import DATASETS, halves, index
from trainables.datasets.pixels import cache_bytes, cache_folder
from trainables.networks.backbones import find_backbone
from trainables.networks.weights import weights_path
from trainables.process import own_device, settle

if TYPE_CHECKING:
    from trainables.fit import Fit

START_UP = 35  # seconds until the first epoch of a study; measured on two cores
CONTENTION = 1.4  # slots that share a machine slow each other by up to this; measured on two cores
PROBES, PROBE_SECONDS = 5, 1.0  # calls and seconds of one timing, at most
PATIENCE = 120.0  # seconds of timing in all; then a backbone's slowest pace holds for what was not timed of it
QUERY_BYTES = 40  # one row of queries.csv
HALF, SINGLE = 2, 4  # bytes of a number in kept embeddings, and in weights
SAMPLE = 100, 64  # classes and dimensions for which a loss is built to see what it weighs


def estimate(config: StudyConfig, plans: Sequence[CellPlan], *, slots: int) -> dict[str, Any]:
    """Seconds from start to end, hours of one accelerator (here a CPU's slot if there is none) and bytes; ranges are [low, high]."""
    costs: dict[str, Any] = {
        "seconds": None,
        "accelerator_hours": None,
        "device": None,
        "slots": slots,
        "disk_bytes": disk(config, plans),
        "cache_bytes": cache_disk(config),
        "unknown": obstacle(config),
    }
    if costs["unknown"]:
        return costs
    settle()
    low, high = trial_seconds(config, plans)
    at_once = slots * config.workers  # as if a trial's workers shared its work without loss
    wall = START_UP + low / at_once, START_UP + CONTENTION * high / at_once
    return costs | {
        "seconds": [round(part) for part in wall],
        "accelerator_hours": [round(low / 3600, 3), round(CONTENTION * high / 3600, 3)],
        "device": str(own_device()),
    }


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


@dataclass(frozen=True)
class Pace:
    """Seconds of one step, and of scoring one image."""

    step: float
    image: float


def trial_seconds(config: StudyConfig, plans: Sequence[CellPlan]) -> tuple[float, float]:
    """Of all trials one after the other: each backbone, size and kind of loss is timed once, with one of its splits."""
    paces: dict[Any, Pace] = {}
    began, low, high = time.perf_counter(), 0.0, 0.0

    @cache
    def sizes(dataset: str, protocol: str) -> list[tuple[int, int]]:
        """Images to train on and to select by, of every split."""
        found = index(config.origin(dataset))
        return [(len(found.ids(split.train)), len(found.ids(split.select))) for split in config.splits(dataset, protocol)]

    for cell, plan in zip(config.cells(), plans, strict=True):
        own = config.of(cell)
        look = own.look(cell.dataset, cell.backbone)
        key = (cell.backbone, cell.embedding_size, find_card(cell.loss).kind, look, own.batch_size, own.pooling)
        if key not in paces:
            known = [pace for other, pace in paces.items() if other[0] == cell.backbone]
            late = time.perf_counter() - began > PATIENCE
            paces[key] = max(known, key=lambda pace: pace.step) if known and late else _pace(config, cell)
        pace, splits = paces[key], sizes(cell.dataset, cell.protocol)
        steps = [own.steps_per_epoch or -(-train // own.batch_size) for train, _ in splits]
        epoch = sum(count * pace.step + select * pace.image for count, (_, select) in zip(steps, splits, strict=True)) / len(splits)
        tests = plan.final_trials * plan.models * _images(config, cell.dataset)[1]
        low += plan.model_epochs[0] * epoch + tests * pace.image
        high += plan.model_epochs[1] * epoch + tests * pace.image
    return low, high


def _pace(config: StudyConfig, cell: Cell) -> Pace:
    from trainables.datasets.pixels import load
    from trainables.fit import Fit

    # Sealed, and no score is kept: only how long it takes to make one.
    spec = config.spec(cell, "search", config.seed, config.published(cell.loss))
    spec = replace(spec, training=replace(spec.training, steps_per_epoch=1))
    fit = Fit(spec, spec.splits[0], load(spec.origin, spec.look.cache_size))
    return _time(fit)


def _time(fit: Fit) -> Pace:
    few = fit.images(fit.split.select[: max(2, len(fit.split.select) // 10)])
    fit.train_epoch(1)  # warms up
    return Pace(_timed(lambda: fit.train_epoch(2)), _timed(lambda: fit.score(few)) / len(few))


def _timed(work: Callable[[], Any]) -> float:
    """Seconds of one call; of several, while they are quick."""
    began, calls = time.perf_counter(), 0
    while calls < PROBES and time.perf_counter() - began < PROBE_SECONDS:
        work()
        calls += 1
    return (time.perf_counter() - began) / calls


def cache_disk(config: StudyConfig) -> int | None:
    """Bytes of all decoded images, those that are there and those that will be; None if the data are not here."""
    try:
        return sum(cache_bytes(config.origin(dataset), config.cache_size) for dataset in config.dataset)
    except ValueError:
        return None


def disk(config: StudyConfig, plans: Sequence[CellPlan]) -> int | None:
    """Bytes that the study leaves at most, without decoded images; None if nobody knows yet how many images there are."""
    try:
        return sum(_cell_disk(config, cell, plan) for cell, plan in zip(config.cells(), plans, strict=True))
    except ValueError:
        return None


def _cell_disk(config: StudyConfig, cell: Cell, plan: CellPlan) -> int:
    from trainables.networks.network import POOLS

    trunk, features = _trunk(cell.backbone, DATASETS[cell.dataset].channels)
    pooled = features * POOLS[config.of(cell).pooling][1]
    network = trunk + SINGLE * (pooled + 1) * cell.embedding_size
    classes = len(halves(config.origin(cell.dataset))[0])
    loss = _loss_bytes(cell.loss) * classes * cell.embedding_size // (SAMPLE[0] * SAMPLE[1])
    images, tests = _images(config, cell.dataset)
    # A trial's last state: weights, two moments of each, and the weights of its best epoch. MLflow gets it only if asked.
    state = (4 * network + 3 * loss) * plan.models
    search = state * (2 if config.keep_checkpoints else 1)
    # A final trial's own files lie beside its state and in MLflow.
    queries = QUERY_BYTES * tests * (plan.models * (2 if config.last_too else 1) + (plan.models > 1))
    final = state + 2 * (network * plan.models + queries)
    embeddings = 2 * HALF * images * (cell.embedding_size + pooled) * plan.models
    shares = {"all": plan.final_trials, "first": plan.final_trials // config.reproductions, "none": 0}
    return search * plan.search_trials + final * plan.final_trials + embeddings * shares[config.keep_embeddings]


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
