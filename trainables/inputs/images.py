"""Crop the images of a few classes, the same on any number of workers and on any device."""

import numpy as np
from numpy.typing import NDArray

from trainables.contract import ImageTransform
from trainables.datasets.pixels import Dataset
from trainables.inputs.batches import Rows
from trainables.inputs.crops import Boxes, centre, crops, drawn, draws
from trainables.inputs.loader import Pending

SCORING_PIXELS = 2**23  # per channel, of one forward pass when scoring

Numbers = NDArray[np.float32]


class Images:
    """Give access to these images and to no others.

    A row is a position among these images, an id one in the dataset.
    """

    def __init__(self, data: Dataset, ids: NDArray[np.int64], transform: ImageTransform) -> None:
        self.ids, self.labels = ids, data.index.labels[ids]
        self.transform = transform
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

    def plain(self, rows: Rows) -> Pending:
        """Return (n, channels, side, side) of 0 to 255, as scoring sees the images."""
        ids = self.ids[rows]
        return self._crops(ids, centre(self._pixels.shapes[ids], self.transform))

    def augmented(self, rows: Rows, numbers: Numbers) -> Pending:
        """Return (n, channels, side, side) of 0 to 255, as training sees the images."""
        ids = self.ids[rows]
        return self._crops(ids, drawn(self._pixels.shapes[ids], self.transform, numbers[ids]))

    def _crops(self, ids: Rows, boxes: Boxes) -> Pending:
        self._pixels.expect(ids, boxes.top, boxes.top + boxes.height)
        return crops([self._pixels[i] for i in ids], boxes, self.transform.image_size)
