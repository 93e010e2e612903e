"""Draw the retrieval gallery: queries and their nearest neighbours as real images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis.figures.style import (
    DEFAULT_COLOUR,
    INK,
    VALIDATION_COLOUR,
    WIDTH,
    Drawing,
    styled_figure,
)


@dataclass(frozen=True, eq=False)
class GalleryImage:
    """Hold an image with the name of its class; right: that class is the query's."""

    pixels: NDArray[np.uint8]  # (height, width, channels), as the network sees it
    name: str
    right: bool = True


@dataclass(frozen=True)
class GalleryRow:
    """Hold a query and its neighbours, nearest first."""

    query: GalleryImage
    neighbours: tuple[GalleryImage, ...]


def gallery(rows: Sequence[GalleryRow], *, name: str) -> Drawing | None:
    """Draw a row per query.

    A right neighbour has a solid blue frame and a tick, a wrong one a dashed orange frame and a
    cross.
    """
    if not rows:
        return None
    most = max(len(row.neighbours) for row in rows)
    side = (WIDTH - 0.4) / (most + 1.25)
    with styled_figure(len(rows) * (side + 0.1) + 0.45) as figure:
        axes = figure.subplots(
            len(rows), most + 2, squeeze=False, width_ratios=[1, 0.12, *[1] * most]
        )
        for tiles, row in zip(axes, rows, strict=True):
            for axis in tiles:
                axis.set_axis_off()
            _tile(tiles[0], row.query, colour=INK, mark="query")
            for axis, each in zip(tiles[2:], row.neighbours, strict=False):
                _tile(
                    axis,
                    each,
                    colour=VALIDATION_COLOUR if each.right else DEFAULT_COLOUR,
                    mark="✓" if each.right else "✗",
                )
        figure.suptitle(
            f"{name}: queries and their nearest test images",
            x=0.005,
            ha="left",
            fontsize=9.5,
            fontweight="bold",
        )
        return Drawing(
            f"gallery-{name}".replace(", ", "-"), f"Queries and neighbours, {name}", figure
        )


def _tile(axis: Axes, image: GalleryImage, *, colour: str, mark: str) -> None:
    axis.set_axis_on()
    pixels = image.pixels.squeeze(-1) if image.pixels.shape[-1] == 1 else image.pixels
    axis.imshow(
        pixels,
        cmap="gray",
        vmin=0,
        vmax=255,
        interpolation="nearest" if min(pixels.shape[:2]) < 100 else "antialiased",
    )
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set(
            visible=True,
            edgecolor=colour,
            linewidth=2.2,
            linestyle="-" if image.right else (0, (2.5, 1.5)),
        )
    word = image.name.replace("_", " ")
    axis.set_title(
        f"{mark} {word if len(word) < 15 else word[:13] + '…'}",
        fontsize=7.5,
        color=colour,
        loc="left",
        pad=3,
    )
