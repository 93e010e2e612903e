"""A step of every loss is compared between CPU and GPU, and what is wrong is named."""

from dataclasses import replace

import pytest
import torch

from search_spaces import LOSSES
from study.gpu_check.losses import LossCheck, check_loss, counted_waits
from study.gpu_check.trials import small_trials
from tests.support.pretend_gpu import pretend_gpu
from tests.support.specs import FEW
from trainables.losses import Objective

GOOD = LossCheck("triplet", 1.0, 0.0, 0.0, 1, 1.0, 0.01)


def test_every_loss_has_a_trial():
    assert sorted(spec.cell.loss for spec in small_trials()) == sorted(LOSSES)


@pytest.mark.parametrize("spec", small_trials(FEW[:4]), ids=lambda spec: spec.cell.loss)
def test_a_loss_without_a_gpu_is_only_checked_to_be_finite(spec):
    found = check_loss(spec)
    assert not found.faults
    assert (found.value_off, found.gradient_off, found.waits) == (None, None, None)
    assert 0 < found.bf16_off < 0.05


@pytest.mark.parametrize("spec", small_trials(FEW[:4]), ids=lambda spec: spec.cell.loss)
def test_a_loss_on_a_gpu_is_compared_with_the_cpu_and_its_waits_are_counted(spec):
    with pretend_gpu():
        found = check_loss(spec)
    assert not found.faults
    assert (found.value_off, found.gradient_off) == (0, 0)
    assert found.waits is not None
    assert found.waits <= 2


def test_a_loss_that_is_another_on_the_gpu_or_that_breaks_there_is_named(monkeypatch):
    (spec,) = small_trials(("triplet",))
    forward = Objective.forward

    def other(self, embeddings, labels):
        value = forward(self, embeddings, labels)
        return value * 1.01 if embeddings.device.type == "cuda" else value

    monkeypatch.setattr(Objective, "forward", other)
    with pretend_gpu():
        assert any("off the CPU's" in fault for fault in check_loss(spec).faults)

    def broken(self, embeddings, labels):
        raise RuntimeError("no\nkernel")

    monkeypatch.setattr(Objective, "forward", broken)
    assert check_loss(spec).faults == ["RuntimeError: no kernel"]


@pytest.mark.parametrize(
    "change",
    [
        {"value": float("nan")},
        {"value_off": 0.1},
        {"gradient_off": 0.1},
        {"waits": 4},
        {"bf16_value": float("inf")},
        {"bf16_off": float("nan")},
    ],
    ids=str,
)
def test_each_fault_is_found(change):
    assert not GOOD.faults
    assert len(replace(GOOD, **change).faults) == 1


def test_waits_are_those_that_torch_warns_of():
    device = torch.device("cuda", 0)
    with pretend_gpu():
        x = torch.ones(3).pin_memory().to(device, non_blocking=True)
        with counted_waits(device) as waits:
            x.sum().item()
            x + 1
        x.sum().item()
    assert len(waits) == 1
