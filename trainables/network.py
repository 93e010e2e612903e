"""The embedding network: a trunk and a linear head. It returns the raw vector; the loss's card and scoring normalise."""

import torch
from torch import Tensor, nn

from trainables.backbones import BACKBONES, Shape


class Network(nn.Module):
    """trunk -> head; the two are optimiser groups of their own."""

    def __init__(self, backbone: str, shape: Shape, size: int) -> None:
        super().__init__()
        entry = BACKBONES[backbone]
        self.trunk, features = entry.build(shape)
        self.head: nn.Module = nn.Linear(features, size) if entry.head else nn.Identity()

    def forward(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.head(self.trunk(images))
        return embeddings


def build(backbone: str, shape: Shape, *, size: int, seed: int) -> Network:
    """The network with the initial weights of this seed, whatever was drawn before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        # A little faster for small convolutions on a CPU, and what GPUs want.
        return Network(backbone, shape, size).to(memory_format=torch.channels_last)
