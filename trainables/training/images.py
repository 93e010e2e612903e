"""Cut the images of a few classes into batches, the same on any number of workers."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract import ImageTransform
from trainables.datasets.pixels import Dataset
from trainables.training.batches import Rows
from trainables.training.crops import Boxes, centre, cut, cut_by_matrices, drawn, draws

# Decoded images are mapped read-only. torch warns of that once; nothing writes to them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"\0", dtype=np.uint8))

SCORING_PIXELS = 2**23  # per channel, of one forward pass when scoring

Numbers = NDArray[np.float32]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Images:
    """Give access to these images and to no others.

    A row is a position among these images, an id one in the dataset.
    """

    def __init__(
        self,
        data: Dataset,
        ids: NDArray[np.int64],
        transform: ImageTransform,
        device: torch.device,
    ) -> None:
        self.ids, self.labels = ids, data.index.labels[ids]
        self.transform, self.device = transform, device
        self._pixels = data.pixels

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def per_pass(self) -> int:
        """Return how many images one forward pass takes when scoring."""
        return max(1, SCORING_PIXELS // self.transform.image_size**2)

    def draws(self, key: tuple[int, ...]) -> Numbers:
        """Return random numbers for every image of the dataset, for augmented().

        The key holds seed, fold and epoch, never rank or batch.
        """
        return draws(key, len(self._pixels))

    def plain(self, rows: Rows) -> Tensor:
        """Return (n, channels, side, side) of 0 to 255, as scoring sees the images."""
        ids = self.ids[rows]
        return self._cut(ids, centre(self._pixels.shapes[ids], self.transform))

    def augmented(self, rows: Rows, numbers: Numbers) -> Tensor:
        """Return (n, channels, side, side) of 0 to 255, as training sees the images."""
        ids = self.ids[rows]
        return self._cut(ids, drawn(self._pixels.shapes[ids], self.transform, numbers[ids]))

    def _cut(self, ids: Rows, boxes: Boxes) -> Tensor:
        images = [self._pixels[i] for i in ids]
        if self.device.type == "cpu":
            return cut(images, boxes, self.transform.image_size)
        return cut_by_matrices(images, boxes, self.transform.image_size, self.device)


def ahead(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """Yield work(item) in order, one ahead: a batch is cut while a GPU trains on the last one."""
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for item in items:
            following = pool.submit(work, item)
            if waiting:
                yield waiting.result()
            waiting = following
        if waiting:
            yield waiting.result()
