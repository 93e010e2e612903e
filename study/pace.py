"""How fast trials are: from the epochs of earlier trials in MLflow, else from timing a few real steps on this machine."""

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
from study.config import StudyConfig, make
from study.preflight import tracking_uri
from trainables.contract import Cell
from trainables.datasets.catalogue import index
from trainables.process import settle

if TYPE_CHECKING:
    from trainables.fit import Fit

PROBES, PROBE_SECONDS = 5, 1.0  # calls and seconds of one timing, at most
PATIENCE = 120.0  # seconds of timing in all; then a backbone's slowest pace holds for what was not timed of it
BOTH_WAYS = 3  # to train on an image costs what three scored ones do: forward, and twice that back


class Kind(NamedTuple):
    """What makes steps alike."""

    dataset: str
    backbone: str
    image_size: int
    batch_size: int
    workers: int


@dataclass(frozen=True)
class Pace:
    """Seconds of one step, and of scoring one image, if one worker did it all."""

    step: float
    image: float


@dataclass(frozen=True)
class Past:
    """What MLflow knows: a pace for every kind of trial that was run before, from so many trials of these studies."""

    paces: dict[Kind, Pace]
    trials: int = 0
    studies: tuple[str, ...] = ()


NOTHING = Past({})
Sizes = list[tuple[int, int]]  # images to train on and to select by, of every split


def kind_of(config: StudyConfig, cell: Cell) -> Kind:
    own = config.of(cell)
    return Kind(cell.dataset, cell.backbone, own.look(cell.dataset, cell.backbone).image_size, own.batch_size, config.workers)


def split_sizes(config: StudyConfig, dataset: str, protocol: str) -> Sizes:
    found = index(config.origin(dataset))
    return [(len(found.ids(split.train)), len(found.ids(split.select))) for split in config.splits(dataset, protocol)]


def epoch_work(config: StudyConfig, cell: Cell, sizes: Sizes) -> tuple[int, int]:
    """Steps and scored images of one epoch of all models of a trial; to mine is to look at the train images, too."""
    own = config.of(cell)
    looks = 1 / own.mine_every if (own.batches or find_card(cell.loss).batches) == "mined" else 0
    steps = sum(own.steps_per_epoch or -(-train // own.batch_size) for train, _ in sizes)
    return steps, sum(select + round(looks * train) for train, select in sizes)


def past(config: StudyConfig) -> Past:
    """Empty without a store, and quick: MLflow is not even imported then."""
    if not config.tracking_uri and not (Path(config.studies) / "mlflow.db").exists():
        return NOTHING
    from analysis.tracking import TrackingError, earlier_trials

    try:
        trials, texts = earlier_trials(tracking_uri(config), backbones=config.backbone)
    except TrackingError:
        return NOTHING
    configs = {study: known for study, text in texts.items() if (known := _readable(text))}
    wanted = {kind_of(config, cell) for cell in config.cells()}
    sizes = cache(lambda study, dataset, protocol: split_sizes(configs[study], dataset, protocol))

    @cache
    def work(study: str, cell: Cell) -> tuple[Kind, float]:
        """The kind of such a trial, and an epoch of it counted in scored images."""
        kind = kind_of(configs[study], cell)
        steps, images = epoch_work(configs[study], cell, sizes(study, cell.dataset, cell.protocol))
        return kind, BOTH_WAYS * kind.batch_size * steps + images

    found: dict[Kind, list[float]] = {}
    studies: dict[str, None] = {}
    for trial in trials:
        if trial.study in configs and (kind := work(trial.study, trial.cell)[0]) in wanted:
            found.setdefault(kind, []).append(configs[trial.study].workers * trial.seconds / work(trial.study, trial.cell)[1])
            studies.setdefault(trial.study)
    paces = {kind: Pace(BOTH_WAYS * kind.batch_size * median(images), median(images)) for kind, images in found.items()}
    return Past(paces, sum(map(len, found.values())), tuple(studies))


def _readable(text: str) -> StudyConfig | None:
    """None: a config of another version, or of data that are no longer here."""
    try:
        config = make(yaml.safe_load(text))
        for dataset in config.dataset:
            index(config.origin(dataset))
    except (ValueError, TypeError, yaml.YAMLError):
        return None
    return config


class Probe:
    """Times each backbone, size and kind of loss of a study once, with one of its splits, as long as there is patience."""

    def __init__(self, config: StudyConfig) -> None:
        self.config, self.began = config, time.perf_counter()
        self.paces: dict[Any, Pace] = {}

    def pace(self, cell: Cell) -> Pace:
        own = self.config.of(cell)
        look = own.look(cell.dataset, cell.backbone)
        key = (cell.backbone, cell.embedding_size, find_card(cell.loss).kind, look, own.batch_size, own.pooling)
        if key not in self.paces:
            known = [pace for other, pace in self.paces.items() if other[0] == cell.backbone]
            late = time.perf_counter() - self.began > PATIENCE
            self.paces[key] = max(known, key=lambda pace: pace.step) if known and late else _measure(self.config, cell)
        return self.paces[key]


def _measure(config: StudyConfig, cell: Cell) -> Pace:
    from trainables.datasets.pixels import load
    from trainables.fit import Fit

    settle()
    # No score is kept: only how long it takes to make one.
    spec = config.spec(cell, "search", config.seed, config.published(cell.loss))
    spec = replace(spec, training=replace(spec.training, steps_per_epoch=1))
    fit = Fit(spec, spec.splits[0], load(spec.origin, spec.look.cache_size))
    return _time(fit)


def _time(fit: Fit) -> Pace:
    few = fit.images(fit.split.train[: max(2, len(fit.split.train) // 10)])  # under default the others are test classes
    fit.train_epoch(1)  # warms up
    return Pace(_timed(lambda: fit.train_epoch(1)), _timed(lambda: fit.score(few)) / len(few))


def _timed(work: Callable[[], Any]) -> float:
    """Seconds of one call; of several, while they are quick."""
    began, calls = time.perf_counter(), 0
    while calls < PROBES and time.perf_counter() - began < PROBE_SECONDS:
        work()
        calls += 1
    return (time.perf_counter() - began) / calls
