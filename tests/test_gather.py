"""Two workers give what one gives: one pair of processes for every loss."""

import multiprocessing
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.multiprocessing import start_processes
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from trainables_helpers import search

from search_spaces import LOSSES
from trainables.datasets import load
from trainables.fit import Fit
from trainables.gather import gather
from trainables.losses import BUILDERS

NAMES = sorted(BUILDERS)
WORLD = 2
CLASSES, FEATURES, SIZE = 6, 7, 5
# Which classes are in a global batch; a rank's half may lack what the whole has.
GLOBAL_BATCHES = {
    "classes on one rank each": [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3],
    "classes across ranks": [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5],
    "unequal": [0, 0, 0, 0, 1, 5, 1, 0, 2, 2, 3, 0],
    "one class": [4] * 12,
    "all alone": [0, 1, 2, 3, 4, 5],
}


def one_step(loss: str, labels: list[int], *, rank: int, world: int) -> dict[str, Any]:
    """Loss and gradients in float64, as Fit gets them: this rank's rows through DDP, gathered, the loss of all of them."""
    torch.manual_seed(0)
    images = torch.randn(len(labels), FEATURES, dtype=torch.float64)
    network: nn.Module = nn.Linear(FEATURES, SIZE).double()
    objective = BUILDERS[loss](CLASSES, SIZE, **LOSSES[loss].defaults).double()
    parallel = DistributedDataParallel(network) if world > 1 else network
    part = len(labels) // world
    rows = slice(rank * part, (rank + 1) * part)
    embeddings, targets = gather(parallel(images[rows])), gather(torch.tensor(labels)[rows])
    value = objective(F.normalize(embeddings) if LOSSES[loss].normalize else embeddings, targets)
    value.backward()
    return {
        "value": value.item(),
        "targets": targets.tolist(),
        "backbone": [param.grad for param in network.parameters()],
        "loss": [param.grad for param in objective.parameters()],
    }


def three_steps(loss: str, *, rank: int, world: int) -> dict[str, Any]:
    """What a Fit holds after one epoch of three steps."""
    # seed=1: with 0, rounding turns a ReLU of softmax's second step, in one process that takes the batch in halves just as in two.
    spec = search(loss, seed=1, steps_per_epoch=3)
    fit = Fit(spec, spec.splits[0], load("sketches"), rank=rank, world=world)
    value = fit.train_epoch(1)
    return {"value": value, "backbone": list(fit.network.state_dict().values()), "loss": list(fit.objective.state_dict().values())}


def everything(rank: int, world: int) -> dict[str, Any]:
    torch.set_num_threads(1)
    results: dict[str, Any] = {}
    for loss in NAMES:
        for name, labels in GLOBAL_BATCHES.items():
            results[f"{loss} {name}"] = one_step(loss, labels, rank=rank, world=world)
        results[f"{loss} fit"] = three_steps(loss, rank=rank, world=world)
        results[f"{loss} own"] = three_steps(loss, rank=0, world=1)  # as when folds are divided between workers
    return results


def worker(rank: int, folder: str) -> None:
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    meeting = f"file://{folder}/meeting"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=WORLD, timeout=timedelta(seconds=60))
    torch.save(everything(rank, WORLD), Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()


Runs = tuple[dict[str, Any], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """What one process found, and what each of two did."""
    folder = tmp_path_factory.mktemp("ranks")
    # The imports are most of the time: a server that has them forks both ranks. (This process cannot: it has run autograd.)
    multiprocessing.set_forkserver_preload(["trainables.fit", "torch._dynamo", "torch._inductor"])
    processes = start_processes(worker, args=(str(folder),), nprocs=WORLD, join=False, start_method="forkserver")
    try:
        alone = everything(0, 1)
        while not processes.join(timeout=120):
            pass
        yield alone, [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(WORLD)]
    finally:
        for process in processes.processes:
            process.kill()


def largest_difference(ours: list[Tensor], theirs: list[Tensor]) -> float:
    """Relative to the largest number there is."""
    pairs = list(zip(ours, theirs, strict=True))
    return max((((a - b).abs().max() / b.abs().max().clamp(min=1e-300)).item() for a, b in pairs), default=0.0)


@pytest.mark.parametrize("labels", GLOBAL_BATCHES)
@pytest.mark.parametrize("loss", NAMES)
def test_two_ranks_give_the_loss_and_the_gradients_of_one(runs, loss, labels):
    alone, ranks = runs
    one = alone[f"{loss} {labels}"]
    for rank in ranks:
        two = rank[f"{loss} {labels}"]
        assert two["targets"] == GLOBAL_BATCHES[labels]
        assert two["value"] == pytest.approx(one["value"], rel=1e-9)
        assert largest_difference(two["backbone"], one["backbone"]) < 1e-9
        assert largest_difference(two["loss"], one["loss"]) < 1e-9


@pytest.mark.parametrize("loss", NAMES)
def test_the_compared_gradients_are_not_nothing(runs, loss):
    alone, _ = runs
    for labels in ("classes across ranks", "unequal"):
        one = alone[f"{loss} {labels}"]
        assert one["value"] > 0
        assert all(grad.abs().max() > 1e-6 for grad in one["backbone"] + one["loss"])
    assert bool(alone[f"{loss} unequal"]["loss"]) == (LOSSES[loss].kind in ("proxy", "classification"))


@pytest.mark.parametrize("loss", NAMES)
def test_a_loss_of_each_ranks_own_half_would_not_do(loss):
    """Why rows are gathered: the mean of the halves' losses is not the loss of the whole."""
    labels = GLOBAL_BATCHES["unequal"]
    whole = one_step(loss, labels, rank=0, world=1)["value"]
    torch.manual_seed(0)
    images = torch.randn(len(labels), FEATURES, dtype=torch.float64)
    embeddings = nn.Linear(FEATURES, SIZE).double()(images)
    embeddings = F.normalize(embeddings) if LOSSES[loss].normalize else embeddings
    objective = BUILDERS[loss](CLASSES, SIZE, **LOSSES[loss].defaults).double()
    halves = [objective(embeddings[rows], torch.tensor(labels)[rows]).item() for rows in (slice(0, 6), slice(6, 12))]
    assert objective(embeddings, torch.tensor(labels)).item() == pytest.approx(whole)
    assert (abs(sum(halves) / 2 - whole) > 1e-3 * whole) == LOSSES[loss].couples


@pytest.mark.parametrize("loss", NAMES)
def test_a_fit_on_two_ranks_has_the_weights_of_one_after_three_steps(runs, loss):
    alone, ranks = runs
    one = alone[f"{loss} fit"]
    for rank in ranks:
        two = rank[f"{loss} fit"]
        assert two["value"] == pytest.approx(one["value"], rel=1e-5)
        for part in ("backbone", "loss"):
            for ours, theirs in zip(two[part], one[part], strict=True):
                # Adam divides by the size of a gradient, so rounding in a tiny one can turn a step of one weight; hence the mean.
                assert (ours - theirs).abs().mean() < 1e-6
                assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", NAMES)
def test_the_ranks_of_a_fit_hold_exactly_the_same_weights(runs, loss):
    _, (first, second) = runs
    for part in ("backbone", "loss"):
        ours, theirs = first[f"{loss} fit"][part], second[f"{loss} fit"][part]
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("loss", NAMES)
def test_a_fit_of_its_own_is_untouched_by_the_other_ranks(runs, loss):
    alone, ranks = runs
    for rank in ranks:
        assert rank[f"{loss} own"]["value"] == alone[f"{loss} own"]["value"]
        assert all(torch.equal(a, b) for a, b in zip(rank[f"{loss} own"]["backbone"], alone[f"{loss} own"]["backbone"], strict=True))


def test_every_batch_kind_has_a_loss_here():
    assert {card.batches for card in LOSSES.values()} == {"balanced", "random"}


def test_without_a_group_gather_gives_the_rows_themselves():
    rows = torch.randn(3, 2)
    assert gather(rows) is rows
