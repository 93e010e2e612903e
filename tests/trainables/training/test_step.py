"""A step that lacks memory once is the same step when it is tried again."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.support.specs import FEW, search, sketches
from trainables.distributed.team import Team
from trainables.training.fit import Fit

# Batch norm that learns, and losses that draw, that have weights or that remember batches.
CASES: list[tuple[str, dict[str, Any]]] = [
    *((loss, {}) for loss in FEW),
    ("contrastive", {"backbone": "resnet18"}),
    ("contrastive", {"memory": 40}),
]


def small_once(fit: Fit, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let the memory be too small in the second step, after the loss has seen the batch."""
    forward, calls = fit.objective.forward, list[int]()

    def tried(embeddings: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = forward(embeddings, labels)
        calls.append(len(calls))
        if len(calls) == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return value

    monkeypatch.setattr(fit.objective, "forward", tried)
    return calls


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


@pytest.mark.parametrize(("loss", "options"), CASES, ids=str)
def test_a_step_that_lacked_memory_once_ends_as_if_nothing_had_happened(loss, options, monkeypatch):
    spec = search(loss, steps_per_epoch=3, **options)
    plain, disturbed = (Fit(spec, spec.splits[0], sketches()) for _ in range(2))
    calls = small_once(disturbed, monkeypatch)
    assert disturbed.train_epoch(1) == plain.train_epoch(1)
    assert len(calls) == 4
    ours, theirs = disturbed.state(), plain.state()
    for state in (ours, theirs):  # counts passes, which no number depends on
        for name in [each for each in state["network"] if each.endswith("num_batches_tracked")]:
            del state["network"][name]
    assert same(ours, theirs)


def test_a_step_that_always_lacks_memory_says_so_after_two_tries(monkeypatch):
    spec, tries = search(), []
    fit = Fit(spec, spec.splits[0], sketches())

    def never(*_: object) -> None:
        tries.append(1)
        raise RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED")

    monkeypatch.setattr(fit.objective, "forward", never)
    with pytest.raises(RuntimeError, match="ALLOC_FAILED"):
        fit.train_epoch(1)
    assert len(tries) == 2


def test_a_step_that_others_wait_for_is_not_tried_alone(monkeypatch):
    spec = search()
    fit = Fit(spec, spec.splits[0], sketches())
    fit.step.team, tries = Team(0, 2), []

    def never(*_: object) -> None:
        tries.append(1)
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(fit.step, "network", never)
    with pytest.raises(torch.OutOfMemoryError):
        fit.step(torch.zeros(2), torch.zeros(2))
    assert len(tries) == 1


@pytest.mark.parametrize(("tf32", "convolutions"), [(False, "ieee"), (True, "tf32")])
def test_a_trials_convolutions_round_to_tf32_only_if_its_spec_says_so(tf32, convolutions):
    torch.backends.cudnn.allow_tf32 = not tf32  # as another trial left it; torch's default is True
    spec = search()
    Fit(replace(spec, model=replace(spec.model, tf32=tf32)), spec.splits[0], sketches())
    assert torch.backends.cudnn.conv.fp32_precision == convolutions


@pytest.mark.parametrize(("loss", "wanted"), [("contrastive", True), ("contrastive", False)])
def test_a_trunk_is_compiled_only_if_the_spec_says_so(loss, wanted, monkeypatch):
    compiled: list[torch.nn.Module] = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda module: compiled.append(module))
    spec = search(loss)
    fit = Fit(replace(spec, model=replace(spec.model, compile=wanted)), spec.splits[0], sketches())
    assert compiled == [fit.network.trunk] * wanted


@pytest.mark.slow
def test_a_compiled_trunk_trains_like_a_plain_one_and_its_state_has_the_same_names():
    spec = search("contrastive", steps_per_epoch=2)
    fast = replace(spec, model=replace(spec.model, compile=True))
    plain, compiled = (Fit(each, spec.splits[0], sketches()) for each in (spec, fast))
    assert compiled.train_epoch(1) == pytest.approx(plain.train_epoch(1), rel=1e-4)
    assert compiled.state()["network"].keys() == plain.state()["network"].keys()
    ours, theirs = (fit.score(fit.select).means for fit in (compiled, plain))
    assert ours == pytest.approx(theirs, abs=0.02)
