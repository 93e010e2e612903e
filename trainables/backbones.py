"""Trunks by name: what each is, and how it is built. Only the builders import torch, so that names are known in a moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

Shape = tuple[int, int, int]  # channels, height, width


@dataclass(frozen=True)
class Backbone:
    """build(shape) gives the trunk and the number of features it returns; head=False: the features are the embedding."""

    about: str
    build: Callable[[Shape], tuple[nn.Module, int]]
    head: bool = True


def tiny(shape: Shape) -> tuple[nn.Module, int]:
    """16-32-64 channels at half resolution; group norm, so that any number of workers sees the same statistics."""
    from torch import nn

    layers: list[nn.Module] = [nn.AvgPool2d(2)]
    width = shape[0]
    for channels in (16, 32, 64):
        layers += [nn.Conv2d(width, channels, 3, padding=1, bias=False), nn.GroupNorm(4, channels), nn.ReLU(inplace=True)]
        layers += [nn.MaxPool2d(2) if channels < 64 else nn.AdaptiveAvgPool2d(3)]
        width = channels
    return nn.Sequential(*layers, nn.Flatten()), width * 9


def pixels(shape: Shape) -> tuple[nn.Module, int]:
    """Nothing learned: the image itself."""
    from torch import nn

    return nn.Flatten(), shape[0] * shape[1] * shape[2]


BACKBONES: dict[str, Backbone] = {
    "tiny": Backbone("three convolutions with group norm, for small images and laptops", tiny),
    "pixels": Backbone("raw pixels, a baseline that cannot be trained", pixels, head=False),
}
