"""Check every loss: a training step on the GPU against the CPU, its waits, and bfloat16."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from trainables.contract import TrialSpec
from trainables.distributed.process import own_device, without_gpu
from trainables.inputs.features import load_data
from trainables.inputs.loader import on_device
from trainables.losses.labels import put_labels
from trainables.training.fit import Fit

WAITED = "called a synchronizing CUDA operation"  # torch's words
MOST_WAITS = 3  # of the host for the device, in a training step
# Relative differences that another order of adding up explains, and those of bfloat16's 8 bits.
VALUE_OFF, GRADIENT_OFF, BF16_OFF = 1e-3, 1e-2, 5e-2


class Step(NamedTuple):
    """Hold what one training step gave, on the CPU."""

    value: float
    gradient: Tensor  # of the network, in one row
    embeddings: Tensor
    waits: int | None  # of the host in a second step; None: not on a GPU


@dataclass(frozen=True)
class LossCheck:
    """Hold how a loss trains here; differences are relative, None where there is no GPU."""

    loss: str
    value: float = math.nan
    value_off: float | None = None  # from the CPU's
    gradient_off: float | None = None
    waits: int | None = None
    bf16_value: float = math.nan
    bf16_off: float = math.nan  # of embeddings, from those of float32
    error: str = ""

    @property
    def faults(self) -> list[str]:
        """Return what is wrong."""
        if self.error:
            return [self.error]
        found = [
            (not math.isfinite(self.value), "the loss is not finite"),
            ((self.value_off or 0) > VALUE_OFF, f"its value is {self.value_off} off the CPU's"),
            ((self.gradient_off or 0) > GRADIENT_OFF, f"gradients are {self.gradient_off} off"),
            ((self.waits or 0) > MOST_WAITS, f"the host waits {self.waits} times in a step"),
            (not math.isfinite(self.bf16_value), "the loss is not finite in bfloat16"),
            (not self.bf16_off <= BF16_OFF, f"embeddings in bfloat16 are {self.bf16_off} off"),
        ]
        return [text for wrong, text in found if wrong]


def check_loss(spec: TrialSpec) -> LossCheck:
    """Train one step on the CPU, on this process's device, and there in bfloat16."""
    loss = spec.cell.loss
    try:
        there = take_step(spec)
        half = take_step(replace(spec, model=replace(spec.model, precision="bfloat16")))
        value_off = gradient_off = None
        if own_device().type == "cuda":
            with without_gpu():
                here = take_step(spec)
            value_off = abs(there.value - here.value) / max(abs(here.value), 1e-12)
            gradient_off = _off(there.gradient, here.gradient)
    except Exception as error:  # every loss is reported
        return LossCheck(
            loss, error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        )
    return LossCheck(
        loss,
        value=there.value,
        value_off=value_off,
        gradient_off=gradient_off,
        waits=there.waits,
        bf16_value=half.value,
        bf16_off=_off(half.embeddings, there.embeddings),
    )


def take_step(spec: TrialSpec) -> Step:
    """Train one step, and a second one in which the host's waits are counted."""
    fit = Fit(spec, spec.splits[0], load_data(spec))
    rows = next(iter(fit.batches(1)))
    pending = fit.train.augmented(rows, fit.train.draws((spec.seed, 1)))
    with closing(on_device([pending], fit.device)) as batches:
        images = next(batches)
    targets = put_labels(fit.targets[rows], fit.device)
    fit.network.train()
    value = fit.step(images, targets)
    learned = [part.grad for part in fit.network.parameters() if part.grad is not None]
    gradient = torch.cat([part.detach().float().flatten() for part in learned]).cpu()
    assert fit.step.last
    embeddings = fit.step.last[0].cpu()
    with counted_waits(fit.device) as waits:
        fit.step(images, targets)
    return Step(float(value), gradient, embeddings, len(waits) if _is_gpu(fit.device) else None)


@contextmanager
def counted_waits(device: torch.device) -> Iterator[list[str]]:
    """Yield a list that holds afterwards where the host has waited for the device inside."""
    found: list[str] = []
    if not _is_gpu(device):
        yield found
        return
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode("default")
    found += [f"{each.filename}:{each.lineno}" for each in said if WAITED in str(each.message)]


def _is_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


def _off(ours: Tensor, theirs: Tensor) -> float:
    """Return how far two vectors are apart, relative to the length of the second."""
    return float((ours - theirs).norm() / theirs.norm().clamp(min=1e-12))
