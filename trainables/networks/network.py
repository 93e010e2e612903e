"""The embedding network: entry, trunk, pooling and a linear head. It returns the raw vector; the loss's card and scoring normalise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from search_spaces.space import pick
from trainables.networks.backbones import POOLINGS, Backbone, Entry, find_backbone
from trainables.networks.weights import load_weights

SIDE = 3  # cells along each side of the grid


def gap(features: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(features, 1).flatten(1)


def gmp(features: Tensor) -> Tensor:
    return F.adaptive_max_pool2d(features, 1).flatten(1)


def both(features: Tensor) -> Tensor:
    return gap(features) + gmp(features)


def grid(features: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(features, SIDE).flatten(1)


POOLS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {  # and how many numbers each feature becomes
    "gap": (gap, 1),
    "gmp": (gmp, 1),
    "gap+gmp": (both, 1),
    "grid": (grid, SIDE * SIDE),
}
assert POOLS.keys() == POOLINGS.keys()


class EntryLayer(nn.Module):
    """0 to 255, whole or not -> the trunk's input, on the network's device."""

    scale: Tensor
    shift: Tensor

    def __init__(self, entry: Entry) -> None:
        super().__init__()
        mean, std = torch.tensor(entry.mean, dtype=torch.float64), torch.tensor(entry.std, dtype=torch.float64)
        self.divisor, self.bgr, self.channels = entry.divisor, entry.bgr, len(entry.mean)
        self.plain = not mean.any() and bool((std == 1).all())
        # Not in the state: they are the backbone's, not learned.
        self.register_buffer("scale", (1 / (entry.divisor * std)).float().view(1, -1, 1, 1), persistent=False)
        self.register_buffer("shift", (-mean / std).float().view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if self.bgr:
            images = images.flip(1)
        if images.shape[1] < self.channels:
            images = images.expand(-1, self.channels, -1, -1)
        x = images.to(torch.float32, memory_format=torch.channels_last, copy=True)
        if self.plain:
            return x.div_(self.divisor)
        # Whole images as rows: three values that repeat would be three steps of a loop, a row is one for a CPU's wide registers.
        rows = x.permute(0, 2, 3, 1).reshape(len(x), -1)
        scale, shift = (part.flatten().expand(x.shape[1]).repeat(x.shape[2] * x.shape[3]) for part in (self.scale, self.shift))
        torch.addcmul(shift, rows, scale, out=rows)
        return x


class Network(nn.Module):
    """entry -> trunk -> pool -> head; trunk and head are optimiser groups of their own."""

    def __init__(self, backbone: Backbone, channels: int, *, size: int, pooling: str, freeze_bn: bool, bf16: bool) -> None:
        super().__init__()
        pool, parts = pick(POOLS, pooling, "pooling")
        self.entry = EntryLayer(backbone.entry)
        self.trunk, features = backbone.build(channels)
        self.pool: Callable[[Tensor], Tensor] = pool if backbone.head else nn.Flatten()
        self.head: nn.Module = nn.Linear(features * parts, size) if backbone.head else nn.Identity()
        self.freeze_bn, self.bf16 = freeze_bn, bf16
        for norm in self._frozen():
            norm.requires_grad_(False)  # for good: DDP and the optimiser are told once what learns
        self.train()

    def pooled(self, images: Tensor) -> Tensor:
        """(n, features) in float32: what the head sees, and the second place where scores can be taken."""
        x = self.entry(images)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            features = self.trunk(x)
        return self.pool(features.float())

    def forward(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.head(self.pooled(images))
        return embeddings

    def train(self, mode: bool = True) -> Network:
        """Frozen batch norm keeps to its stored statistics in every mode."""
        super().train(mode)
        for norm in self._frozen():
            norm.eval()
        return self

    def _frozen(self) -> list[nn.Module]:
        return [module for module in self.trunk.modules() if isinstance(module, _BatchNorm)] if self.freeze_bn else []


def build(
    backbone: str,
    channels: int,
    *,
    size: int,
    pooling: str,
    weights: Path | None,
    freeze_bn: bool,
    bf16: bool,
    seed: int,
) -> Network:
    """The network with the initial weights of this seed, whatever was drawn before; a file replaces those of the trunk."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(find_backbone(backbone), channels, size=size, pooling=pooling, freeze_bn=freeze_bn, bf16=bf16)
    if weights is not None:
        load_weights(network.trunk, weights)
    # A little faster for small convolutions on a CPU, and what GPUs want.
    return network.to(memory_format=torch.channels_last)
