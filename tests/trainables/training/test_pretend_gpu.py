"""The pretended GPU follows CUDA's rules, and notices bugs that only a GPU would show."""

import threading
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.support.pretend_gpu import DeviceMismatch, GpuTensor, PretendGpu, pretend_gpu
from tests.support.specs import search, sketches
from trainables.losses.proxy_formulas import ThesisLoss1
from trainables.networks import network
from trainables.training import step
from trainables.training.fit import Fit


def on_gpu(*rows: float) -> Tensor:
    return torch.tensor(rows).to("cuda:0")


def test_values_and_gradients_are_the_cpus():
    def value(x: Tensor) -> Tensor:
        return (x @ x.T).logsumexp(dim=1).sum()

    torch.manual_seed(0)
    rows = torch.randn(4, 3)
    ours = rows.clone().requires_grad_()
    value(ours).backward()
    with pretend_gpu():
        theirs = rows.to("cuda:0").requires_grad_()
        value(theirs).backward()
        assert theirs.grad.device == torch.device("cuda", 0)
        assert torch.equal(theirs.grad.cpu(), ours.grad)


SYNCS: dict[str, tuple[Callable[[Tensor], object], int]] = {
    "arithmetic": (lambda x: (x * 2 + 1).sum(), 0),
    "item": (lambda x: x.sum().item(), 1),
    "a truth value": (lambda x: bool(x.any()), 1),
    "tolist": (lambda x: x.tolist(), 1),
    "back to the host": (lambda x: x.cpu(), 1),
    "nonzero": (lambda x: torch.where(x > 1), 1),
    "a boolean index": (lambda x: x[x > 1], 1),
    "a masked fill": (lambda x: x.masked_fill(x > 1, 0.0), 0),
    "an index of the device": (lambda x: x[torch.arange(2, device=x.device)], 0),
    "an index of the host": (lambda x: x[np.array([0, 1])], 1),
    "a pageable copy": (lambda x: torch.ones(3).to(x.device, non_blocking=True), 1),
    "a pinned copy": (lambda x: torch.ones(3).pin_memory().to(x.device, non_blocking=True), 0),
    "a pinned copy that blocks": (lambda x: torch.ones(3).pin_memory().to(x.device), 1),
}


@pytest.mark.parametrize("name", SYNCS)
def test_what_makes_the_host_wait_is_counted(name):
    work, expected = SYNCS[name]
    with pretend_gpu() as gpu:
        x = on_gpu(1.0, 2.0, 3.0)
        gpu.syncs.clear()
        work(x)
    assert sum(gpu.syncs.values()) == expected, gpu.syncs


def test_a_thread_has_the_same_gpu():
    found = []
    with pretend_gpu():
        thread = threading.Thread(target=lambda: found.append(on_gpu(1.0)))
        thread.start()
        thread.join()
    assert isinstance(found[0], GpuTensor)


def test_a_copy_on_a_side_stream_is_there_once_it_was_waited_for():
    with pretend_gpu():
        source, stream = torch.ones(3).pin_memory(), torch.cuda.Stream()
        with torch.cuda.stream(stream):
            target, done = source.to("cuda:0", non_blocking=True), torch.cuda.Event()
            done.record()
        assert target.isnan().all()
        torch.cuda.current_stream().wait_event(done)
        assert target.tolist() == [1.0] * 3
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)
        source.zero_()  # too early
        stream.synchronize()
        assert target.tolist() == [0.0] * 3


def test_after_it_has_ended_the_process_has_no_gpu():
    with pretend_gpu():
        left = on_gpu(1.0)
    assert not torch.cuda.is_available()
    with pytest.raises(RuntimeError, match="has ended"):
        left + 1


# Nine bugs that a CPU does not show. Each is planted in a fit, which then trains.


def targets_on_the_cpu(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("trainables.training.fit.put_labels", lambda host, device: host)


def loss_on_the_cpu(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    fit.objective.cpu()


def mask_on_the_cpu(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    eye = torch.eye(len(fit.split.train))
    patch.setattr(ThesisLoss1, "similarity", lambda self, x, w, **_: (w @ w.T) * eye)


def constants_on_the_cpu(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    head = fit.network.head
    head.forward = lambda x: F.linear(x, head.weight) + torch.zeros(head.weight.shape[0])


def rows_by_an_index_of_the_gpu(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    labels = torch.from_numpy(fit.train.labels)
    inner = fit.step.objective.forward
    fit.objective.forward = lambda rows, targets: inner(rows, targets) + labels[targets].sum() * 0


def optimiser_that_keeps_its_moments_on_the_cpu(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    for group in fit.optimizer.param_groups:
        for weight in group["params"]:
            fit.optimizer.state[weight] = {
                "step": torch.zeros((), device=weight.device),
                "exp_avg": torch.zeros(weight.shape),
                "exp_avg_sq": torch.zeros(weight.shape),
            }


def loss_read_at_every_step(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    patch.setitem(step.LOOK_EVERY, "cuda", 1)


def batch_copied_from_pageable_memory(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    inner = fit.step.network.forward
    large = torch.zeros(2**18 + 1)
    fit.network.forward = lambda images: inner(images) + large.to(images.device).sum()


def pooling_that_deterministic_mode_refuses(fit: Fit, patch: pytest.MonkeyPatch) -> None:
    fit.network.pool = lambda x: F.adaptive_avg_pool2d(x, network.SIDE).flatten(1)


# Each bug, and what notices it.
PLANTED = {
    targets_on_the_cpu: "devices",
    loss_on_the_cpu: "devices",
    mask_on_the_cpu: "devices",
    constants_on_the_cpu: "devices",
    rows_by_an_index_of_the_gpu: "devices",
    optimiser_that_keeps_its_moments_on_the_cpu: "devices",
    loss_read_at_every_step: "syncs",
    batch_copied_from_pageable_memory: "copies",
    pooling_that_deterministic_mode_refuses: "refused",
}


def trained(plant: Callable[[Fit, pytest.MonkeyPatch], None] | None = None) -> PretendGpu:
    """Return what the pretended GPU counted in ten steps of a fit with this bug."""
    spec = search("thesis_loss_1", steps_per_epoch=10, batch_size=6, images_per_class=3)
    spec = replace(spec, model=replace(spec.model, pooling="gap"))
    if plant is pooling_that_deterministic_mode_refuses:
        spec = replace(spec, model=replace(spec.model, pooling="grid"))
    with pretend_gpu() as gpu, pytest.MonkeyPatch.context() as patch:
        fit = Fit(spec, spec.splits[0], sketches())
        if plant:
            plant(fit, patch)
        gpu.syncs.clear()
        gpu.ops.clear()
        gpu.copies.clear()
        fit.train_epoch(1)
    return gpu


def complaints(gpu: PretendGpu, healthy: PretendGpu) -> dict[str, bool]:
    large = [size for kind, size in gpu.copies if "pageable" in kind and size > 2**20]
    return {
        "syncs": sum(gpu.syncs.values()) >= sum(healthy.syncs.values()) + 9,
        "copies": bool(large),
        "refused": bool(gpu.refused),
    }


@pytest.fixture(scope="module")
def healthy() -> PretendGpu:
    return trained()


def test_a_fit_without_planted_bugs_is_healthy(healthy):
    assert not any(complaints(healthy, healthy).values())


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_noticed(plant, healthy):
    if PLANTED[plant] == "devices":
        with pytest.raises(DeviceMismatch):
            trained(plant)
    else:
        assert complaints(trained(plant), healthy)[PLANTED[plant]]
