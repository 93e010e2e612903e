"""Draw a contact sheet: a few classes of both halves of a dataset, several images of each."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
from matplotlib import font_manager
from matplotlib.ft2font import FT2Font
from PIL import Image, ImageDraw, ImageFont, ImageOps

from trainables.datasets.catalogue import DATASETS
from trainables.datasets.decode import decode
from trainables.datasets.indexing import Index

CLASSES, IMAGES = 5, 8  # of each half; of each class
TILE, GAP, EDGE = 120, 8, 32  # pixels
NAME_WIDTH = 210  # pixels of the column with the class names
NAME_LINES = 4  # of a class's name, at most
TEXT_COLOUR, PALE_TEXT_COLOUR = "#222222", "#777777"
SHEET_COLOUR, TILE_COLOUR = "#ffffff", "#f1f1f1"
# Of Okabe and Ito: they differ with any colour vision.
HALF_COLOURS = {"train": "#0072b2", "test": "#d55e00"}


def contact_sheet(name: str, index: Index) -> Image.Image:
    """Return the sheet; its classes and images are evenly spaced over the whole dataset.

    An image that cannot be decoded raises a BrokenImageError, and vectors without pictures a
    ValueError.
    """
    if DATASETS[name].pixels is None and not (index.files or index.pictures):
        raise ValueError(
            f"A contact sheet needs pictures, but {name} has vectors only; add a column image with "
            f"the path of each one's picture (Parquet or CSV)."
        )
    halves = {"train": _spread(index.train, CLASSES), "test": _spread(index.test, CLASSES)}
    rows = sum(map(len, halves.values()))
    width = 2 * EDGE + NAME_WIDTH + IMAGES * (TILE + GAP) - GAP
    sheet = Image.new(
        "RGB", (width, EDGE + 52 + rows * (TILE + GAP) + len(halves) * 64 + EDGE - 24), SHEET_COLOUR
    )
    draw = ImageDraw.Draw(sheet)
    draw.text((EDGE, EDGE - 6), name, TEXT_COLOUR, _font(name, 30, bold=True))
    about = f"{len(index.labels):,} images of {len(index.names):,} classes"
    draw.text((width - EDGE, EDGE + 4), about, PALE_TEXT_COLOUR, _font(about, 17), anchor="ra")
    top = EDGE + 52
    for half, classes in halves.items():
        chosen = index.train if half == "train" else index.test
        title = f"{half}: {len(chosen):,} classes, {len(index.ids(chosen)):,} images"
        draw.line((EDGE, top, width - EDGE, top), HALF_COLOURS[half], 3)
        draw.text((EDGE, top + 12), title, HALF_COLOURS[half], _font(title, 18, bold=True))
        top += 48
        for label in classes:
            _row(sheet, top, name, index, label)
            top += TILE + GAP
        top += 16
    return sheet


def _row(sheet: Image.Image, top: int, name: str, index: Index, label: int) -> None:
    draw = ImageDraw.Draw(sheet)
    font = _font(index.names[label], 16)
    text = "\n".join(_wrapped(index.names[label].replace("_", " "), font, NAME_WIDTH - 16))
    draw.multiline_text((EDGE, top + TILE / 2), text, TEXT_COLOUR, font, anchor="lm", spacing=4)
    ids = index.ids((label,))
    for column, image in enumerate(_images(name, index, _spread(ids.tolist(), IMAGES))):
        left = EDGE + NAME_WIDTH + column * (TILE + GAP)
        draw.rectangle((left, top, left + TILE - 1, top + TILE - 1), TILE_COLOUR)
        fitted = ImageOps.contain(image, (TILE, TILE), Image.Resampling.LANCZOS)
        sheet.paste(fitted, (left + (TILE - fitted.width) // 2, top + (TILE - fitted.height) // 2))


def _images(name: str, index: Index, ids: Sequence[int]) -> list[Image.Image]:
    shipped = DATASETS[name].pixels
    if shipped is None:
        files = index.files or index.pictures
        return [decode(index.root, files[i]) for i in ids]
    pixels = _pixels(name)[list(ids)]
    return [
        Image.fromarray(each.squeeze(-1) if each.shape[-1] == 1 else each).convert("RGB")
        for each in pixels
    ]


@cache
def _pixels(name: str) -> np.ndarray:
    shipped = DATASETS[name].pixels
    assert shipped is not None
    return shipped()


def _spread(items: Sequence[int], count: int) -> list[int]:
    """Return at most `count` items, evenly from the first to the last."""
    if len(items) <= count:
        return list(items)
    return [items[i] for i in np.linspace(0, len(items) - 1, count).round().astype(int)]


def _wrapped(text: str, font: ImageFont.FreeTypeFont, width: int) -> list[str]:
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".strip()
        if font.getlength(joined) <= width:
            lines[-1] = joined
            continue
        lines += [""] if lines[-1] else []
        for letter in word:  # a word may be longer than a line, and some scripts put no spaces
            if font.getlength(lines[-1] + letter) > width:
                lines.append("")
            lines[-1] += letter
    return (
        lines
        if len(lines) <= NAME_LINES
        else [*lines[: NAME_LINES - 1], lines[NAME_LINES - 1].rstrip() + "…"]
    )


def _font(text: str, size: int, *, bold: bool = False) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(_font_file(frozenset(text) - {" ", "\n"}, bold), size)


@cache
def _font_file(letters: frozenset[str], bold: bool) -> str:
    """Return DejaVu, which comes with matplotlib, or the first font here that has all letters."""
    own = font_manager.findfont(
        font_manager.FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    )
    wanted = set(map(ord, letters))
    if wanted <= FT2Font(own).get_charmap().keys():
        return own
    # Every letter of the font Last Resort is a box.
    fonts = [entry for entry in font_manager.fontManager.ttflist if "Last Resort" not in entry.name]
    for entry in sorted(
        fonts, key=lambda entry: (entry.style != "normal", entry.weight != 400, entry.fname)
    ):
        if Path(entry.fname).exists() and wanted <= FT2Font(entry.fname).get_charmap().keys():
            return str(entry.fname)
    return own
