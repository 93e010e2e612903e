"""Measure how fast trials of the usual size are here: input, steps, memory and a checkpoint."""

from __future__ import annotations

import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import torch

from study.gpu_check.trials import ON_CPU, ON_GPU, Workload, timed_trial
from trainables.contract import TrialSpec
from trainables.datasets.pixels import Dataset
from trainables.distributed.gpu_memory import free_memory
from trainables.distributed.process import own_device
from trainables.inputs.loader import on_device
from trainables.losses.labels import put_labels
from trainables.outputs.checkpoints import new_checkpoint
from trainables.outputs.saver import Saver
from trainables.training.fit import Fit
from trainables.training.learner import Learner
from trainables.workers.worker import checkpoint_part

WARM_UP = 3  # steps


@dataclass(frozen=True)
class Speed:
    """Hold images per second: of the input path alone, of steps alone, and of both together."""

    precision: str
    work: Workload
    input_rate: float
    step_rate: float
    epoch_rate: float
    peak_bytes: int | None  # of the device's memory; None: not on a GPU

    @property
    def busy(self) -> float:
        """Return the share of an epoch in which the device trains."""
        return min(1.0, self.epoch_rate / self.step_rate)


@dataclass(frozen=True)
class CheckpointCost:
    """Hold what saving a trial takes: training stands still for `pause` seconds of `seconds`."""

    bytes: int
    pause: float
    seconds: float


def usual_work() -> Workload:
    """Return the workload for this process's device."""
    return ON_GPU if own_device().type == "cuda" else ON_CPU


def measure_speeds(work: Workload) -> list[Speed]:
    """Measure in both precisions."""
    spec, photos = timed_trial(work)
    kinds: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")
    return [
        _measure(replace(spec, model=replace(spec.model, precision=kind)), photos, work)
        for kind in kinds
    ]


def _measure(spec: TrialSpec, photos: Dataset, work: Workload) -> Speed:
    free_memory()
    device = own_device()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    fit = Fit(spec, spec.splits[0], photos)
    rows = list(fit.batches(1))
    numbers, images = fit.train.draws((spec.seed, 1)), sum(map(len, rows))

    def read() -> None:
        deque(on_device((fit.train.augmented(each, numbers) for each in rows), device), maxlen=0)

    with closing(on_device([fit.train.augmented(rows[0], numbers)], device)) as batches:
        batch = next(batches)
    targets = put_labels(fit.targets[rows[0]], device)

    def step(count: int) -> None:
        for _ in range(count):
            fit.step(batch, targets)

    fit.network.train()
    step(WARM_UP)
    read()
    return Speed(
        precision=spec.model.precision,
        work=work,
        input_rate=images / _timed(read, device),
        step_rate=len(rows) * len(rows[0]) / _timed(lambda: step(len(rows)), device),
        epoch_rate=images / _timed(lambda: fit.train_epoch(1), device),
        peak_bytes=torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None,
    )


def _timed(work: Callable[[], Any], device: torch.device) -> float:
    """Return the seconds until the device has done the work."""
    _settle(device)
    began = time.perf_counter()
    work()
    _settle(device)
    return time.perf_counter() - began


def _settle(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure_checkpoint(work: Workload, folder: Path) -> CheckpointCost:
    """Save a trial twice below the folder, or below its nearest parent, and time the second save.

    The first one makes room for the copy in the host's memory.
    """
    spec, photos = timed_trial(replace(work, steps=1))
    learner, saver = Learner(spec, photos), Saver()
    learner.epoch()
    part = checkpoint_part(learner)
    assert part
    there = next(path for path in (folder, *folder.parents) if path.exists())
    with tempfile.TemporaryDirectory(dir=there) as place:
        for _ in range(2):
            saved = new_checkpoint(Path(place))
            _settle(own_device())
            began = time.perf_counter()
            saver.save(saved, part)
            pause = time.perf_counter() - began
            assert saver.thread
            saver.thread.join()
            seconds = time.perf_counter() - began
            if saver.error:
                raise saver.error
        size = sum(path.stat().st_size for path in saved.iterdir())
    return CheckpointCost(size, pause, seconds)
