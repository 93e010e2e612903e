"""Build Inception with batch norm (Ioffe & Szegedy 2015), named as in its ImageNet weight file."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class InceptionBlock(NamedTuple):
    """Hold the channels of a block's branches."""

    one: int  # 1x1; 0: the block halves the map, and its pool is not projected
    three: tuple[int, int]  # reduce -> 3x3
    double: tuple[int, int]  # reduce -> 3x3 -> 3x3
    pool: str  # avg or max
    projected: int  # after the pool


BLOCKS = {
    "3a": InceptionBlock(64, (64, 64), (64, 96), "avg", 32),
    "3b": InceptionBlock(64, (64, 96), (64, 96), "avg", 64),
    "3c": InceptionBlock(0, (128, 160), (64, 96), "max", 0),
    "4a": InceptionBlock(224, (64, 96), (96, 128), "avg", 128),
    "4b": InceptionBlock(192, (96, 128), (96, 128), "avg", 128),
    "4c": InceptionBlock(160, (128, 160), (128, 160), "avg", 128),
    "4d": InceptionBlock(96, (128, 192), (160, 192), "avg", 128),
    "4e": InceptionBlock(0, (128, 192), (192, 256), "max", 0),
    "5a": InceptionBlock(352, (192, 320), (160, 224), "avg", 128),
    "5b": InceptionBlock(352, (192, 320), (192, 224), "max", 128),
}
FEATURES = 1024


class BNInception(nn.Module):
    """Map three channels to 1024 channels at 1/32 of the side.

    The channels are blue, green and red, 0..255 minus the mean.
    """

    def __init__(self) -> None:
        super().__init__()
        self._add("conv1_7x7_s2", 3, 64, kernel=7, stride=2)
        self._add("conv2_3x3_reduce", 64, 64)
        self._add("conv2_3x3", 64, 192, kernel=3)
        width = 192
        for name, block in BLOCKS.items():
            width = self._add_block(f"inception_{name}", width, block)
        assert width == FEATURES

    def _add(self, name: str, before: int, after: int, *, kernel: int = 1, stride: int = 1) -> None:
        """Add a convolution and its norm to this module itself, because the weight file is flat."""
        self.add_module(name, nn.Conv2d(before, after, kernel, stride=stride, padding=kernel // 2))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(after))

    def _add_block(self, name: str, width: int, block: InceptionBlock) -> int:
        """Add a block, and return how many channels it returns."""
        stride = 1 if block.one else 2
        if block.one:
            self._add(f"{name}_1x1", width, block.one)
        self._add(f"{name}_3x3_reduce", width, block.three[0])
        self._add(f"{name}_3x3", *block.three, kernel=3, stride=stride)
        self._add(f"{name}_double_3x3_reduce", width, block.double[0])
        self._add(f"{name}_double_3x3_1", *block.double, kernel=3)
        self._add(f"{name}_double_3x3_2", block.double[1], block.double[1], kernel=3, stride=stride)
        if block.projected:
            self._add(f"{name}_pool_proj", width, block.projected)
        return block.one + block.three[1] + block.double[1] + (block.projected or width)

    def forward(self, images: Tensor) -> Tensor:
        x = F.max_pool2d(self._run("conv1_7x7_s2", images), 3, 2, ceil_mode=True)
        x = self._run("conv2_3x3", self._run("conv2_3x3_reduce", x))
        x = F.max_pool2d(x, 3, 2, ceil_mode=True)
        for name, block in BLOCKS.items():
            x = self._run_block(f"inception_{name}", x, block)
        return x

    def _run(self, name: str, x: Tensor) -> Tensor:
        return F.relu(self._modules[f"{name}_bn"](self._modules[name](x)), inplace=True)  # type: ignore[misc]

    def _run_block(self, name: str, x: Tensor, block: InceptionBlock) -> Tensor:
        branches = [self._run(f"{name}_1x1", x)] if block.one else []
        branches.append(self._run(f"{name}_3x3", self._run(f"{name}_3x3_reduce", x)))
        twice = self._run(f"{name}_double_3x3_1", self._run(f"{name}_double_3x3_reduce", x))
        branches.append(self._run(f"{name}_double_3x3_2", twice))
        pooled = _pool(x, block)
        branches.append(self._run(f"{name}_pool_proj", pooled) if block.projected else pooled)
        return torch.cat(branches, 1)


def _pool(x: Tensor, block: InceptionBlock) -> Tensor:
    if not block.one:
        # Without padding, as published, for the even maps of 224 pixels; odd maps need padding to
        # match the convolutions beside the pool.
        return F.max_pool2d(x, 3, 2, padding=(x.shape[2] % 2, x.shape[3] % 2), ceil_mode=True)
    return (
        F.avg_pool2d(x, 3, 1, padding=1)
        if block.pool == "avg"
        else F.max_pool2d(x, 3, 1, padding=1)
    )
