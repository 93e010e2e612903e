"""The images of a few classes as batches."""

from pathlib import Path

import numpy as np
import pytest
import torch

from trainables.contract import DatasetRef, ImageTransform
from trainables.datasets.indexing import Index
from trainables.datasets.pixels import Dataset, Pixels, load
from trainables.inputs.crops import draws
from trainables.inputs.images import Images

LOOK = ImageTransform(6, 8, 1.0, "resized", (0.3, 1.0), (3 / 4, 4 / 3), max_shift=0, flip=True)
DRAWING = ImageTransform(
    28, 256, 1.0, "shifted", (0.08, 1.0), (3 / 4, 4 / 3), max_shift=2, flip=True
)


@pytest.fixture(scope="module")
def colour() -> Dataset:
    """Make images of three channels and various sides, with classes interleaved."""
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (*rng.integers(8, 14, 2), 3), dtype=np.uint8) for _ in range(30)]
    listed = Index(
        Path("."), (), np.arange(30) % 5, tuple("abcde"), (0, 1), (2, 3, 4), "0", channels=3
    )
    return Dataset(
        listed,
        Pixels(
            np.concatenate([image.ravel() for image in images]),
            np.array([image.shape for image in images]),
        ),
    )


def test_an_images_look_does_not_depend_on_its_batch_or_its_place_in_it(colour):
    images = Images(colour, colour.index.ids((0, 1, 4)), LOOK)
    looks, every = draws((0, 0, 1, 1), 30), np.arange(18)
    alone = torch.cat([images.augmented(every[i : i + 1], looks).now() for i in every])
    order = np.random.default_rng(0).permutation(18)[:11]
    assert torch.equal(images.augmented(order, looks).now(), alone[order])
    twice = np.array([3, 3, 17, 3])
    assert torch.equal(images.augmented(twice, looks).now(), alone[twice])


def test_an_images_look_depends_on_its_id_and_not_on_the_split_it_is_in(colour):
    looks = draws((7,), 30)
    few, many = (
        Images(colour, colour.index.ids((4,)), LOOK),
        Images(colour, colour.index.ids((0, 1, 4)), LOOK),
    )
    rows = np.flatnonzero(many.labels == 4)
    assert torch.equal(few.augmented(np.arange(6), looks).now(), many.augmented(rows, looks).now())


@pytest.mark.parametrize("workers", [2, 4])
def test_the_same_image_in_the_same_epoch_looks_the_same_on_any_number_of_workers(colour, workers):
    images, looks = (
        Images(colour, colour.index.ids((0, 1, 2, 3)), LOOK),
        draws((0, 0, 3, 1), 30),
    )
    batch = np.random.default_rng(1).permutation(24)[:16]
    parts = [images.augmented(part, looks).now() for part in np.split(batch, workers)]
    assert torch.equal(torch.cat(parts), images.augmented(batch, looks).now())


def test_plain_pixels_of_drawings_are_the_file():
    data = load(DatasetRef("sketches"), 256)
    images = Images(data, data.index.ids((7, 3)), DRAWING)
    seen = images.plain(np.arange(len(images))).now()
    assert seen.shape == (120, 1, 28, 28)
    assert all(
        np.array_equal(seen[i, 0].numpy(), data.pixels[image][:, :, 0])
        for i, image in enumerate(images.ids)
    )


def test_reading_pixels_twice_gives_the_same_pixels(colour):
    images, rows = Images(colour, colour.index.ids((2, 3)), LOOK), np.arange(12)
    first = images.plain(rows).now()
    images.augmented(rows, draws((0,), 30)).now().zero_()
    assert torch.equal(images.plain(rows).now(), first)


def test_images_of_some_classes_cannot_reach_any_other(colour):
    images = Images(colour, colour.index.ids((4, 1)), LOOK)
    assert set(images.labels.tolist()) == {1, 4}
    assert images.labels.tolist() == colour.index.labels[images.ids].tolist()
    assert len(images) == 12
    with pytest.raises(IndexError):
        images.plain(np.array([12]))
