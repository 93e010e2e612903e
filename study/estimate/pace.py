"""Find how fast trials are: from earlier trials in MLflow, else by timing steps here."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import yaml

from search_spaces import find_card
from study.config.cells import dataset_ref, image_transform
from study.config.plan import StudyPlan, expand
from study.config.study_config import make
from study.driver.folder import tracking_uri
from trainables.contract import Cell
from trainables.datasets.indexing import index
from trainables.distributed.process import own_device, prepare_process
from trainables.networks.weights import NONE

if TYPE_CHECKING:
    from trainables.training.fit import Fit

PROBES, PROBE_SECONDS = 5, 1.0  # calls and seconds of one timing, at most
# Seconds of timing in all; after that a backbone's slowest pace serves for its other cells.
TOTAL_PROBE_SECONDS = 120.0
# Training on an image costs as much as scoring three: forward, and twice that backward.
TRAIN_COST = 3


class StepShape(NamedTuple):
    """Hold what two steps must share to take the same time."""

    dataset: str
    backbone: str
    image_size: int
    batch_size: int
    workers: int
    train: str = "all"


@dataclass(frozen=True)
class Pace:
    """Hold the seconds of one step and of scoring one image, on one worker."""

    step: float
    image: float


@dataclass(frozen=True)
class EarlierPaces:
    """Hold the paces that MLflow knows, and how many trials of which studies they come from."""

    paces: dict[StepShape, Pace]
    trials: int = 0
    studies: tuple[str, ...] = ()


# Images to train on and to select by, of every split.
SplitSizes = list[tuple[int, int]]


def step_shape(plan: StudyPlan, cell: Cell) -> StepShape:
    """Return the shape of the cell's steps."""
    own = plan.for_cell(cell)
    return StepShape(
        cell.dataset,
        cell.backbone,
        image_transform(own, cell.dataset, cell.backbone).image_size,
        own.batch_size,
        own.workers,
        own.train,
    )


def split_sizes(plan: StudyPlan, dataset: str, protocol: str) -> SplitSizes:
    """Return how many images every split of a dataset has."""
    found = index(plan.dataset_ref(dataset))
    return [
        (len(found.ids(split.train)), len(found.ids(split.select)))
        for split in plan.splits(dataset, protocol)
    ]


def epoch_work(plan: StudyPlan, cell: Cell, sizes: SplitSizes) -> tuple[int, int]:
    """Return the steps and scored images of one epoch of all models of a trial; mining scores the
    train images too.
    """
    own = plan.for_cell(cell)
    mined = (own.batches or find_card(cell.loss).batches) == "mined"
    minings = 1 / own.mine_every if mined else 0
    sizes = [(round(own.label_fraction * train), select) for train, select in sizes]
    steps = sum(own.steps_per_epoch or -(-train // own.batch_size) for train, _ in sizes)
    return steps, sum(select + round(minings * train) for train, select in sizes)


def earlier_paces(plan: StudyPlan) -> EarlierPaces:
    """Return the paces of earlier trials; none, and no import of MLflow, without a store."""
    config = plan.config
    if not config.tracking_uri and not (Path(config.studies) / "mlflow.db").exists():
        return EarlierPaces({})
    from analysis.tracking import TrackingError, earlier_trials

    try:
        trials, texts = earlier_trials(tracking_uri(config), backbones=config.backbone)
    except TrackingError:
        return EarlierPaces({})
    plans = {study: known for study, text in texts.items() if (known := _read_plan(text))}
    wanted = {step_shape(plan, cell) for cell in plan.cells}
    sizes = cache(lambda study, dataset, protocol: split_sizes(plans[study], dataset, protocol))

    @cache
    def work(study: str, cell: Cell) -> tuple[StepShape, float]:
        """Return the shape of such a trial's steps, and its epoch counted in scored images."""
        shape = step_shape(plans[study], cell)
        steps, images = epoch_work(plans[study], cell, sizes(study, cell.dataset, cell.protocol))
        return shape, TRAIN_COST * shape.batch_size * steps + images

    found: dict[StepShape, list[float]] = {}
    studies: dict[str, None] = {}
    for trial in trials:
        if trial.study in plans and (shape := work(trial.study, trial.cell)[0]) in wanted:
            found.setdefault(shape, []).append(
                plans[trial.study].config.workers * trial.seconds / work(trial.study, trial.cell)[1]
            )
            studies.setdefault(trial.study)
    paces = {
        shape: Pace(TRAIN_COST * shape.batch_size * median(images), median(images))
        for shape, images in found.items()
    }
    return EarlierPaces(paces, sum(map(len, found.values())), tuple(studies))


def _read_plan(text: str) -> StudyPlan | None:
    """Return None for a config of another version, or of data that are no longer here."""
    try:
        config = make(yaml.safe_load(text))
        for dataset in config.dataset:
            index(dataset_ref(config, dataset))
        return expand(config)
    except (ValueError, TypeError, yaml.YAMLError):
        return None


class Probe:
    """Time each backbone, size and kind of loss once, on one split, within TOTAL_PROBE_SECONDS."""

    def __init__(self, plan: StudyPlan) -> None:
        self.plan, self.began = plan, time.perf_counter()
        self.paces: dict[Any, Pace] = {}

    def pace(self, cell: Cell) -> Pace:
        """Return the pace of a cell, timed unless a similar cell was."""
        own = self.plan.for_cell(cell)
        transform = image_transform(own, cell.dataset, cell.backbone)
        key = (
            cell.backbone,
            cell.embedding_size,
            find_card(cell.loss).kind,
            transform,
            own.batch_size,
            own.pooling,
            own.train,
        )
        if key not in self.paces:
            known = [pace for other, pace in self.paces.items() if other[0] == cell.backbone]
            late = time.perf_counter() - self.began > TOTAL_PROBE_SECONDS
            self.paces[key] = (
                max(known, key=lambda pace: pace.step)
                if known and late
                else _measure(self.plan, cell)
            )
        return self.paces[key]


def _measure(plan: StudyPlan, cell: Cell) -> Pace:
    """Time a trial on pretended images or features: only the time counts, not the score.

    So nothing needs to be fetched, decoded or computed before.
    """
    from study.estimate.pretended import pretended_data
    from trainables.training.fit import Fit

    prepare_process()
    spec = plan.spec(cell, "search", plan.config.seed, plan.published(cell.loss))
    spec = replace(
        spec,
        model=replace(spec.model, weights=NONE),
        training=replace(spec.training, steps_per_epoch=1),
    )
    fit = Fit(spec, spec.splits[0], pretended_data(spec))
    return _time(fit)


def _time(fit: Fit) -> Pace:
    # Train classes: under default the select classes are the test classes.
    few = fit.images(fit.split.train[: max(2, len(fit.split.train) // 10)])
    fit.train_epoch(1)  # warms up
    return Pace(timed(lambda: fit.train_epoch(1)), timed(lambda: fit.score(few)) / len(few))


def timed(work: Callable[[], Any]) -> float:
    """Return the seconds of one call, averaged over several if they are quick.

    On a CPU these are core-seconds, which other work on this machine does not change.
    """
    clock = time.perf_counter if own_device().type == "cuda" else time.process_time
    until, began, calls = time.perf_counter() + PROBE_SECONDS, clock(), 0
    while calls < PROBES and (not calls or time.perf_counter() < until):
        work()
        calls += 1
    return (clock() - began) / calls
