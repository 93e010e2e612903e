"""Turn gradients into steps: optimisers, parameter groups, learning rates, clipping."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from search_spaces.space import pick

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from trainables.losses import Objective

FUSED_ON = {"cpu", "cuda"}  # the devices with one kernel for a whole step


@dataclass(frozen=True)
class Optimiser:
    """Name a class of torch.optim, and those of our options that it takes."""

    about: str
    kind: str
    momentum: bool  # whether it is a setting; Adam's betas stay as published
    fused: bool


OPTIMISERS: dict[str, Optimiser] = {
    "adamw": Optimiser(
        "Adam whose weight decay is apart from the gradient", "AdamW", momentum=False, fused=True
    ),
    "adam": Optimiser(
        "Adam; weight decay is added to the gradient", "Adam", momentum=False, fused=True
    ),
    "rmsprop": Optimiser(
        "gradients divided by their recent size, with momentum",
        "RMSprop",
        momentum=True,
        fused=False,
    ),
    "sgd": Optimiser("the gradient itself, with momentum", "SGD", momentum=True, fused=True),
}


def parameter_groups(
    network: nn.Module,
    objective: Objective,
    *,
    learning_rate: float,
    head_learning_rate: float | None,
    weight_decay: float,
    loss_decay: float = 0.0,
    weights_rate: float | None = None,
) -> list[dict[str, Any]]:
    """Return the groups trunk, head and loss; every parameter that learns is in exactly one.

    The loss's own weights decay only where its card says so. weights_rate: their rate as a multiple
    of learning_rate, in place of the loss's own.
    """
    head_rate = learning_rate if head_learning_rate is None else head_learning_rate
    loss_rate = learning_rate if objective.weights_lr is None else objective.weights_lr
    if weights_rate is not None:
        loss_rate = weights_rate * learning_rate
    wanted = [
        ("trunk", network.get_submodule("trunk"), learning_rate, weight_decay),
        ("head", network.get_submodule("head"), head_rate, weight_decay),
        ("loss", objective, loss_rate, loss_decay),
    ]
    return [
        {"name": name, "params": params, "base_lr": rate, "lr": rate, "weight_decay": decay}
        for name, module, rate, decay in wanted
        if (params := [parameter for parameter in module.parameters() if parameter.requires_grad])
    ]


def make_optimiser(name: str, groups: list[dict[str, Any]], *, momentum: float) -> Optimizer:
    """Return the optimiser over these groups; momentum is for those that take it."""
    import torch

    entry = pick(OPTIMISERS, name, "optimiser")
    devices = {parameter.device.type for group in groups for parameter in group["params"]}
    options: dict[str, Any] = {"momentum": momentum} if entry.momentum else {}
    options |= {"fused": True} if entry.fused and devices <= FUSED_ON else {}
    optimiser: Optimizer = getattr(torch.optim, entry.kind)(groups, **options)
    return optimiser


def learning_rate(base: float, epoch: int, *, step: int | None, gamma: float) -> float:
    """Return this epoch's rate: times gamma after every `step` epochs; step=None means no decay.

    Epochs count from 1.
    """
    return base if step is None else base * gamma ** ((epoch - 1) // step)


def set_learning_rates(
    optimiser: Optimizer, epoch: int, *, step: int | None, gamma: float, warm_up: int
) -> None:
    """Set every group's rate for this epoch; during warm-up the trunk's is 0.

    Turning off requires_grad instead would break DDP.
    """
    for group in optimiser.param_groups:
        waits = group["name"] == "trunk" and epoch <= warm_up
        group["lr"] = (
            0.0 if waits else learning_rate(group["base_lr"], epoch, step=step, gamma=gamma)
        )


def clip(parameters: Iterable[Tensor], *, norm: float | None, value: float | None) -> None:
    """Clip gradients in place: each number to +-value, then all together to this norm.

    None turns that clipping off.
    """
    from torch.nn.utils import clip_grad_norm_, clip_grad_value_

    chosen = list(parameters)
    if value is not None:
        clip_grad_value_(chosen, value)
    if norm is not None:
        clip_grad_norm_(chosen, norm)
