"""Two and four workers give what one gives: the same processes for every loss."""

import math
import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing import start_processes
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from search_spaces import LOSSES
from tests.support.pretend_gpu import pretend_gpu
from tests.support.specs import search, sketches
from trainables.distributed.gather import gather
from trainables.distributed.team import ALONE, Team
from trainables.losses import BUILDERS, Objective
from trainables.networks.chunks import embed_in_chunks
from trainables.training.fit import EMBEDDING, Fit
from trainables.training.step import EpochLosses

NAMES = sorted(BUILDERS)
WORLDS = (2, 4)
CLASSES, FEATURES, SIZE = 12, 7, 5
# Which classes are in a global batch; a rank's part may lack what the whole has.
GLOBAL_BATCHES = {
    "classes on one rank each": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    "classes across ranks": [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5],
    "unequal": [0, 0, 0, 0, 1, 5, 1, 0, 2, 2, 3, 0],
    "triplets": [0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 0],
    "one class": [4] * 12,
    "all alone": list(range(12)),
    "parts that differ by a row": [0, 1, 2, 0, 1, 2, 3, 3, 3, 0, 0],
}
WHOLE = "parts that differ by a row"  # of the batch that is also embedded in chunks
# Losses without and with weights of their own, and each kind of batch.
FITTED = ["contrastive", "margin", "proxy_anchor", "triplet_p_norm"]


class Chunked(nn.Linear):
    """A layer that embeds its rows in chunks of this size, if there is one."""

    chunk = 0

    def forward(self, rows: Tensor) -> Tensor:
        return (
            embed_in_chunks(super().forward, rows, self.chunk)
            if self.chunk
            else super().forward(rows)
        )


class Ranks:
    """Hold the same network and images on every rank, and compute gathered losses through DDP."""

    def __init__(self, rank: int, world: int) -> None:
        torch.manual_seed(0)
        self.rank, self.world = rank, world
        self.images = torch.randn(12, FEATURES, dtype=torch.float64)
        self.network = Chunked(FEATURES, SIZE).double()
        self.start = {key: value.clone() for key, value in self.network.state_dict().items()}
        self.parallel = DistributedDataParallel(self.network) if world > 1 else self.network

    def objective(self, loss: str) -> Objective:
        """Return a new loss, and reset the network to its start."""
        self.network.load_state_dict(self.start)
        torch.manual_seed(1)
        return BUILDERS[loss](CLASSES, SIZE, **LOSSES[loss].defaults).double()

    def backward(self, loss: str, objective: Objective, labels: list[int]) -> Tensor:
        team, targets = Team(self.rank, self.world), torch.tensor(labels)
        rows = torch.from_numpy(team.part(np.arange(len(labels))))
        embeddings = gather(self.parallel(self.images[rows]), team, len(labels))
        value = objective(
            F.normalize(embeddings) if LOSSES[loss].normalize else embeddings, targets
        )
        value.backward()
        return value.detach()

    def one_step(self, loss: str, labels: list[int], *, chunk: int = 0) -> dict[str, Any]:
        """Return loss and gradients in float64, as Fit gets them."""
        objective, self.network.chunk = self.objective(loss), chunk
        self.network.zero_grad()
        value = self.backward(loss, objective, labels)
        return {
            "value": value.item(),
            "backbone": [param.grad.clone() for param in self.network.parameters()],
            "loss": [param.grad for param in objective.parameters()],
        }

    def five_steps(self, loss: str) -> dict[str, Any]:
        """Return the weights after five steps of Adam, one of them on a batch of one class."""
        objective, self.network.chunk = self.objective(loss), 0
        groups = [
            {"params": list(self.network.parameters())},
            {"params": list(objective.parameters()), "lr": objective.weights_lr or 0},
        ]
        optimizer = torch.optim.AdamW([group for group in groups if group["params"]], lr=1e-2)
        for labels in (
            "classes across ranks",
            "triplets",
            "one class",
            "unequal",
            "classes on one rank each",
        ):
            optimizer.zero_grad()
            self.backward(loss, objective, GLOBAL_BATCHES[labels])
            optimizer.step()
        return {
            "backbone": [param.detach().clone() for param in self.network.parameters()],
            "loss": [value.double() for value in objective.state_dict().values()],
        }


def fitted(loss: str, team: Team, *, chunk: int = 0) -> dict[str, Any]:
    """Return what a Fit holds after one epoch of three steps.

    Plain steps: Adam divides by the size of a gradient, so rounding in a tiny one turns its step.
    """
    spec = search(loss, steps_per_epoch=3, optimizer="sgd", learning_rate=0.1)
    spec = replace(spec, model=replace(spec.model, chunk=chunk))
    fit = Fit(spec, spec.splits[0], sketches(), team=team)
    value = fit.train_epoch(1)
    return {
        "value": value,
        "backbone": list(fit.network.state_dict().values()),
        "loss": [value.float() for value in fit.objective.state_dict().values()],
    }


def rounded(team: Team) -> list[Tensor]:
    """Return the loss's weights and their moments after steps that each rank rounds differently, as
    GPUs do.
    """
    spec = search("proxy_anchor", steps_per_epoch=3)
    fit = Fit(spec, spec.splits[0], sketches(), team=team)
    weights = list(fit.objective.parameters())
    for weight in weights:
        weight.register_hook(lambda gradient: gradient * (1 + 0.01 * team.rank))
    fit.train_epoch(1)
    moments = [fit.optimizer.state[weight] for weight in weights]
    return [
        *(weight.detach() for weight in weights),
        *(each[name] for each in moments for name in ("exp_avg", "exp_avg_sq")),
    ]


def normed(team: Team) -> dict[str, Any]:
    """Train a network with batch norm that learns, and embed by all ranks and by one alone."""
    spec = search("contrastive", backbone="resnet18", steps_per_epoch=2)
    fit = Fit(spec, spec.splits[0], sketches(), team=team)
    fit.train_epoch(1)
    saved = Fit(spec, spec.splits[0], sketches())
    saved.network.load_state_dict(fit.state()["network"])
    return {
        "statistics": [value.clone() for value in fit.network.buffers()],
        "embedded": fit.embed(fit.select, {EMBEDDING})[EMBEDDING].clone(),
        "saved": saved.embed(saved.select, {EMBEDDING})[EMBEDDING].clone(),
    }


def judged(team: Team) -> list[Any]:
    """Judge losses of which one is not finite on the last rank only."""
    losses = EpochLosses(team)
    last = math.nan if team.rank == team.world - 1 else 2.0
    return [losses.add(torch.tensor(value), None) for value in (1.0, last)] + [losses.mean(2)]


def embedded(team: Team) -> Tensor:
    """Embed three images, fewer than there are ranks."""
    spec = search("contrastive")
    fit = Fit(spec, spec.splits[0], sketches(), team=team)
    fit.select.ids = fit.select.ids[:3]
    return fit.embed(fit.select, {EMBEDDING})[EMBEDDING].clone()


def pretended(team: Team) -> dict[str, Any]:
    """Return what a Fit holds whose ranks have a pretended GPU each."""
    with pretend_gpu() as gpu:
        found = fitted("proxy_anchor", team)
        assert any(name.startswith("c10d::") for name in gpu.ops) or team.world == 1
        return {
            "value": found["value"],
            "backbone": [value.cpu() for value in found["backbone"]],
            "loss": [value.cpu() for value in found["loss"]],
        }


def everything(rank: int, world: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    ranks = Ranks(rank, world)
    for loss in NAMES:
        for name, labels in GLOBAL_BATCHES.items():
            results[f"{loss} {name}"] = ranks.one_step(loss, labels)
        results[f"{loss} in chunks"] = ranks.one_step(loss, GLOBAL_BATCHES[WHOLE], chunk=2)
        results[f"{loss} five"] = ranks.five_steps(loss)
    for loss in FITTED:
        results[f"{loss} fit"] = fitted(loss, Team(rank, world))
        results[f"{loss} fit in chunks"] = fitted(loss, Team(rank, world), chunk=4)
        results[f"{loss} own"] = fitted(loss, ALONE)  # as when folds are divided between workers
    results["pretended"] = pretended(Team(rank, world))
    results["rounded"] = rounded(Team(rank, world))
    results["normed"] = normed(Team(rank, world))
    results["judged"] = judged(Team(rank, world))
    results["embedded"] = embedded(Team(rank, world))
    return results


def worker(rank: int, world: int, folder: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{folder}/meeting{world}"
    dist.init_process_group(
        "gloo", init_method=meeting, rank=rank, world_size=world, timeout=timedelta(seconds=240)
    )
    torch.save(everything(rank, world), Path(folder) / f"{world}-{rank}.pt")
    dist.destroy_process_group()


Runs = dict[int, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """Return what one process found, and what each of two and of four found."""
    folder = tmp_path_factory.mktemp("ranks")
    # The imports are most of the time: a server that has them forks all ranks. (This process
    # cannot: it has run autograd.)
    multiprocessing.set_forkserver_preload(
        ["trainables.training.fit", "torch._dynamo", "torch._inductor"]
    )
    teams = [
        start_processes(
            worker, args=(world, str(folder)), nprocs=world, join=False, start_method="forkserver"
        )
        for world in WORLDS
    ]
    try:
        found: Runs = {1: [everything(0, 1)]}
        for team in teams:
            while not team.join(timeout=120):
                pass
        yield found | {
            world: [
                torch.load(folder / f"{world}-{rank}.pt", weights_only=True)
                for rank in range(world)
            ]
            for world in WORLDS
        }
    finally:
        for process in [process for team in teams for process in team.processes]:
            process.kill()


def largest_difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Compare relative to the largest number; values all below 1e-6 are rounding of zeros."""
    pairs = list(zip(ours, theirs, strict=True))
    return max(
        (((a - b).abs().max() / b.abs().max().clamp(min=1e-6)).item() for a, b in pairs),
        default=0.0,
    )


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("labels", GLOBAL_BATCHES)
@pytest.mark.parametrize("loss", NAMES)
def test_ranks_give_the_loss_and_the_gradients_of_one(runs, loss, labels, world):
    (alone,) = runs[1]
    one = alone[f"{loss} {labels}"]
    for rank in runs[world]:
        many = rank[f"{loss} {labels}"]
        assert many["value"] == pytest.approx(one["value"], rel=1e-9)
        assert largest_difference(many["backbone"], one["backbone"]) < 1e-9
        assert largest_difference(many["loss"], one["loss"]) < 1e-9


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("loss", NAMES)
def test_ranks_hold_the_weights_of_one_after_five_steps(runs, loss, world):
    (alone,) = runs[1]
    one = alone[f"{loss} five"]
    for rank in runs[world]:
        many = rank[f"{loss} five"]
        assert largest_difference(many["backbone"], one["backbone"]) < 1e-9
        assert largest_difference(many["loss"], one["loss"]) < 1e-9


@pytest.mark.parametrize("loss", NAMES)
def test_the_compared_gradients_are_not_nothing(runs, loss):
    (alone,) = runs[1]
    some = (
        ("triplets",) if LOSSES[loss].batches == "triplets" else ("classes across ranks", "unequal")
    )
    assert all(alone[f"{loss} {labels}"]["value"] > 0 for labels in some)
    for grads in zip(
        *(
            alone[f"{loss} {labels}"]["backbone"] + alone[f"{loss} {labels}"]["loss"]
            for labels in some
        ),
        strict=True,
    ):
        # As many pulls as pushes leave a boundary where it is.
        assert max(grad.abs().max() for grad in grads) > 1e-6
    assert bool(alone[f"{loss} unequal"]["loss"]) == ("weights_lr" in LOSSES[loss].params)


# The mean of whole triplets' means is their mean: only mining couples these two.
@pytest.mark.parametrize("loss", [loss for loss in NAMES if LOSSES[loss].batches != "triplets"])
def test_only_a_loss_that_couples_its_samples_needs_the_whole_batch(loss):
    """A loss that couples samples needs gathered rows: the mean of two halves is not its loss."""
    ranks, labels = Ranks(0, 1), torch.tensor(GLOBAL_BATCHES["unequal"])
    objective = ranks.objective(loss).eval()
    with torch.no_grad():
        embeddings = ranks.network(ranks.images)
        embeddings = F.normalize(embeddings) if LOSSES[loss].normalize else embeddings
        whole = objective(embeddings, labels).item()
        halves = [
            objective(embeddings[rows], labels[rows]).item() for rows in (slice(0, 6), slice(6, 12))
        ]
    assert (abs(sum(halves) / 2 - whole) > 1e-3 * whole) == LOSSES[loss].couples


@pytest.mark.parametrize("loss", FITTED)
def test_a_fit_on_two_ranks_has_the_weights_of_one_after_three_steps(runs, loss):
    (alone,) = runs[1]
    one = alone[f"{loss} fit"]
    for rank in runs[2]:
        two = rank[f"{loss} fit"]
        assert two["value"] == pytest.approx(one["value"], rel=1e-5)
        for part in ("backbone", "loss"):
            for ours, theirs in zip(two[part], one[part], strict=True):
                assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("loss", FITTED)
def test_the_ranks_of_a_fit_hold_exactly_the_same_weights(runs, loss):
    first, second = runs[2]
    for part in ("backbone", "loss"):
        ours, theirs = first[f"{loss} fit"][part], second[f"{loss} fit"][part]
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("world", [1, *WORLDS])
def test_ranks_with_a_gpu_each_have_the_weights_of_ranks_on_cpus(runs, world):
    for rank in runs[world]:
        there, here = rank["pretended"], rank["proxy_anchor fit"]
        assert there["value"] == here["value"]
        for part in ("backbone", "loss"):
            assert all(map(torch.equal, there[part], here[part]))


@pytest.mark.parametrize("loss", FITTED)
def test_a_fit_of_its_own_is_untouched_by_the_other_ranks(runs, loss):
    (alone,) = runs[1]
    for rank in runs[2]:
        assert rank[f"{loss} own"]["value"] == alone[f"{loss} own"]["value"]
        assert all(
            torch.equal(a, b)
            for a, b in zip(
                rank[f"{loss} own"]["backbone"], alone[f"{loss} own"]["backbone"], strict=True
            )
        )


@pytest.mark.parametrize("world", [1, *WORLDS])
@pytest.mark.parametrize("loss", NAMES)
def test_a_batch_in_chunks_gives_the_loss_and_the_gradients_of_a_whole_one(runs, loss, world):
    (alone,) = runs[1]
    one = alone[f"{loss} {WHOLE}"]
    for rank in runs[world]:
        chunked = rank[f"{loss} in chunks"]
        assert chunked["value"] == pytest.approx(one["value"], rel=1e-9)
        assert largest_difference(chunked["backbone"], one["backbone"]) < 1e-9
        assert largest_difference(chunked["loss"], one["loss"]) < 1e-9


@pytest.mark.parametrize("world", [1, *WORLDS])
@pytest.mark.parametrize("loss", FITTED)
def test_a_fit_in_chunks_has_the_weights_of_a_fit_of_whole_batches(runs, loss, world):
    (alone,) = runs[1]
    one = alone[f"{loss} fit"]
    for rank in runs[world]:
        chunked = rank[f"{loss} fit in chunks"]
        assert chunked["value"] == pytest.approx(one["value"], rel=1e-5)
        for part in ("backbone", "loss"):
            for ours, theirs in zip(chunked[part], one[part], strict=True):
                assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("world", WORLDS)
def test_weights_of_a_loss_and_their_moments_are_equal_on_all_ranks_however_these_round(
    runs, world
):
    first, *others = (rank["rounded"] for rank in runs[world])
    for other in others:
        assert all(torch.equal(a, b) for a, b in zip(first, other, strict=True))


@pytest.mark.parametrize("world", WORLDS)
def test_batch_norm_that_learns_is_scored_and_saved_with_the_same_statistics(runs, world):
    first, *others = (rank["normed"] for rank in runs[world])
    for other in others:
        pairs = zip(first["statistics"], other["statistics"], strict=True)
        assert all(torch.equal(a, b) for a, b in pairs)
        assert torch.equal(first["embedded"], other["embedded"])
    assert torch.allclose(first["embedded"], first["saved"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("world", WORLDS)
def test_all_ranks_agree_on_whether_a_loss_is_finite(runs, world):
    for rank in runs[world]:
        goes_on, still, mean = rank["judged"]
        assert (goes_on, still, math.isfinite(mean)) == (True, False, False)


@pytest.mark.parametrize("world", WORLDS)
def test_fewer_images_than_ranks_are_embedded_all_the_same(runs, world):
    (alone,) = runs[1]
    for rank in runs[world]:
        assert torch.allclose(rank["embedded"], alone["embedded"], atol=1e-6)


def test_every_batch_kind_of_a_card_is_fitted_here():
    assert {card.batches for card in LOSSES.values()} == {LOSSES[loss].batches for loss in FITTED}


def test_without_a_group_gather_gives_the_rows_themselves():
    rows = torch.randn(3, 2)
    assert gather(rows, ALONE, 3) is rows
