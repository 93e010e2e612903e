"""One image file as upright RGB pixels, whatever it was: grey, 16 bit, palette, CMYK, alpha, rotated by EXIF."""

from pathlib import Path

from PIL import Image, ImageOps, UnidentifiedImageError

PAPER = (255, 255, 255)  # what shows through where an image is transparent
SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


class BrokenImageError(ValueError):
    """The file cannot be decoded; the sentence names it and says how to leave it out."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(file, reason)
        self.file, self.reason = file, reason

    def __str__(self) -> str:
        return f"The image {self.file} cannot be decoded ({self.reason}); replace it, or leave it out with --set 'exclude={self.file}'."


def decode(root: Path, file: str) -> Image.Image:
    """The image at root/file. A BrokenImageError names the file below its root, as `exclude` wants it."""
    try:
        with Image.open(root / file) as image:
            return _rgb(ImageOps.exif_transpose(image))
    except UnidentifiedImageError:
        raise BrokenImageError(file, "it is no image of a known kind") from None
    except (OSError, SyntaxError, ValueError, EOFError, Image.DecompressionBombError) as error:
        raise BrokenImageError(file, str(error).replace(str(root), "").strip() or type(error).__name__) from None


def _rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I;16"):
        image = image.point(lambda value: value / 257, "L")  # 65535 -> 255; a plain conversion would cut at 255
    if image.has_transparency_data:
        pixels = image.convert("RGBA")
        paper = Image.new("RGBA", pixels.size, PAPER)
        return Image.alpha_composite(paper, pixels).convert("RGB")
    return image.convert("RGB")


def shrink(image: Image.Image, side: int) -> Image.Image:
    """Its shorter side becomes `side`; smaller images grow."""
    width, height = image.size
    scale = side / min(width, height)
    return image.resize((max(side, round(width * scale)), max(side, round(height * scale))), Image.Resampling.BILINEAR)
