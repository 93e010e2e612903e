"""The retrieval gallery: a query and its nearest neighbours, right ones and wrong ones, as real images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from analysis.figures.style import DEFAULT, INK, VALIDATION, WIDTH, Drawing, sheet

Pixels = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Found:
    """An image with the name of its class, and whether that is the query's."""

    pixels: Pixels  # (height, width, channels), as the network sees it
    name: str
    right: bool = True


@dataclass(frozen=True)
class Line:
    """A query and what was found for it, nearest first."""

    query: Found
    found: tuple[Found, ...]


def gallery(lines: Sequence[Line], *, name: str) -> Drawing | None:
    """A line per query. A right neighbour has a solid blue frame and a tick, a wrong one a dashed orange frame and a cross."""
    if not lines:
        return None
    most = max(len(line.found) for line in lines)
    side = (WIDTH - 0.4) / (most + 1.25)
    with sheet(len(lines) * (side + 0.1) + 0.45) as figure:
        axes = figure.subplots(len(lines), most + 2, squeeze=False, width_ratios=[1, 0.12, *[1] * most])
        for row, line in zip(axes, lines, strict=True):
            for axis in row:
                axis.set_axis_off()
            _tile(row[0], line.query, colour=INK, mark="query")
            for axis, each in zip(row[2:], line.found, strict=False):
                _tile(axis, each, colour=VALIDATION if each.right else DEFAULT, mark="✓" if each.right else "✗")
        figure.suptitle(f"{name}: queries and their nearest test images", x=0.005, ha="left", fontsize=9.5, fontweight="bold")
        return Drawing(f"gallery-{name}".replace(", ", "-"), f"Queries and neighbours, {name}", figure)


def _tile(axis: Axes, found: Found, *, colour: str, mark: str) -> None:
    axis.set_axis_on()
    pixels = found.pixels.squeeze(-1) if found.pixels.shape[-1] == 1 else found.pixels
    axis.imshow(pixels, cmap="gray", vmin=0, vmax=255, interpolation="nearest" if min(pixels.shape[:2]) < 100 else "antialiased")
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    for spine in axis.spines.values():
        spine.set(visible=True, edgecolor=colour, linewidth=2.2, linestyle="-" if found.right else (0, (2.5, 1.5)))
    word = found.name.replace("_", " ")
    axis.set_title(f"{mark} {word if len(word) < 15 else word[:13] + '…'}", fontsize=7.5, color=colour, loc="left", pad=3)
