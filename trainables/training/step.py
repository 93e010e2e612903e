"""Train on one batch: forward, gather, loss, backward, clip, optimise; the host waits for none."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer

from trainables.distributed.gather import gather
from trainables.distributed.gpu_memory import with_memory
from trainables.distributed.team import ALONE, Team
from trainables.losses import Objective
from trainables.losses.diagnostics import describe_batch
from trainables.training.optimiser import clip
from trainables.training.undo import prepare_undo

# Steps between two looks at the losses. A look makes the host wait for the device, which a CPU
# does anyway.
LOOK_EVERY = {"cpu": 1, "cuda": 50}


class TrainingStep:
    """Take the steps of one fit. What a step returns and keeps stays on the device."""

    def __init__(
        self,
        network: nn.Module,
        objective: Objective,
        optimizer: Optimizer,
        *,
        team: Team,
        normalize: bool,
        clip_norm: float | None,
        clip_value: float | None,
    ) -> None:
        self.network, self.objective, self.optimizer = network, objective, optimizer
        self.team, self.normalize = team, normalize
        self.clip_norm, self.clip_value = clip_norm, clip_value
        self.last: tuple[Tensor, Tensor] | None = None  # embeddings and targets of the last step
        self.share: Tensor | None = None  # of the last step's tuples that gave a gradient

    def __call__(self, images: Tensor, targets: Tensor) -> Tensor:
        """Train on this rank's images and the targets of all ranks; return the loss of all.

        If memory is too small, free what can be freed and try once more, unless other ranks wait.
        """
        loss = (
            self._backward(images, targets)
            if self.team.world > 1
            else with_memory(
                lambda: self._backward(images, targets), prepare_undo(self.network, self.objective)
            )
        )
        # The loss's weights are outside DDP, and a GPU may add up in another order on each rank.
        # With the same gradients, the weights and all that an optimiser keeps of them stay equal.
        self.team.broadcast(
            weight.grad for weight in self.objective.parameters() if weight.grad is not None
        )
        clip(self._parameters(), norm=self.clip_norm, value=self.clip_value)
        self.optimizer.step()
        return loss

    def _backward(self, images: Tensor, targets: Tensor) -> Tensor:
        """Set the gradients, and return the loss."""
        embeddings = gather(self.network(images).float(), self.team, len(targets))
        loss: Tensor = self.objective(
            F.normalize(embeddings) if self.normalize else embeddings, targets
        )
        self.last, self.share = (embeddings.detach(), targets), self.objective.tuple_share()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _parameters(self) -> list[Tensor]:
        return [param for group in self.optimizer.param_groups for param in group["params"]]


class EpochLosses:
    """Collect the losses of an epoch and their shares of tuples, on the device until asked.

    The ranks average them, so that all agree: one that is not finite on any rank ends the epoch.
    """

    def __init__(self, team: Team = ALONE) -> None:
        self.team = team
        self.losses: list[Tensor] = []
        self.shares: list[Tensor] = []
        self._values: list[float] = []  # of the losses that were looked at

    def add(self, loss: Tensor, share: Tensor | None) -> bool:
        """Keep what a step gave. Return False once a look has found a loss that is not finite."""
        self.losses.append(loss)
        if share is not None:
            self.shares.append(share)
        return len(self.losses) % LOOK_EVERY[loss.device.type] != 0 or self._look()

    def mean(self, steps: int) -> float:
        """Return the mean loss of this many steps, or the first loss that is not finite."""
        self._look()
        total = 0.0
        for value in self._values:
            if not math.isfinite(value):
                return value
            total += value
        return total / steps

    def describe(self, last: tuple[Tensor, Tensor] | None) -> dict[str, float]:
        """Return diagnostics of the last step's embeddings, and the mean share of tuples."""
        found = describe_batch(*last) if last else {}
        if self.shares:
            found["tuple_share"] = sum(torch.stack(self.shares).tolist()) / len(self.shares)
        return found

    def _look(self) -> bool:
        """Wait for the losses that are new, and return whether all of them are finite."""
        if new := self.losses[len(self._values) :]:
            values = torch.stack(new)
            self.team.average([values])
            self._values += values.tolist()
        return all(math.isfinite(value) for value in self._values[-len(new) or None :])
