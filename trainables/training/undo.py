"""Take back what a step changes before its update, so that the same step can be tried again."""

from collections.abc import Callable

import torch
from torch import nn

from trainables.losses import Objective
from trainables.losses.memory import Memory, SampleMemory
from trainables.networks.network import learning_statistics


def prepare_undo(network: nn.Module, objective: Objective) -> Callable[[], None]:
    """Return a function that puts back what forward passes change from now on.

    These are the statistics of batch norm, the number of the loss's step, and its place in the
    memory of earlier batches, whose rows the next try overwrites with the same ones.
    """
    statistics, steps = learning_statistics(network), objective.steps
    before = torch.cat([part.flatten() for part in statistics]) if statistics else None
    memory = objective.loss if isinstance(objective.loss, (Memory, SampleMemory)) else None
    place = memory.get_extra_state() if memory else {}

    def undo() -> None:
        objective.steps = steps
        if memory:
            memory.set_extra_state(place)
        if before is not None:
            olds = torch.split(before, [part.numel() for part in statistics])
            for part, old in zip(statistics, olds, strict=True):
                part.copy_(old.view_as(part))

    return undo
