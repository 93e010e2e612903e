"""What a study would cost, from counting its trials and timing a few real steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

from study.config import StudyConfig
from study.strategies import STRATEGIES, Setting
from trainables.contract import Cell

START_UP = 35  # seconds until the first epoch of a study; measured on two cores
CONTENTION = 1.4  # slots that share a machine slow each other by up to this; measured on two cores
QUERY_BYTES = 40  # one row of queries.csv
PROBE_STEPS = 5
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
    published = config.published(cell.loss)
    settings = [published]
    if search:
        strategy = STRATEGIES[config.strategy](config.space(cell.loss), first=published, trials=search, seed=config.seed)
        settings = [strategy.suggest(f"preview-{i}") for i in range(min(search, PREVIEW))]
    rule = config.protocol(cell.protocol).rule
    return CellPlan(config.label(cell), rule, search, final, (low, (search + final) * config.epochs), settings)


def estimate(config: StudyConfig, *, slots: int) -> dict[str, Any]:
    """Seconds (low, high) and bytes of the whole study, from timing a few real steps of every cell in this process."""
    import torch

    torch.set_num_threads(1)
    seconds_low = seconds_high = 0.0
    disk = 0
    for cell, plan in zip(config.cells(), plan_cells(config), strict=True):
        per_epoch, state, queries = _probe(config, cell)
        seconds_low += per_epoch * plan.epochs[0]
        seconds_high += per_epoch * plan.epochs[1]
        # A trial keeps weights, two moments and its best weights; a final trial's last files are copied to MLflow.
        disk += 4 * state * plan.search_trials + 2 * (5 * state + QUERY_BYTES * queries) * plan.final_trials
    wall = (START_UP + seconds_low / slots, START_UP + CONTENTION * seconds_high / slots)
    return {"seconds": [round(part) for part in wall], "slots": slots, "disk_bytes": disk}


def _probe(config: StudyConfig, cell: Cell) -> tuple[float, int, int]:
    """Seconds per epoch, bytes of the weights, number of test queries."""
    from trainables import datasets
    from trainables.fit import Fit

    # Sealed, and no score is kept: only how long it takes to make one.
    spec = config.spec(cell, "search", config.seed, config.published(cell.loss))
    spec = replace(spec, training=replace(spec.training, steps_per_epoch=PROBE_STEPS))
    data = datasets.load(cell.dataset)
    seconds = 0.0
    for i, split in enumerate(spec.splits):
        fit = Fit(spec, split, data, fold=i)
        steps = config.steps_per_epoch or -(-len(fit.train) // config.batch_size)
        fit.train_epoch(1)  # warms up
        seconds += _timed(lambda fit=fit: fit.train_epoch(2)) * steps / PROBE_STEPS
        seconds += _timed(lambda fit=fit: fit.score(fit.select))
    state = sum(tensor.nbytes for tensor in fit.network.state_dict().values()) * len(spec.splits)
    return seconds, state, len(data.ids(data.test))


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
