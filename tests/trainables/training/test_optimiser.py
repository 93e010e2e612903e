"""Optimisers, parameter groups, learning rates and clipping."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from trainables.losses import Objective
from trainables.training.optimiser import (
    OPTIMISERS,
    clip,
    learning_rate,
    make_optimiser,
    parameter_groups,
    set_learning_rates,
)

PLAIN = {
    "adamw": torch.optim.AdamW,
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}


class Weights(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.proxies = nn.Parameter(torch.randn(3, 2))


def parts(*, weights_lr: float | None = None, frozen: bool = False) -> tuple[nn.Module, Objective]:
    torch.manual_seed(0)
    network = nn.Module()
    network.trunk = nn.Sequential(nn.Linear(4, 5), nn.LayerNorm(5))
    network.head = nn.Linear(5, 2)
    network.trunk[1].requires_grad_(not frozen)
    return network, Objective(Weights(), weights_lr=weights_lr)


def made(name: str = "adamw", **kwargs):
    network, objective = parts(**kwargs)
    chosen = parameter_groups(
        network, objective, learning_rate=0.01, head_learning_rate=0.1, weight_decay=0.05
    )
    return network, objective, make_optimiser(name, chosen, momentum=0.9)


def backward(network: nn.Module, objective: Objective, seed: int) -> None:
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(seed))
    (network.head(network.trunk(x)) @ objective.loss.proxies.T).square().mean().backward()


@pytest.mark.parametrize("frozen", [False, True])
def test_every_parameter_that_learns_is_in_exactly_one_group(frozen):
    network, objective, optimiser = made(frozen=frozen)
    grouped = [id(parameter) for group in optimiser.param_groups for parameter in group["params"]]
    learning = [
        id(p)
        for module in (network.trunk, network.head, objective)
        for p in module.parameters()
        if p.requires_grad
    ]
    assert grouped == learning
    assert len(learning) == (5 if frozen else 7)


def test_trunk_head_and_loss_have_rates_of_their_own_and_loss_weights_are_not_decayed():
    for weights_lr, expected in ((None, 0.01), (0.7, 0.7)):
        _, _, optimiser = made(weights_lr=weights_lr)
        found = {
            group["name"]: (group["lr"], group["base_lr"], group["weight_decay"])
            for group in optimiser.param_groups
        }
        assert found == {
            "trunk": (0.01, 0.01, 0.05),
            "head": (0.1, 0.1, 0.05),
            "loss": (expected, expected, 0.0),
        }


def test_the_head_has_the_trunks_learning_rate_by_default():
    chosen = parameter_groups(
        *parts(), learning_rate=0.01, head_learning_rate=None, weight_decay=0.0
    )
    assert [group["lr"] for group in chosen] == [0.01, 0.01, 0.01]


def test_a_part_without_parameters_has_no_group():
    network, _ = parts()
    network.head = nn.Identity()
    chosen = parameter_groups(
        network,
        Objective(nn.Identity()),
        learning_rate=0.01,
        head_learning_rate=None,
        weight_decay=0.0,
    )
    assert [group["name"] for group in chosen] == ["trunk"]


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_an_optimiser_steps_like_torchs_plain_one(name):
    network, objective, optimiser = made(name)
    network2, objective2 = copy.deepcopy((network, objective))
    chosen = parameter_groups(
        network2, objective2, learning_rate=0.01, head_learning_rate=0.1, weight_decay=0.05
    )
    plain = PLAIN[name](
        chosen, foreach=False, **({"momentum": 0.9} if OPTIMISERS[name].momentum else {})
    )
    for seed in range(4):
        for one, two, steps in ((network, objective, optimiser), (network2, objective2, plain)):
            steps.zero_grad()
            backward(one, two, seed)
            steps.step()
    for ours, theirs in zip(
        [*network.parameters(), *objective.parameters()],
        [*network2.parameters(), *objective2.parameters()],
        strict=True,
    ):
        assert torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_an_optimiser_takes_the_fused_kernel_where_there_is_one(name):
    _, _, optimiser = made(name)
    assert bool(optimiser.defaults.get("fused")) == OPTIMISERS[name].fused
    assert OPTIMISERS[name].about


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_momentum_is_for_those_that_list_it(name):
    _, _, optimiser = made(name)
    assert optimiser.defaults.get("momentum") == (0.9 if OPTIMISERS[name].momentum else None)


def test_an_unknown_optimiser_gets_the_near_name():
    with pytest.raises(ValueError, match=r"Unknown optimiser 'rmsprp'\. Did you mean 'rmsprop'\?"):
        make_optimiser("rmsprp", [], momentum=0.9)


def test_the_rate_falls_after_every_step_epochs():
    assert [learning_rate(1.0, epoch, step=2, gamma=0.5) for epoch in range(1, 7)] == [
        1,
        1,
        0.5,
        0.5,
        0.25,
        0.25,
    ]
    assert [learning_rate(0.3, epoch, step=None, gamma=0.5) for epoch in (1, 50)] == [0.3, 0.3]


def test_rates_agree_with_torchs_step_rule():
    reference = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    rule = torch.optim.lr_scheduler.StepLR(reference, step_size=3, gamma=0.25)
    for epoch in range(1, 12):
        assert learning_rate(0.1, epoch, step=3, gamma=0.25) == pytest.approx(
            reference.param_groups[0]["lr"]
        )
        reference.step()
        rule.step()


@pytest.mark.parametrize("name", sorted(OPTIMISERS))
def test_during_warm_up_only_head_and_loss_move(name):
    network, objective, optimiser = made(name)
    for epoch in (1, 2, 3):
        set_learning_rates(optimiser, epoch, step=1, gamma=0.5, warm_up=2)
        rates = {group["name"]: group["lr"] for group in optimiser.param_groups}
        assert rates == {
            "trunk": 0.01 * 0.25 if epoch == 3 else 0.0,
            "head": 0.1 * 0.5 ** (epoch - 1),
            "loss": 0.01 * 0.5 ** (epoch - 1),
        }
        before = [
            copy.deepcopy(part.state_dict()) for part in (network.trunk, network.head, objective)
        ]
        optimiser.zero_grad()
        backward(network, objective, epoch)
        optimiser.step()
        after = [part.state_dict() for part in (network.trunk, network.head, objective)]
        moved = [
            any(not torch.equal(old[key], new[key]) for key in old)
            for old, new in zip(before, after, strict=True)
        ]
        assert moved == [epoch == 3, True, True]
        assert all(parameter.requires_grad for parameter in network.parameters())


def test_gradients_are_clipped_by_value_then_by_length_or_not_at_all():
    def clipped(**limits):
        parameter = nn.Parameter(torch.zeros(2))
        parameter.grad = torch.tensor([30.0, -4.0])
        clip((p for p in [parameter]), **limits)
        return parameter.grad.tolist()

    assert clipped(norm=None, value=None) == [30, -4]
    assert clipped(norm=None, value=10) == [10, -4]
    assert clipped(norm=5, value=3) == pytest.approx([3, -3])
    assert clipped(norm=1, value=3) == pytest.approx([0.5**0.5, -(0.5**0.5)], rel=1e-4)


def test_names_are_known_without_torch():
    code = (
        "import sys, trainables.training.optimiser, trainables.networks.backbones, "
        "trainables.networks.weights; sys.exit('torch' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}
        ).returncode
        == 0
    )


def test_weights_rate_ties_the_losss_own_weights_to_the_networks_rate() -> None:
    network, objective = parts(weights_lr=0.5)
    groups = parameter_groups(
        network,
        objective,
        learning_rate=6e-4,
        head_learning_rate=None,
        weight_decay=0,
        weights_rate=100,
    )
    assert {group["name"]: group["lr"] for group in groups} == {
        "trunk": 6e-4,
        "head": 6e-4,
        "loss": pytest.approx(0.06),
    }
