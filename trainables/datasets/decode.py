"""One image file as upright RGB pixels, whatever it was: grey, 16 bit, palette, CMYK, alpha, rotated by EXIF."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import yaml
from PIL import Image, ImageOps, UnidentifiedImageError

PAPER = (255, 255, 255)  # what shows through where an image is transparent
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


class BrokenImageError(ValueError):
    """The file cannot be decoded; the sentence names it and says how to leave it out."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file, self.reason = file, reason

    def __str__(self) -> str:
        return f"The image {self.file} cannot be decoded ({self.reason}); replace it, or leave it out with {leave_out([self.file])}."


def leave_out(files: Sequence[str]) -> str:
    """The option that excludes these files, as a shell takes it: spaces, commas, quotes and any letter survive shell and YAML."""
    listed = yaml.safe_dump(list(files), default_style='"', default_flow_style=True, allow_unicode=True, width=float("inf"))
    return f"--set {shlex.quote('exclude=' + listed.strip())}"


def decode(root: Path, file: str) -> Image.Image:
    """The image at root/file; of an animation, its first picture. A BrokenImageError names the file as `exclude` wants it."""
    try:
        with Image.open(root / file) as image:
            return _rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        raise BrokenImageError(file, "it is no image of a known kind") from None
    except FileNotFoundError:
        raise BrokenImageError(file, "the file is gone") from None
    except MemoryError:
        raise
    except Exception as error:  # a damaged file makes Pillow's readers stumble over anything: struct.error, KeyError, zlib.error, ...
        reason = " ".join(str(error).replace(str(root), "").split()).rstrip(".")
        raise BrokenImageError(file, reason or type(error).__name__) from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode == "F":
        raise ValueError("its pixels are floating-point numbers, and nothing says which one is white")
    if image.mode.startswith("I"):
        return _from_16_bit(image).convert("RGB")
    if image.has_transparency_data:
        pixels = image.convert("RGBA")
        paper = Image.new("RGBA", pixels.size, PAPER)
        return Image.alpha_composite(paper, pixels).convert("RGB")
    return image.convert("RGB")


def _from_16_bit(image: Image.Image) -> Image.Image:
    """65535 -> 255; Pillow's own conversion would cut at 255, and nearly everything would be white."""
    values = np.asarray(image)
    if values.min() < 0 or values.max() > 65535:
        raise ValueError("its pixels have more than 16 bits, and nothing says which one is white")
    return Image.fromarray((values // 257).astype(np.uint8))


def shrink(image: Image.Image, side: int) -> Image.Image:
    """Its shorter side becomes `side`; smaller images grow."""
    width, height = image.size
    scale = side / min(width, height)
    return image.resize((max(side, round(width * scale)), max(side, round(height * scale))), Image.Resampling.BILINEAR)
