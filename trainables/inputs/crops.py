"""Crop the part of an image that the network sees: drawn per image, cut a batch at a time."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract import ImageTransform
from trainables.inputs.loader import Pending

# Decoded images are mapped read-only. torch warns of that once; nothing writes to them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch.from_numpy(np.frombuffer(b"\0", dtype=np.uint8))

ATTEMPTS = 10  # at a random crop that fits, as in torchvision
# Random numbers that a crop may need: area and ratio of each attempt, two for the position, one for
# the flip.
DRAWS = 2 * ATTEMPTS + 3

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Boxes:
    """Hold one rectangle per image, in its own pixels; whatever is outside the image is black."""

    top: Ints
    left: Ints
    height: Ints
    width: Ints
    flip: NDArray[np.bool_]


def draws(key: tuple[int, ...], count: int) -> Floats:
    """Return a row of random numbers for every image of the dataset.

    The key holds seed, fold and epoch, never rank or batch.
    """
    return np.random.default_rng(key).random((count, DRAWS), dtype=np.float32)


def centre(shapes: Ints, transform: ImageTransform) -> Boxes:
    """Return what scoring sees: the middle square, `center_crop` of the shorter side."""
    height, width = shapes[:, 0], shapes[:, 1]
    side = np.maximum(1, np.rint(np.minimum(height, width) * transform.center_crop)).astype(
        np.int64
    )
    return Boxes(
        (height - side) // 2, (width - side) // 2, side, side, np.zeros(len(shapes), dtype=bool)
    )


def drawn(shapes: Ints, transform: ImageTransform, numbers: Floats) -> Boxes:
    """Return what training sees, from each image's own row of numbers."""
    flip = (numbers[:, -1] < 0.5) if transform.flip else np.zeros(len(shapes), dtype=bool)
    if transform.crop == "resized":
        return _resized(shapes, transform, numbers, flip)
    middle = centre(shapes, transform)
    # max_shift counts pixels of the network's input, a box pixels of the image.
    shifts = (
        np.floor(numbers[:, :2] * (2 * transform.max_shift + 1)).astype(np.int64)
        - transform.max_shift
    )
    shifts = np.rint(shifts * (middle.height / transform.image_size)[:, None]).astype(np.int64)
    return Boxes(
        middle.top + shifts[:, 0], middle.left + shifts[:, 1], middle.height, middle.width, flip
    )


def _resized(
    shapes: Ints, transform: ImageTransform, numbers: Floats, flip: NDArray[np.bool_]
) -> Boxes:
    """Follow torchvision's RandomResizedCrop: the first of ten crops that fits.

    If none fits, take the middle at the nearest allowed ratio.
    """
    rows, full_height, full_width = np.arange(len(shapes)), shapes[:, 0], shapes[:, 1]
    (smallest, largest), (narrow, wide) = transform.crop_scale, transform.crop_ratio
    area = (full_height * full_width)[:, None] * (
        smallest + (largest - smallest) * numbers[:, :ATTEMPTS].astype(np.float64)
    )
    ratio = np.exp(
        np.log(narrow)
        + (np.log(wide) - np.log(narrow)) * numbers[:, ATTEMPTS : 2 * ATTEMPTS].astype(np.float64)
    )
    widths = np.rint(np.sqrt(area * ratio)).astype(np.int64)
    heights = np.rint(np.sqrt(area / ratio)).astype(np.int64)
    fits = (
        (widths > 0)
        & (heights > 0)
        & (widths <= full_width[:, None])
        & (heights <= full_height[:, None])
    )
    first = fits.argmax(axis=1)
    height, width = heights[rows, first], widths[rows, first]
    shape = full_width / full_height
    fallback = ~fits.any(axis=1)
    height = np.where(
        fallback, np.where(shape < narrow, np.rint(full_width / narrow), full_height), height
    ).astype(np.int64)
    width = np.where(
        fallback, np.where(shape > wide, np.rint(full_height * wide), full_width), width
    ).astype(np.int64)
    position = np.where(fallback[:, None], 0.5, numbers[:, -3:-1])
    top = np.floor(position[:, 0] * (full_height - height + ~fallback)).astype(np.int64)
    left = np.floor(position[:, 1] * (full_width - width + ~fallback)).astype(np.int64)
    return Boxes(top, left, height, width, flip)


def crops(images: Sequence[NDArray[np.uint8]], boxes: Boxes, side: int) -> Pending:
    """Return the boxes at side x side, still to be cut: uint8 (n, channels, side, side)."""
    shape = (len(images), images[0].shape[2], side, side)
    return Pending(shape, torch.uint8, partial(_cut, images, boxes))


def _cut(images: Sequence[NDArray[np.uint8]], boxes: Boxes, batch: Tensor) -> None:
    rows, side = batch.permute(0, 2, 3, 1), batch.shape[2]
    pixels = rows.numpy()  # copies small images twice as fast as torch
    for i, image in enumerate(images):
        piece = _piece(image, boxes, i)
        if piece.shape[:2] == (side, side):
            pixels[i] = piece
        else:
            # F.interpolate calls this with a new 150 kB buffer for each image: half as fast
            # (measured).
            torch.ops.aten._upsample_bilinear2d_aa.out(
                _planes(torch.from_numpy(piece)),
                [side, side],
                False,
                None,
                None,
                out=_planes(rows[i]),
            )
        if boxes.flip[i]:
            # torch flips adjacent channels ten times faster than numpy.
            planes = _planes(rows[i])
            planes.copy_(planes.flip(3))


def _piece(image: NDArray[np.uint8], boxes: Boxes, i: int) -> NDArray[np.uint8]:
    top, left = int(boxes.top[i]), int(boxes.left[i])
    height, width = int(boxes.height[i]), int(boxes.width[i])
    inside = image[max(0, top) : top + height, max(0, left) : left + width]
    if inside.shape[:2] == (height, width):
        return inside
    piece = np.zeros((height, width, image.shape[2]), dtype=np.uint8)
    down, across = max(0, -top), max(0, -left)
    piece[down : down + inside.shape[0], across : across + inside.shape[1]] = inside
    return piece


def _planes(image: Tensor) -> Tensor:
    """Return (h, w, c) as the (1, c, h, w) that torch resizes, without moving a byte."""
    return image.permute(2, 0, 1)[None]
