"""The crops that the network sees."""

import math

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.transforms import v2

from trainables.contract import ImageTransform
from trainables.inputs.crops import (
    ATTEMPTS,
    DRAWS,
    Boxes,
    centre,
    crops,
    drawn,
    draws,
)

RESIZED = ImageTransform(
    32, 40, 0.8, "resized", (0.08, 1.0), (3 / 4, 4 / 3), max_shift=0, flip=True
)
SHIFTED = ImageTransform(7, 7, 1.0, "shifted", (0.08, 1.0), (3 / 4, 4 / 3), max_shift=3, flip=True)


def pictures(
    count: int, *, channels: int = 3, low: int = 40, high: int = 70, seed: int = 0
) -> list[np.ndarray]:
    """Make images of different sizes, smooth with some noise, which show resizing errors."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        height, width = rng.integers(low, high, 2)
        wave = np.add.outer(np.sin(np.arange(height) / 5), np.cos(np.arange(width) / 7))[:, :, None]
        found.append(
            np.clip(128 + 60 * wave + rng.normal(0, 25, (height, width, channels)), 0, 255).astype(
                np.uint8
            )
        )
    return found


def shapes(images: list[np.ndarray]) -> np.ndarray:
    return np.array([image.shape for image in images])


def slow_box(
    height: int, width: int, transform: ImageTransform, numbers: np.ndarray
) -> tuple[int, int, int, int]:
    """Follow torchvision's rule, one attempt after the other."""
    for attempt in range(ATTEMPTS):
        area = (
            height
            * width
            * (
                transform.crop_scale[0]
                + (transform.crop_scale[1] - transform.crop_scale[0]) * float(numbers[attempt])
            )
        )
        low, high = map(math.log, transform.crop_ratio)
        ratio = math.exp(low + (high - low) * float(numbers[ATTEMPTS + attempt]))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return int(numbers[-3] * (height - h + 1)), int(numbers[-2] * (width - w + 1)), h, w
    h, w = height, width
    if width / height < transform.crop_ratio[0]:
        h = round(width / transform.crop_ratio[0])
    elif width / height > transform.crop_ratio[1]:
        w = round(height * transform.crop_ratio[1])
    return (height - h) // 2, (width - w) // 2, h, w


@pytest.mark.parametrize("size", [(50, 60), (300, 40), (40, 300), (20, 21)], ids=str)
@pytest.mark.parametrize("scale", [(0.08, 1.0), (0.9, 1.0)], ids=str)
def test_a_random_box_is_the_one_that_a_slow_loop_of_attempts_finds(size, scale):
    transform = ImageTransform(32, 40, 0.8, "resized", scale, (3 / 4, 4 / 3), 0, flip=True)
    numbers = draws((1,), 200)
    boxes = drawn(np.array([(*size, 3)] * 200), transform, numbers)
    found = list(zip(boxes.top, boxes.left, boxes.height, boxes.width, strict=True))
    assert found == [slow_box(*size, transform, row) for row in numbers]
    assert (boxes.top >= 0).all()
    assert (boxes.left >= 0).all()
    assert (boxes.top + boxes.height <= size[0]).all()
    assert (boxes.left + boxes.width <= size[1]).all()


def test_random_boxes_are_distributed_like_torchvisions():
    boxes = drawn(np.array([(60, 80, 3)] * 4000), RESIZED, draws((0,), 4000))
    torch.manual_seed(0)
    crop = v2.RandomResizedCrop(32, scale=RESIZED.crop_scale, ratio=RESIZED.crop_ratio)
    image = torch.zeros(3, 60, 80)
    theirs = [crop.make_params([image]) for _ in range(4000)]
    for ours, name in (
        (boxes.top, "top"),
        (boxes.left, "left"),
        (boxes.height, "height"),
        (boxes.width, "width"),
    ):
        other = np.array([params[name] for params in theirs])
        assert abs(ours.mean() - other.mean()) < 4 * np.hypot(ours.std(), other.std()) / math.sqrt(
            4000
        )


@pytest.mark.parametrize("channels", [1, 3])
def test_a_crop_equals_torchvisions_resized_crop_on_each_image_alone(channels):
    images = pictures(20, channels=channels)
    boxes = drawn(shapes(images), RESIZED, draws((3,), 20))
    batch = crops(images, boxes, 32).now()
    assert batch.dtype == torch.uint8
    assert batch.is_contiguous(memory_format=torch.channels_last) or channels == 1
    for i, image in enumerate(images):
        alone = v2.functional.resized_crop(
            torch.from_numpy(image).permute(2, 0, 1),
            int(boxes.top[i]), int(boxes.left[i]), int(boxes.height[i]), int(boxes.width[i]),
            [32, 32], antialias=True,
        )  # fmt: skip
        assert torch.equal(batch[i], alone.flip(2) if boxes.flip[i] else alone)


def test_a_crop_is_within_one_level_of_pillow():
    images = pictures(20)
    boxes = drawn(shapes(images), RESIZED, draws((4,), 20))
    batch = crops(images, boxes, 32).now().permute(0, 2, 3, 1).numpy().astype(int)
    for i, image in enumerate(images):
        box = (
            boxes.left[i],
            boxes.top[i],
            boxes.left[i] + boxes.width[i],
            boxes.top[i] + boxes.height[i],
        )
        alone = Image.fromarray(image).crop(box).resize((32, 32), Image.Resampling.BILINEAR)
        if boxes.flip[i]:
            alone = alone.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        assert np.abs(batch[i] - np.asarray(alone, dtype=int)).max() <= 1


def test_scoring_sees_the_middle_as_torchvision_cuts_it():
    images = [image[:40] for image in pictures(6, low=40, high=41)] + pictures(
        6, low=40, high=60, seed=1
    )
    boxes = centre(shapes(images), RESIZED)
    assert (boxes.height == np.rint(shapes(images)[:, :2].min(axis=1) * 0.8)).all()
    square = [image for image in images if min(image.shape[:2]) == 40]
    batch = crops(square, centre(shapes(square), RESIZED), 32).now()
    for seen, image in zip(batch, square, strict=True):
        ours = v2.functional.center_crop(torch.from_numpy(image).permute(2, 0, 1), [32, 32])
        # An odd rest lies on the other side there.
        assert torch.equal(seen, ours) or (image.shape[0] - 32) % 2 or (image.shape[1] - 32) % 2


def slowly_moved(image: np.ndarray, numbers: np.ndarray, transform: ImageTransform) -> np.ndarray:
    """Crop one pixel at a time: shifted, black beyond the border, then mirrored."""
    height, width, channels = image.shape
    down, across = (
        int(np.floor(value * (2 * transform.max_shift + 1))) - transform.max_shift
        for value in numbers[:2]
    )
    result = np.zeros((channels, height, width), dtype=np.uint8)
    for y in range(height):
        for x in range(width):
            if 0 <= y + down < height and 0 <= x + across < width:
                result[:, y, x] = image[y + down, x + across]
    return result[:, :, ::-1] if transform.flip and numbers[-1] < 0.5 else result


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("max_shift", [0, 1, 3])
def test_a_shifted_image_equals_a_slow_loop_over_its_pixels(max_shift, flip):
    transform = ImageTransform(7, 7, 1.0, "shifted", (0.08, 1.0), (3 / 4, 4 / 3), max_shift, flip)
    images = [
        np.random.default_rng(i).integers(0, 256, (7, 7, 3), dtype=np.uint8) for i in range(12)
    ]
    numbers = draws((1, 2, 3), 12)
    batch = crops(images, drawn(shapes(images), transform, numbers), 7).now()
    for i, image in enumerate(images):
        assert batch[i].numpy().tolist() == slowly_moved(image, numbers[i], transform).tolist()


def test_every_shift_up_to_the_largest_is_drawn_and_equally_often():
    boxes = drawn(np.array([(7, 7, 1)] * 60_000), SHIFTED, draws((0,), 60_000))
    for shifts in (boxes.top, boxes.left):
        values, counts = np.unique(shifts, return_counts=True)
        assert values.tolist() == [-3, -2, -1, 0, 1, 2, 3]
        assert counts == pytest.approx([60_000 / 7] * 7, rel=0.05)


def test_half_of_the_images_are_mirrored_unless_flip_is_off():
    size = np.array([(50, 50, 3)] * 10_000)
    assert drawn(size, RESIZED, draws((0,), 10_000)).flip.mean() == pytest.approx(0.5, abs=0.02)
    never = ImageTransform(32, 40, 0.8, "resized", (0.08, 1.0), (3 / 4, 4 / 3), 0, flip=False)
    assert not drawn(size, never, draws((0,), 10_000)).flip.any()


def test_a_shift_counts_pixels_of_the_networks_input():
    transform = ImageTransform(
        10, 40, 1.0, "shifted", (0.08, 1.0), (3 / 4, 4 / 3), max_shift=1, flip=False
    )
    boxes = drawn(np.array([(40, 40, 3)] * 100), transform, draws((0,), 100))
    assert set(boxes.top.tolist()) == {-4, 0, 4}


def test_draws_are_keyed_and_leave_the_global_generators_alone():
    keys = [(seed, 0, epoch, 1) for seed in range(3) for epoch in range(1, 4)]
    assert len({draws(key, 5).tobytes() for key in keys}) == len(keys)
    assert all((draws(key, 5) == draws(key, 5)).all() for key in keys)
    assert draws((0,), 5).shape == (5, DRAWS)
    np.random.seed(0)  # noqa: NPY002 the legacy generator is the one that must not be touched
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    draws((1, 2), 100)
    assert np.random.random() == expected  # noqa: NPY002


def test_an_image_that_is_already_right_is_copied_untouched():
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    whole = Boxes(*(np.array([value]) for value in (0, 0, 4, 4)), flip=np.array([False]))
    batch = crops([image], whole, 4).now()
    assert batch[0].permute(1, 2, 0).numpy().tolist() == image.tolist()
    batch.zero_()
    assert image.any()
