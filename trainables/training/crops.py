"""Crop the part of an image that the network sees: drawn per image, cut a batch at a time."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.contract import ImageTransform

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


def cut(images: Sequence[NDArray[np.uint8]], boxes: Boxes, side: int) -> Tensor:
    """Return the boxes at side x side as uint8 (n, channels, side, side), channels last in memory.

    This is for CPUs: one image after the other.
    """
    channels = images[0].shape[2]
    batch = np.empty((len(images), side, side, channels), dtype=np.uint8)
    target = torch.from_numpy(batch)
    for i, image in enumerate(images):
        piece = _piece(image, boxes, i)
        if piece.shape[:2] == (side, side):
            batch[i] = piece
        else:
            # F.interpolate calls this with a new 150 kB buffer for each image: half as fast
            # (measured).
            torch.ops.aten._upsample_bilinear2d_aa.out(
                _planes(torch.from_numpy(piece)),
                [side, side],
                False,
                None,
                None,
                out=_planes(target[i]),
            )
        if boxes.flip[i]:
            # torch flips adjacent channels ten times faster than numpy.
            planes = _planes(target[i])
            planes.copy_(planes.flip(3))
    return target.permute(0, 3, 1, 2)


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


def cut_by_matrices(
    images: Sequence[NDArray[np.uint8]], boxes: Boxes, side: int, device: torch.device
) -> Tensor:
    """Return what cut() does, as float32, by two matrix products for all images at once.

    This is for GPUs, which a loop over images would leave idle. Cropping, antialiased resizing and
    flipping are linear in rows and in columns: rows @ image @ columns.T.
    """
    tall, broad = max(image.shape[0] for image in images), max(image.shape[1] for image in images)
    padded = torch.zeros(
        (len(images), images[0].shape[2], tall, broad),
        dtype=torch.uint8,
        pin_memory=device.type == "cuda",
    )
    for target, image in zip(padded, images, strict=True):
        target[:, : image.shape[0], : image.shape[1]] = torch.from_numpy(image).permute(2, 0, 1)
    plain = np.zeros(len(images), dtype=bool)
    rows = _weights(boxes.top, boxes.height, plain, side, tall).to(device)
    columns = _weights(boxes.left, boxes.width, boxes.flip, side, broad).to(device)
    pixels = padded.to(device, non_blocking=True).float()
    return (rows[:, None] @ pixels @ columns[:, None].transpose(2, 3)).contiguous(
        memory_format=torch.channels_last
    )


def _weights(start: Ints, length: Ints, flip: NDArray[np.bool_], side: int, size: int) -> Tensor:
    """Return (n, side, size): how much each of `size` pixels gives to each of `side`.

    The weights are the triangle filter of antialiased bilinear resizing.
    """
    begin = torch.from_numpy(start).float()[:, None, None]
    extent = torch.from_numpy(length).float()[:, None, None]
    scale = extent / side
    reach = scale.clamp(min=1)
    target = torch.arange(side)[None, :, None] + 0.5
    source = torch.arange(size)[None, None, :] + 0.5
    target = torch.where(torch.from_numpy(flip)[:, None, None], side - target, target)
    # Over the whole box, pixels outside the image included: they are black, not absent.
    middle = begin + target * scale
    reached = (1 - (source - middle).abs() / reach).clamp(min=0) * (
        (source > begin) & (source < begin + extent)
    )
    return reached / _total(middle, begin, extent, reach)


def _total(middle: Tensor, begin: Tensor, extent: Tensor, reach: Tensor) -> Tensor:
    """Return the sum of the filter over all pixels of the box."""
    span = torch.arange(int(2 * reach.max()) + 3, device=middle.device)[None, None, :]
    source = (middle - reach).floor() + 0.5 + span
    return (
        (1 - (source - middle).abs() / reach).clamp(min=0)
        * ((source > begin) & (source < begin + extent))
    ).sum(dim=2, keepdim=True)
