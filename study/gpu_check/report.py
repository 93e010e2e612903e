"""Run the whole GPU check, and write what it found as lines of text and as plain data."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import torch

from study.gpu_check.losses import MOST_WAITS, LossCheck, check_loss
from study.gpu_check.pair import PairCheck, check_pair
from study.gpu_check.speed import (
    CheckpointCost,
    Speed,
    measure_checkpoint,
    measure_speeds,
    usual_work,
)
from study.gpu_check.trials import small_trials
from trainables.distributed.process import device_name, own_device, prepare_process

Found = TypeVar("Found")
Verdict = Literal["ok", "FAIL", "no GPU"]
LOSS_ROW = "{:<34}{:>7}{:>12}{:>11}{:>11}{:>11}"
HEAD = LOSS_ROW.format("loss", "waits", "value", "off CPU", "gradient", "bfloat16")


class Line(NamedTuple):
    """Hold one line of the check's result."""

    verdict: Verdict
    name: str
    text: str


@dataclass
class GpuReport:
    """Hold what the check found; what could not be run is in errors, by name."""

    about: dict[str, str]
    losses: list[LossCheck] = field(default_factory=list)
    pair: PairCheck | None = None
    speeds: list[Speed] = field(default_factory=list)
    checkpoint: CheckpointCost | None = None
    errors: dict[str, str] = field(default_factory=dict)

    @property
    def has_gpu(self) -> bool:
        return self.about["device"] != "CPU"

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON."""
        lines = [line._asdict() for line in self.lines()]
        busy = [{"busy": speed.busy} for speed in self.speeds]
        speeds = [asdict(speed) | more for speed, more in zip(self.speeds, busy, strict=True)]
        return asdict(self) | {"speeds": speeds, "lines": lines}

    def lines(self) -> list[Line]:
        """Return the result, a line per question."""
        found = [*self._loss_lines(), *self._pair_lines(), *self._speed_lines()]
        return found + [Line("FAIL", name, text) for name, text in self.errors.items()]

    def _loss_lines(self) -> Iterator[Line]:
        broken = [f"{each.loss} ({'; '.join(each.faults)})" for each in self.losses if each.faults]
        count = len(self.losses)
        good = f"one step of {count} losses, in float32 and in bfloat16, is finite"
        yield Line("FAIL" if broken else "ok", "losses", ", ".join(broken) or good)
        if not self.has_gpu:
            yield Line("no GPU", "CPU against GPU", "values and gradients of every loss")
            yield Line("no GPU", "waits", "how often the host waits for the GPU in a step")
            return
        values, gradients, waits = (
            max((getattr(each, name) or 0 for each in self.losses), default=0)
            for name in ("value_off", "gradient_off", "waits")
        )
        off = f"values at most {values:.1e} off, gradients at most {gradients:.1e}"
        yield Line("FAIL" if broken else "ok", "CPU against GPU", off)
        most = f"the host waits at most {waits} times in a step; {MOST_WAITS} are allowed"
        yield Line("ok" if waits <= MOST_WAITS else "FAIL", "waits", most)

    def _pair_lines(self) -> Iterator[Line]:
        if self.pair:
            text = "; ".join(self.pair.faults) or f"two train as one, by {self.pair.backend}"
            yield Line("FAIL" if self.pair.faults else "ok", "two workers", text)
        if not self.pair or self.pair.backend != "nccl":
            yield Line("no GPU", "nccl", "a group of two workers needs two GPUs")

    def _speed_lines(self) -> Iterator[Line]:
        for speed in self.speeds:
            work = speed.work
            yield Line(
                "ok",
                speed.precision,
                f"{work.backbone}, {work.batch_size} x {work.image_size} px; images/s: input "
                f"{speed.input_rate:,.0f}, steps {speed.step_rate:,.0f}, both "
                f"{speed.epoch_rate:,.0f}: {speed.busy:.0%} busy",
            )
            if speed.peak_bytes is not None:
                text = f"{speed.peak_bytes / 1e9:.1f} GB at most, of {self.about['memory']}"
                yield Line("ok", f"memory, {speed.precision}", text)
        if self.speeds and not self.has_gpu:
            yield Line("no GPU", "memory", "peak of a step")
        if cost := self.checkpoint:
            size, seconds = f"{cost.bytes / 1e6:.0f} MB", f"{cost.seconds:.2f} s"
            text = f"{size} in {seconds}; training waits {cost.pause:.3f} s"
            yield Line("ok", "checkpoint", text)

    def table(self) -> list[str]:
        """Return a line of text for every loss, below a head."""
        return [HEAD, *(_row(each) for each in self.losses)]


def check_gpu(studies: Path, say: Callable[[str], None] = lambda line: None) -> GpuReport:
    """Run the check; no part of it that fails keeps the others from running.

    studies: the folder to which the checkpoint is written. say: hears what runs now.
    """
    prepare_process()
    report = GpuReport(about())
    say("One step of every loss ...")
    report.losses = [check_loss(spec) for spec in small_trials()]
    parts: Sequence[tuple[str, str, Callable[[], Any]]] = (
        ("pair", "Two workers ...", check_pair),
        ("speeds", "Input path and steps ...", lambda: measure_speeds(usual_work())),
        ("checkpoint", "A checkpoint ...", lambda: measure_checkpoint(usual_work(), studies)),
    )
    for name, title, work in parts:
        say(title)
        try:
            setattr(report, name, work())
        except Exception as error:  # all parts are reported
            report.errors[name] = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
    return report


def about() -> dict[str, str]:
    """Return what the device and the software are; nothing that names the user."""
    memory = "none"
    if own_device().type == "cuda":
        memory = f"{torch.cuda.get_device_properties(own_device()).total_memory / 1e9:.1f} GB"
    return {
        "device": device_name(),
        "devices": str(torch.cuda.device_count()),
        "memory": memory,
        "CPUs": str(os.cpu_count()),
        "system": f"{platform.system()} {platform.machine()}",
        "fairtrial": version("fairtrial"),
        "torch": torch.__version__,
        "CUDA": str(torch.version.cuda),
    }


def _row(each: LossCheck) -> str:
    if each.error:
        return f"{each.loss:<34} {each.error}"
    off = [
        "-" if value is None else f"{value:.1e}"
        for value in (each.value_off, each.gradient_off, each.bf16_off)
    ]
    waits = "-" if each.waits is None else str(each.waits)
    return LOSS_ROW.format(each.loss, waits, f"{each.value:.5g}", *off)
