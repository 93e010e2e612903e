"""A loss with its miner and the learning rate of its own weights: what every builder returns."""

from collections.abc import Callable

from torch import Tensor, nn


class Objective(nn.Module):
    """Called with embeddings and labels 0..C-1; always in float32 or float64, because the library casts proxies to its input."""

    def __init__(self, loss: nn.Module, miner: nn.Module | None = None, *, weights_lr: float | None = None) -> None:
        super().__init__()
        self.loss = loss
        self.miner = miner
        self.weights_lr = weights_lr

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        tuples = self.miner(embeddings, labels) if self.miner else None
        value: Tensor = self.loss(embeddings, labels, tuples)
        return value


# (classes, embedding size, *, the card's parameters) -> Objective
Builder = Callable[..., Objective]
