"""Decode an image file into upright RGB: grey, 16 bit, palette, CMYK, alpha, rotated by EXIF."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from PIL import Image, ImageOps, UnidentifiedImageError

from trainables.contract import Resize

PAPER = (255, 255, 255)  # what shows through where an image is transparent
SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"}
)


class BrokenImageError(ValueError):
    """Report a file that cannot be decoded, and how to leave it out."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file, self.reason = file, reason

    def __str__(self) -> str:
        return (
            f"The image {self.file} cannot be decoded ({self.reason}); replace it, or leave it out "
            f"with {leave_out([self.file])}."
        )


def leave_out(files: Sequence[str]) -> str:
    """Return the option that excludes these files, quoted so that it survives shell and YAML."""
    listed = yaml.safe_dump(
        list(files),
        default_style='"',
        default_flow_style=True,
        allow_unicode=True,
        width=float("inf"),
    )
    return f"--set {shlex.quote('exclude=' + listed.strip())}"


def decode(root: Path, file: str) -> Image.Image:
    """Return the image at root/file; for an animation, its first frame.

    A BrokenImageError names the file as `exclude` expects it.
    """
    try:
        with Image.open(root / file) as image:
            return _rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        raise BrokenImageError(file, "it is not an image of a known kind") from None
    except FileNotFoundError:
        raise BrokenImageError(file, "the file is gone") from None
    except MemoryError:
        raise
    except Exception as error:
        # On a damaged file Pillow raises anything: struct.error, KeyError, zlib.error, ...
        reason = " ".join(str(error).replace(str(root), "").split()).rstrip(".")
        raise BrokenImageError(file, reason or type(error).__name__) from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError(
            "its pixels are floating-point numbers, and nothing says which one is white"
        )
    if image.mode.startswith("I"):
        return _from_16_bit(image).convert("RGB")
    if image.has_transparency_data:
        pixels = image.convert("RGBA")
        paper = Image.new("RGBA", pixels.size, PAPER)
        return Image.alpha_composite(paper, pixels).convert("RGB")
    return image.convert("RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    """Scale 65535 to 255. Pillow would clip at 255, and nearly everything would be white."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError("its pixels have more than 16 bits, and nothing says which one is white")
    return Image.fromarray((values // 257).astype(np.uint8))


def resized(image: Image.Image, side: int, resize: Resize) -> Image.Image:
    """Return the image as the cache holds it: with its shape, or squashed into a square."""
    if resize == "squash":
        return image.resize((side, side), Image.Resampling.BILINEAR)
    return resize_shorter_side(image, side)


def resize_shorter_side(image: Image.Image, side: int) -> Image.Image:
    """Return the image with its shorter side at `side`; smaller images grow."""
    width, height = image.size
    scale = side / min(width, height)
    return image.resize(
        (max(side, round(width * scale)), max(side, round(height * scale))),
        Image.Resampling.BILINEAR,
    )
