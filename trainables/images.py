"""Pixels for the network: batches from memory, augmented per image, the same on any number of workers."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.datasets import Dataset


class Images:
    """The images of a few classes of a dataset; no other class can be reached through it."""

    def __init__(self, data: Dataset, classes: Sequence[int]) -> None:
        self.ids = data.ids(classes)
        self.labels = data.labels[self.ids]
        self._pixels = torch.from_numpy(data.images[self.ids])

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def shape(self) -> tuple[int, int, int]:
        channels, height, width = self._pixels.shape[1:]
        return channels, height, width

    def plain(self, rows: NDArray[np.int64] | slice) -> Tensor:
        """uint8 -> 0..1, as scoring sees them."""
        return self._pixels[rows].float().div_(255)

    def augmented(self, rows: NDArray[np.int64], draws: NDArray[np.float64], *, max_shift: int, flip: bool) -> Tensor:
        """Shifted by up to max_shift pixels and mirrored, by the image's own draws (one row of three per image)."""
        pixels = self._pixels[rows]
        _, height, width = self.shape
        shifts = np.floor(draws[:, :2] * (2 * max_shift + 1)).astype(np.int64) - max_shift
        down = torch.arange(height) + torch.from_numpy(shifts[:, :1])
        across = torch.arange(width) + torch.from_numpy(shifts[:, 1:2])
        if flip:
            across = torch.where(torch.from_numpy(draws[:, 2:] < 0.5), width - 1 - across, across)
        inside = ((down >= 0) & (down < height))[:, None, :, None] & ((across >= 0) & (across < width))[:, None, None, :]
        picked = torch.arange(len(rows))[:, None, None]
        moved = pixels.permute(0, 2, 3, 1)[picked, down.clamp(0, height - 1)[:, :, None], across.clamp(0, width - 1)[:, None, :]]
        return (moved.permute(0, 3, 1, 2) * inside).float().div_(255)


def draws(key: tuple[int, ...], count: int) -> NDArray[np.float64]:
    """One row of random numbers per image of the epoch: the key names seed and epoch, never rank or batch."""
    return np.random.default_rng(key).random((count, 3))
