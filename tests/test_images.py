"""Pixels for the network."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from trainables.datasets import Dataset, load
from trainables.images import Images, draws


@pytest.fixture(scope="module")
def colour() -> Dataset:
    """Three channels, not square, classes interleaved: nothing that a transposed axis could hide behind."""
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 5
    return Dataset(rng.integers(0, 256, (30, 3, 7, 5), dtype=np.uint8), labels, tuple("abcde"), (0, 1), (2, 3, 4))


def slowly_moved(image: np.ndarray, draw: np.ndarray, *, max_shift: int, flip: bool) -> np.ndarray:
    """The same look, one pixel at a time: mirrored, then shifted, black beyond the border."""
    channels, height, width = image.shape
    down, across = (int(np.floor(value * (2 * max_shift + 1))) - max_shift for value in draw[:2])
    source = image[:, :, ::-1] if flip and draw[2] < 0.5 else image
    result = np.zeros((channels, height, width), dtype=np.float32)
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                if 0 <= y + down < height and 0 <= x + across < width:
                    result[c, y, x] = np.float32(source[c, y + down, x + across]) / np.float32(255)
    return result


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("max_shift", [0, 1, 3])
def test_an_augmented_image_equals_a_slow_loop_over_its_pixels(colour, max_shift, flip):
    images = Images(colour, (1, 4))
    rows, looks = np.arange(len(images)), draws((1, 2, 3), len(images))
    fast = images.augmented(rows, looks, max_shift=max_shift, flip=flip)
    slow = [slowly_moved(colour.images[images.ids[row]], looks[row], max_shift=max_shift, flip=flip) for row in rows]
    assert torch.equal(fast, torch.from_numpy(np.stack(slow)))


def test_a_flip_mirrors_left_and_right_for_half_of_the_images(colour):
    images = Images(colour, (0, 1, 2, 3, 4))
    rows = np.arange(4)
    looks = np.array([[0.5, 0.5, 0.0], [0.5, 0.5, 0.49], [0.5, 0.5, 0.5], [0.5, 0.5, 0.99]])
    seen = images.augmented(rows, looks, max_shift=2, flip=True)
    plain = images.plain(rows)
    assert torch.equal(seen[:2], plain[:2].flip(3))
    assert torch.equal(seen[2:], plain[2:])


def test_every_shift_up_to_the_largest_is_drawn_and_equally_often():
    shifts = np.floor(draws((0,), 60_000)[:, :2] * 5).astype(int) - 2
    for axis in (0, 1):
        values, counts = np.unique(shifts[:, axis], return_counts=True)
        assert values.tolist() == [-2, -1, 0, 1, 2]
        assert counts == pytest.approx([12_000] * 5, rel=0.05)


def test_an_images_look_does_not_depend_on_its_batch_or_its_place_in_it():
    images = Images(load("sketches"), range(10))
    looks = draws((0, 0, 1, 1), len(images))
    every = np.arange(len(images))
    alone = torch.cat([images.augmented(every[i : i + 1], looks[i : i + 1], max_shift=2, flip=True) for i in every])
    order = np.random.default_rng(0).permutation(len(images))[:50]
    assert torch.equal(images.augmented(order, looks[order], max_shift=2, flip=True), alone[order])
    twice = np.array([3, 3, 17, 3])
    assert torch.equal(images.augmented(twice, looks[twice], max_shift=2, flip=True), alone[twice])


def test_looks_are_keyed_by_seed_and_epoch():
    keys = [(seed, 0, epoch, 1) for seed in range(3) for epoch in range(1, 4)]
    assert len({draws(key, 5).tobytes() for key in keys}) == len(keys)
    assert all((draws(key, 5) == draws(key, 5)).all() for key in keys)


def test_drawing_looks_leaves_the_global_generators_alone():
    np.random.seed(0)  # noqa: NPY002 the legacy generator is the one that must not be touched
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    draws((1, 2), 100)
    assert np.random.random() == expected  # noqa: NPY002


def test_plain_pixels_are_the_file_over_255(colour):
    images = Images(colour, (2, 3))
    for rows in (slice(2, 5), np.array([4, 0])):
        expected = colour.images[images.ids[rows]].astype(np.float32) / np.float32(255)
        assert torch.equal(images.plain(rows), torch.from_numpy(expected))
    every = images.plain(slice(None))
    assert every.min() >= 0
    assert 0.9 < every.max() <= 1


def test_reading_pixels_twice_gives_the_same_pixels(colour):
    images = Images(colour, (2, 3))
    first = images.plain(slice(None)).clone()
    images.augmented(np.arange(3), draws((0,), 3), max_shift=1, flip=True)
    assert torch.equal(images.plain(slice(None)), first)


def test_images_of_some_classes_cannot_reach_any_other(colour):
    images = Images(colour, (4, 1))
    assert set(images.labels.tolist()) == {1, 4}
    assert images.labels.tolist() == colour.labels[images.ids].tolist()
    assert len(images) == 12
    assert images.shape == (3, 7, 5)
    others = replace(colour, images=np.where(np.isin(colour.labels, (1, 4))[:, None, None, None], colour.images, 0))
    assert torch.equal(images.plain(slice(None)), Images(others, (4, 1)).plain(slice(None)))
    assert images._pixels.untyped_storage().nbytes() == 12 * 3 * 7 * 5
    with pytest.raises(IndexError):
        images.plain(np.array([12]))
