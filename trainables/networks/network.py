"""Build the network: input layer, trunk, pooling and head; it returns raw embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from search_spaces.space import pick
from trainables.networks.backbones import POOLINGS, Backbone, InputNorm, find_backbone
from trainables.networks.chunks import embed_in_chunks
from trainables.networks.weights import load_weights

SIDE = 3  # cells along each side of the grid


def gap(features: Tensor) -> Tensor:
    return F.adaptive_avg_pool2d(features, 1).flatten(1)


def gmp(features: Tensor) -> Tensor:
    # Not adaptive_max_pool2d, whose gradient CUDA cannot repeat bit by bit. Where two cells tie,
    # they share the gradient; behind a ReLU, cells that tie at zero have none.
    return features.amax(dim=(2, 3))


def both(features: Tensor) -> Tensor:
    return gap(features) + gmp(features)


def beside(features: Tensor) -> Tensor:
    return torch.cat([gap(features), gmp(features)], dim=1)


class _Grid(torch.autograd.Function):
    """Take the mean of each cell, with a gradient that is the same bits each time, also on CUDA.

    CUDA's own adds up overlapping cells in any order, which deterministic=true refuses.
    """

    @staticmethod
    def forward(ctx: Any, features: Tensor) -> Tensor:
        ctx.shape = features.shape
        return F.adaptive_avg_pool2d(features, SIDE)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (grad,) = grads
        back = grad.new_zeros(ctx.shape)
        rows, columns = (_cells(side) for side in ctx.shape[2:])
        for i, (top, bottom) in enumerate(rows):
            for j, (left, right) in enumerate(columns):
                each = grad[:, :, i : i + 1, j : j + 1] / (bottom - top) / (right - left)
                back[:, :, top:bottom, left:right] += each
        return back


def _cells(side: int) -> list[tuple[int, int]]:
    """Return where each cell of a grid begins and ends; neighbours may share a row."""
    return [(i * side // SIDE, -(-(i + 1) * side // SIDE)) for i in range(SIDE)]


def grid(features: Tensor) -> Tensor:
    if not features.requires_grad:
        return F.adaptive_avg_pool2d(features, SIDE).flatten(1)
    cells: Tensor = _Grid.apply(features)
    return cells.flatten(1)


# Each pooling, and how many numbers it makes of one feature.
POOLS: dict[str, tuple[Callable[[Tensor], Tensor], int]] = {
    "gap": (gap, 1),
    "gmp": (gmp, 1),
    "gap+gmp": (both, 1),
    "gap-gmp": (beside, 2),
    "grid": (grid, SIDE * SIDE),
}
assert POOLS.keys() == POOLINGS.keys()


class InputLayer(nn.Module):
    """Turn images of 0 to 255, uint8 or float, into the trunk's input, on the network's device."""

    scale: Tensor
    shift: Tensor

    def __init__(self, norm: InputNorm) -> None:
        super().__init__()
        mean = torch.tensor(norm.mean, dtype=torch.float64)
        std = torch.tensor(norm.std, dtype=torch.float64)
        self.divisor, self.bgr, self.channels = norm.divisor, norm.bgr, len(norm.mean)
        self.plain = not mean.any() and bool((std == 1).all())
        # Not in the state, because they belong to the backbone and are not learned.
        self.register_buffer(
            "scale", (1 / (norm.divisor * std)).float().view(1, -1, 1, 1), persistent=False
        )
        self.register_buffer("shift", (-mean / std).float().view(1, -1, 1, 1), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if self.bgr:
            images = images.flip(1)
        if images.shape[1] < self.channels:
            images = images.expand(-1, self.channels, -1, -1)
        x = images.to(torch.float32, memory_format=torch.channels_last, copy=True)
        if self.plain:
            return x.div_(self.divisor)
        # Whole images as rows: three repeating values would make a loop of three, a row is one
        # loop for a CPU's wide registers.
        rows = x.permute(0, 2, 3, 1).reshape(len(x), -1)
        scale, shift = (
            part.flatten().expand(x.shape[1]).repeat(x.shape[2] * x.shape[3])
            for part in (self.scale, self.shift)
        )
        torch.addcmul(shift, rows, scale, out=rows)
        return x


@dataclass(frozen=True)
class HeadConfig:
    """Say what maps features to embeddings.

    size: dimensions of the embedding; 0: no head, so that the embedding is the pooled features.
    """

    size: int
    kind: str = "linear"
    width: int = 0  # mlp: of its hidden layer

    def build(self, features: int) -> nn.Module:
        """Return the head with random weights."""
        if not self.size:
            return nn.Identity()
        if self.kind == "linear":
            return nn.Linear(features, self.size)
        hidden = nn.Linear(features, self.width)
        return nn.Sequential(hidden, nn.ReLU(inplace=True), nn.Linear(self.width, self.size))


class Network(nn.Module):
    """Chain input layer, trunk, pool and head; the optimiser has groups for trunk and head."""

    def __init__(
        self,
        backbone: Backbone,
        channels: int,
        *,
        head: HeadConfig,
        pooling: str,
        freeze_bn: bool,
        bf16: bool,
    ) -> None:
        super().__init__()
        pool, parts = pick(POOLS, pooling, "pooling")
        self.input_layer = InputLayer(backbone.input_norm)
        self.trunk, features = backbone.build(channels)
        self.pool: Callable[[Tensor], Tensor] = pool if backbone.head else nn.Flatten()
        self.size = head.size or features * parts
        self.head: nn.Module = head.build(features * parts) if backbone.head else nn.Identity()
        self.freeze_bn, self.bf16 = freeze_bn, bf16
        self.chunk = 0  # images to embed at a time in a training step; 0: all
        for norm in self._frozen():
            norm.requires_grad_(False)  # for good: DDP and the optimiser see it only once
        self.train()

    def pooled(self, images: Tensor) -> Tensor:
        """Return what the head sees, (n, features) in float32; metrics can score this too."""
        x = self.input_layer(images)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self.bf16):
            features = self.trunk(x)
        return self.pool(features.float())

    def forward(self, images: Tensor) -> Tensor:
        if self.chunk and torch.is_grad_enabled():
            return embed_in_chunks(self._embed, images, self.chunk)
        return self._embed(images)

    def _embed(self, images: Tensor) -> Tensor:
        embeddings: Tensor = self.head(self.pooled(images))
        return embeddings

    def train(self, mode: bool = True) -> Network:
        """Set the mode of all but frozen batch norm, which always uses its stored statistics."""
        super().train(mode)
        for norm in self._frozen():
            norm.eval()
        return self

    def _frozen(self) -> list[nn.Module]:
        if not self.freeze_bn:
            return []
        return [module for module in self.trunk.modules() if isinstance(module, _BatchNorm)]


class HeadNetwork(nn.Module):
    """Map the features of a frozen trunk to embeddings.

    Its state names the head's parameters as that of the whole Network does.
    """

    def __init__(self, features: int, head: HeadConfig) -> None:
        super().__init__()
        self.trunk = nn.Identity()  # nothing to learn for the optimiser's group
        self.size = head.size or features
        self.head = head.build(features)

    def pooled(self, features: Tensor) -> Tensor:
        """Return what the head sees: the features themselves."""
        return features

    def forward(self, features: Tensor) -> Tensor:
        embeddings: Tensor = self.head(features)
        return embeddings


def learning_statistics(network: nn.Module) -> list[Tensor]:
    """Return the running means and variances of batch norm that learns, as it is now."""
    return [
        statistic
        for module in network.modules()
        if isinstance(module, _BatchNorm) and module.training
        for statistic in (module.running_mean, module.running_var)
        if statistic is not None
    ]


def build_head_network(features: int, head: HeadConfig, *, seed: int) -> HeadNetwork:
    """Return the head with the initial weights of this seed, independent of earlier draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return HeadNetwork(features, head)


def build_network(
    backbone: str,
    channels: int,
    *,
    head: HeadConfig,
    pooling: str,
    weights: Path | None,
    freeze_bn: bool,
    bf16: bool,
    seed: int,
) -> Network:
    """Return the network with the initial weights of this seed, independent of earlier draws.

    weights: a file that replaces the weights of the trunk.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = Network(
            find_backbone(backbone),
            channels,
            head=head,
            pooling=pooling,
            freeze_bn=freeze_bn,
            bf16=bf16,
        )
    if weights is not None:
        load_weights(network.trunk, weights)
    # A little faster for small convolutions on a CPU, and what GPUs prefer.
    return network.to(memory_format=torch.channels_last)
