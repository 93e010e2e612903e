"""The images of a few classes as batches for the network, the same on any number of workers."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract import Look
from trainables.crops import Boxes, centre, cut, cut_by_matrices, drawn
from trainables.datasets.pixels import Dataset

# Decoded images are mapped read-only; torch warns of that once, and no one writes to them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"\0", dtype=np.uint8))

Rows = NDArray[np.int64]
Item = TypeVar("Item")
Result = TypeVar("Result")


class Images:
    """No class but these can be reached through it. A row counts within these images, an id within the dataset."""

    def __init__(self, data: Dataset, classes: Sequence[int], look: Look, device: torch.device) -> None:
        self.ids = data.index.ids(classes)
        self.labels = data.index.labels[self.ids]
        self.look, self.device = look, device
        self._pixels = data.pixels

    def __len__(self) -> int:
        return len(self.ids)

    def plain(self, rows: Rows) -> Tensor:
        """0 to 255, as scoring sees them: (n, channels, side, side)."""
        ids = self.ids[rows]
        return self._cut(ids, centre(self._pixels.shapes[ids], self.look))

    def augmented(self, rows: Rows, numbers: NDArray[np.float32]) -> Tensor:
        """0 to 255, as training sees them: each image by its own row of numbers (see crops.draws), one row per image of the dataset."""
        ids = self.ids[rows]
        return self._cut(ids, drawn(self._pixels.shapes[ids], self.look, numbers[ids]))

    def _cut(self, ids: Rows, boxes: Boxes) -> Tensor:
        images = [self._pixels[i] for i in ids]
        if self.device.type == "cpu":
            return cut(images, boxes, self.look.image_size)
        return cut_by_matrices(images, boxes, self.look.image_size, self.device)


def ahead(work: Callable[[Item], Result], items: Iterable[Item]) -> Iterator[Result]:
    """work(item) in order, always one ahead of the reader: a GPU's next batch is cut while it learns from this one."""
    with ThreadPoolExecutor(1) as pool:
        waiting = None
        for item in items:
            following = pool.submit(work, item)
            if waiting:
                yield waiting.result()
            waiting = following
        if waiting:
            yield waiting.result()
