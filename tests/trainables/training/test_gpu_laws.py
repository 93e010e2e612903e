"""On a pretended GPU every member trains and scores as on the CPU, and the host hardly waits."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import functional_call

from search_spaces import LOSSES
from study.gpu_check.trials import pretended_photos
from tests.support.pretend_gpu import PretendGpu, pretend_gpu
from tests.support.specs import FEW, search, sketches
from trainables.contract import PCA, PIXELS, POOLED, UNTRAINED, Split, TrialSpec
from trainables.inputs.batches import BATCHES
from trainables.losses import BUILDERS
from trainables.metrics.retrieval import LOSS_VALUE, METRICS, POOLED_PREFIX
from trainables.networks.backbones import BACKBONES, POOLINGS
from trainables.networks.network import HeadConfig, build_network
from trainables.outputs.saver import HostCopy
from trainables.training.fit import Fit
from trainables.training.learner import Learner
from trainables.training.optimiser import OPTIMISERS
from trainables.training.step import EpochLosses

MOST_WAITS = 3  # of the host for the device, in a training step
LARGE = 2**20  # bytes
TRAINED = [name for name in BACKBONES if name != PIXELS]
# Those whose result the host cannot know: how many pairs a miner has found.
ASKED = ("nonzero", "boolean mask")


@dataclass
class Seen:
    """Hold what an epoch, its scoring and its state gave, and what the GPU counted."""

    losses: list[float]
    means: dict[str, float]
    state: Any
    waits: list[dict[tuple[str, str], int]]  # of each step but the first
    pageable: list[int]  # bytes of each copy from pageable memory in these steps


@contextmanager
def each_step(gpu: PretendGpu | None, seen: Seen) -> Iterator[None]:
    """Note what the GPU counts from the end of a step to the end of the next."""
    add, last = EpochLosses.add, []

    def noted(self: EpochLosses, loss: Tensor, share: Tensor | None) -> bool:
        if gpu:
            now = (gpu.syncs.copy(), len(gpu.copies))
            if len(self.losses):
                before, first = last[-1]
                seen.waits.append(dict(now[0] - before))
                seen.pageable += [size for kind, size in gpu.copies[first:] if "pageable" in kind]
            last.append(now)
        return add(self, loss, share)

    with mock.patch.object(EpochLosses, "add", noted):
        yield


def on_cpu(part: Any) -> Any:
    """Return a state as a checkpoint holds it: copied to the host without waiting."""
    copy, event = HostCopy().take(part)
    if event:
        event.synchronize()
    return copy


def epochs(
    spec: TrialSpec, gpu: PretendGpu | None = None, *, resumes: bool = False, data: Any = None
) -> Seen:
    """Train and score one epoch; with resumes, another one of a fit that continues its state."""
    seen = Seen([], {}, None, [], [])
    fit = Fit(spec, spec.splits[0], data or sketches())
    assert fit.device.type == ("cuda" if gpu else "cpu")
    with each_step(gpu, seen):
        seen.losses.append(fit.train_epoch(1))
    seen.means = fit.score(fit.select).means
    seen.state = on_cpu(fit.state())
    if resumes:
        again = Fit(spec, spec.splits[0], sketches())
        again.load(seen.state)
        seen.losses.append(again.train_epoch(2))
        seen.state = on_cpu(again.state())
    return seen


def same(ours: Any, theirs: Any) -> bool:
    """Return whether two states are equal, bit for bit."""
    if isinstance(ours, Tensor):
        return torch.equal(ours, theirs)
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    return bool(ours == theirs)


def holds(spec: TrialSpec, *, resumes: bool = False, data: Any = None) -> Seen:
    """Check every law for one trial, and return what the GPU saw. data: in place of drawings."""
    here = epochs(spec, resumes=resumes, data=data)
    with pretend_gpu() as gpu:
        there = epochs(spec, gpu, resumes=resumes, data=data)
        assert there.losses == here.losses
        assert there.means == here.means
        assert same(there.state, here.state)
    for waits in there.waits:
        assert sum(waits.values()) <= MOST_WAITS, waits
        assert {what for what, _ in waits} <= set(ASKED), "the host could know this"
    assert there.waits
    assert max(there.pageable, default=0) <= LARGE
    assert not gpu.refused, "deterministic=true would refuse this"
    return there


def small(loss: str = "proxy_anchor", **options: Any) -> TrialSpec:
    return search(loss, **{"batch_size": 12, "images_per_class": 3, **options})


def with_model(spec: TrialSpec, **model: Any) -> TrialSpec:
    return replace(spec, model=replace(spec.model, **model))


@pytest.mark.parametrize("loss", sorted(BUILDERS))
def test_every_loss_trains_scores_and_continues_as_on_the_cpu(loss):
    holds(small(loss), resumes=loss in FEW)


@pytest.mark.parametrize("backbone", TRAINED)
def test_every_backbone_trains_as_on_the_cpu(backbone):
    """On images of three channels: the pretended GPU cannot repeat one channel when it scores."""
    spec = small(backbone=backbone, batch_size=4, images_per_class=2)
    spec = replace(spec, splits=(Split(train=(0, 1, 2), select=(3, 4)),))
    side = 28 if backbone in ("tiny", "small") else 32
    holds(
        replace(spec, transform=replace(spec.transform, image_size=side)), data=pretended_photos()
    )


@pytest.mark.parametrize("pooling", sorted(POOLINGS))
def test_every_pooling_trains_as_on_the_cpu(pooling):
    holds(with_model(small(), pooling=pooling))


@pytest.mark.parametrize("optimizer", sorted(OPTIMISERS))
def test_every_optimiser_trains_and_continues_as_on_the_cpu(optimizer):
    momentum = 0.9 if OPTIMISERS[optimizer].momentum else 0.0
    spec = small(optimizer=optimizer, momentum=momentum, clip_norm=1.0, clip_value=0.1)
    holds(spec, resumes=True)


@pytest.mark.parametrize("kind", sorted(BATCHES))
def test_every_kind_of_batches_trains_and_continues_as_on_the_cpu(kind):
    """The second epoch of mined batches searches the hardest neighbours on the device."""
    holds(small("contrastive", batches=kind), resumes=True)


@pytest.mark.parametrize("loss", ["contrastive", "multi_similarity", "triplet"])
def test_a_memory_of_earlier_batches_is_filled_and_continued_as_on_the_cpu(loss):
    holds(small(loss, memory=20), resumes=True)


@pytest.mark.parametrize("model", [{"chunk": 5, "pooling": "gap"}, {"head": "mlp"}], ids=str)
def test_chunks_and_other_heads_train_as_on_the_cpu(model):
    holds(with_model(small(), **model))


def test_every_metric_of_both_features_has_the_cpus_value():
    names = [name.replace("_at_K", "_at_2") for name in METRICS]
    pooled = [f"{POOLED_PREFIX}{name}" for name in names if name != LOSS_VALUE]
    spec = small("contrastive", metrics=(*names, *pooled))
    assert set(holds(spec).means) == {*names, *pooled}


@pytest.mark.parametrize("loss", [UNTRAINED, PCA, POOLED])
def test_every_baseline_is_scored_as_on_the_cpu(loss):
    spec = replace(search(loss, epochs=0), rule="untrained")
    here = Fit(spec, spec.splits[0], sketches())
    with pretend_gpu():
        there = Fit(spec, spec.splits[0], sketches())
        assert there.score(there.select).means == here.score(here.select).means


def test_folds_are_read_joined_and_kept_as_on_the_cpu():
    splits = (
        Split(train=(0, 1, 2), select=(12, 13), test=(100, 101)),
        Split(train=(3, 4, 5), select=(14, 15), test=(100, 101)),
    )
    spec = replace(small(epochs=1, metrics=("map_at_r", "nmi")), phase="final", splits=splits)
    spec = replace(spec, outputs=replace(spec.outputs, last=True, embeddings=True))

    def read() -> Any:
        learner = Learner(spec, sketches())
        learner.epoch()
        return learner.read_test(), learner.artifacts()

    here = read()
    with pretend_gpu():
        there = read()
    assert there[0] == here[0]
    for ours, theirs in zip(*(each[1]["folds"].values() for each in (there, here)), strict=True):
        assert ours["queries"] == theirs["queries"]
        assert same(ours["weights"], theirs["weights"])
        for name, rows in theirs["embeddings"].items():
            assert np.array_equal(ours["embeddings"][name], rows)
    assert there[1]["concatenated"] == here[1]["concatenated"]


@contextmanager
def fake_cuda() -> Iterator[None]:
    """Let autocast("cuda") act on tensors that have a type and a shape, and no values."""
    with (
        mock.patch("torch.cuda.is_available", return_value=True),
        mock.patch("torch.cuda.is_bf16_supported", return_value=True),
        mock.patch("torch.cuda.amp.common.amp_definitely_not_available", return_value=False),
        FakeTensorMode(),
    ):
        yield


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("backbone", TRAINED)
def test_a_trunk_computes_in_bfloat16_if_asked_and_its_embedding_is_float32(backbone, bf16):
    # Batch norm that learns would ask a real CUDA for its kernel.
    options = {"head": HeadConfig(8), "pooling": "gap", "weights": None, "seed": 0}
    network = build_network(backbone, 3, freeze_bn=True, bf16=bf16, **options)
    found: dict[str, set[torch.dtype]] = {"trunk": set(), "head": set()}
    for part, kinds in {"trunk": torch.nn.Conv2d, "head": torch.nn.Linear}.items():
        for module in network.get_submodule(part).modules():
            if isinstance(module, kinds):
                module.register_forward_hook(
                    lambda _, __, out, part=part: found[part].add(out.dtype)
                )
    parts = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    with fake_cuda():
        there = {
            name: torch.empty_strided(part.shape, part.stride(), dtype=part.dtype, device="cuda")
            for name, part in parts.items()
        }
        images = torch.empty(2, 3, 64, 64, dtype=torch.uint8, device="cuda")
        assert functional_call(network, there, (images,)).dtype == torch.float32
    assert found == {"trunk": {torch.bfloat16 if bf16 else torch.float32}, "head": {torch.float32}}


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_loss_on_a_bfloat16_trunk_is_computed_in_float32_and_is_finite(loss):
    """On the CPU, whose autocast does what a GPU's does."""
    spec = with_model(small(loss, steps_per_epoch=1), precision="bfloat16")
    fit, kinds = Fit(spec, spec.splits[0], sketches()), set[torch.dtype]()
    forward = fit.objective.forward

    def noted(embeddings: Tensor, labels: Tensor) -> Tensor:
        value: Tensor = forward(embeddings, labels)
        kinds.update({embeddings.dtype, value.dtype})
        return value

    fit.objective.forward = noted  # type: ignore[method-assign]
    assert np.isfinite(fit.train_epoch(1))
    assert kinds == {torch.float32}
