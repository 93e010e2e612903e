"""What a study would cost, from counting its trials and timing a few real steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from study.budget import search_epochs
from study.config import StudyConfig
from study.strategies import STRATEGIES, Setting
from trainables.contract import Cell
from trainables.datasets.catalogue import index
from trainables.datasets.pixels import cache_bytes, cache_folder
from trainables.networks.weights import weights_path
from trainables.process import settle

START_UP = 35  # seconds until the first epoch of a study; measured on two cores
CONTENTION = 1.4  # slots that share a machine slow each other by up to this; measured on two cores
QUERY_BYTES = 40  # one row of queries.csv
PROBES, PROBE_SECONDS = 5, 1.0  # at most
PREVIEW = 3  # settings shown per cell


@dataclass(frozen=True)
class CellPlan:
    """One cell before it runs. epochs: (if early stopping does its work, if it never stops anything)."""

    label: str
    rule: str
    search_trials: int
    final_trials: int
    epochs: tuple[int, int]
    first_settings: list[Setting]


def plan_cells(config: StudyConfig) -> list[CellPlan]:
    return [_plan_cell(config, cell) for cell in config.cells()]


def _plan_cell(config: StudyConfig, cell: Cell) -> CellPlan:
    search, final = config.trials(cell)
    low = round(search * config.expected_search_epochs()) + final * config.epochs
    high = search * search_epochs(config) + final * config.epochs
    published = config.published(cell.loss)
    settings = [published]
    if search:
        strategy = STRATEGIES[config.strategy](config.space(cell.loss), first=published, trials=search, seed=config.seed)
        previews = [strategy.suggest(f"preview-{i}") for i in range(min(search, PREVIEW))]
        settings = [setting for setting in previews if setting is not None]
    rule = config.protocol(cell.protocol).rule
    return CellPlan(config.label(cell), rule, search, final, (low, high), settings)


def obstacle(config: StudyConfig) -> str | None:
    """Why no cost can be told yet: data or weights that are not here."""
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


def cache_disk(config: StudyConfig) -> int | None:
    """Bytes of all decoded images, those that are there and those that will be; None if the data are not here."""
    try:
        return sum(cache_bytes(config.origin(dataset), config.cache_size) for dataset in config.dataset)
    except ValueError:
        return None


def estimate(config: StudyConfig, *, slots: int) -> dict[str, Any]:
    """Seconds (low, high) and bytes of the whole study, from timing a few real steps of every cell in this process."""
    costs: dict[str, Any] = {
        "seconds": None,
        "slots": slots,
        "disk_bytes": None,
        "cache_bytes": cache_disk(config),
        "unknown": obstacle(config),
    }
    if costs["unknown"]:
        return costs
    settle()
    seconds_low = seconds_high = 0.0
    disk = 0
    for cell, plan in zip(config.cells(), plan_cells(config), strict=True):
        per_epoch, state, queries = _probe(config, cell)
        seconds_low += per_epoch * plan.epochs[0]
        seconds_high += per_epoch * plan.epochs[1]
        # A trial keeps weights, two moments and its best weights; a final trial's last files are copied to MLflow.
        disk += 4 * state * plan.search_trials + 2 * (5 * state + QUERY_BYTES * queries) * plan.final_trials
    at_once = slots * config.workers  # as if a trial's workers shared its work without loss
    wall = (START_UP + seconds_low / at_once, START_UP + CONTENTION * seconds_high / at_once)
    return costs | {"seconds": [round(part) for part in wall], "disk_bytes": disk}


def _probe(config: StudyConfig, cell: Cell) -> tuple[float, int, int]:
    """Seconds per epoch, bytes of the weights, number of test queries."""
    from trainables.datasets.pixels import load
    from trainables.fit import Fit

    # Sealed, and no score is kept: only how long it takes to make one.
    spec = config.spec(cell, "search", config.seed, config.published(cell.loss))
    spec = replace(spec, training=replace(spec.training, steps_per_epoch=1))
    data = load(spec.origin, spec.look.cache_size)
    seconds = 0.0
    for i, split in enumerate(spec.splits):
        fit = Fit(spec, split, data, fold=i)
        steps = config.steps_per_epoch or -(-len(fit.train) // config.batch_size)
        few = fit.images(split.select[: max(2, len(split.select) // 10)])
        fit.train_epoch(1)  # warms up
        seconds += _timed(lambda fit=fit: fit.train_epoch(2)) * steps
        seconds += _timed(lambda fit=fit, few=few: fit.score(few)) * len(fit.select) / len(few)
    state = sum(tensor.nbytes for tensor in fit.network.state_dict().values()) * len(spec.splits)
    return seconds, state, len(data.index.ids(data.index.test))


def _timed(work: Any) -> float:
    """Seconds of one call; of several, while they are quick."""
    began, calls = time.perf_counter(), 0
    while calls < PROBES and time.perf_counter() - began < PROBE_SECONDS:
        work()
        calls += 1
    return (time.perf_counter() - began) / calls
