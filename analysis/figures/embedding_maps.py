"""Draw embedding maps: joint maps of train and test images, yoked maps with a zoomed region."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from analysis.figures.style import (
    DEFAULT_COLOUR,
    INK,
    SERIES,
    VALIDATION_COLOUR,
    WIDTH,
    Drawing,
    styled_figure,
)
from analysis.maps.plane import Plane

MARKERS = "o^sDvP"
PART_COLOURS = {"train": DEFAULT_COLOUR, "select": "#009e73", "test": VALIDATION_COLOUR}
PART_MARKERS = {"train": "^", "select": "s", "test": "o"}


def joint_map(
    plane: Plane,
    labels: NDArray[np.int64],
    parts: NDArray[np.str_],
    *,
    name: str,
    kind: str = "t-SNE",
) -> Drawing | None:
    """Draw one map in three panels: train images by class, test images by class, all by part."""
    if not len(plane):
        return None
    with styled_figure(3.6) as figure:
        axes = figure.subplots(1, 3, squeeze=False)[0]
        for axis, part in zip(axes, ("train", "test"), strict=False):
            here = parts == part
            by_class(axis, plane[here], labels[here])
            axis.set_title(
                f"{part}: {here.sum():,} images, {len(np.unique(labels[here])):,} classes"
            )
        by_part(axes[2], plane, parts)
        axes[2].set_title("all together")
        frame(axes, plane)
        legend_of_parts(figure, parts)
        figure.suptitle(
            f"{name}: one {kind} of all images", x=0.005, ha="left", fontsize=9.5, fontweight="bold"
        )
        return Drawing(f"joint-{kind}-{name}".replace(", ", "-"), f"{kind} of {name}", figure)


def by_part(axis: Axes, plane: Plane, parts: NDArray[np.str_]) -> None:
    """Draw train, select and test images in one colour each."""
    for part in (part for part in PART_COLOURS if (parts == part).any()):
        x, y = plane[parts == part].T
        axis.scatter(
            x,
            y,
            s=mark_size(plane),
            c=PART_COLOURS[part],
            marker=PART_MARKERS[part],
            alpha=0.5,
            linewidths=0,
            rasterized=True,
        )


def legend_of_parts(figure: Figure, parts: NDArray[np.str_]) -> None:
    """Say below the figure which colour is which part."""
    handles = [
        Line2D(
            [],
            [],
            linestyle="",
            marker=PART_MARKERS[part],
            color=PART_COLOURS[part],
            markersize=5,
            label=f"{part} classes",
        )
        for part in PART_COLOURS
        if (parts == part).any()
    ]
    figure.legend(handles=handles, loc="outside lower right", ncols=len(handles))


def yoked_map(
    maps: Sequence[Plane],
    names: Sequence[str],
    labels: NDArray[np.int64],
    *,
    boxes: Sequence[tuple[float, float, float, float]] = (),
    title: str = "",
) -> Drawing | None:
    """Draw the maps side by side; below, the boxed region of each, larger."""
    if not maps or not len(maps[0]):
        return None
    rows = 2 if boxes else 1
    with styled_figure(rows * min(WIDTH / len(maps), 3.8) + 0.5) as figure:
        axes = figure.subplots(rows, len(maps), squeeze=False)
        for axis, plane, name in zip(axes[0], maps, names, strict=True):
            by_class(axis, plane, labels)
            axis.set_title(name)
        frame(axes[0], np.concatenate(list(maps)))
        for i, (left, right, bottom, top) in enumerate(boxes):
            axes[0, i].add_patch(
                Rectangle(
                    (left, bottom),
                    right - left,
                    top - bottom,
                    fill=False,
                    edgecolor=INK,
                    linewidth=1.2,
                )
            )
            by_class(axes[1, i], maps[i], labels, size=4 * mark_size(maps[i]))
            bare(axes[1, i])
            axes[1, i].set(xlim=(left, right), ylim=(bottom, top), title="the framed region")
        if title:
            figure.suptitle(title, x=0.005, ha="left", fontsize=9.5, fontweight="bold")
        return Drawing(
            f"yoked-{'-'.join(names)}".replace(", ", "-").replace(" ", "-"),
            f"Yoked t-SNE of {' and '.join(names)}",
            figure,
        )


def by_class(
    axis: Axes, plane: Plane, labels: NDArray[np.int64], *, size: float | None = None
) -> None:
    """Draw classes by colour and marker; neighbouring numbers differ most."""
    known = np.unique(labels)
    for marker_number, marker in enumerate(MARKERS):
        mine = [i for i in range(len(known)) if i % len(MARKERS) == marker_number]
        here = np.isin(labels, known[mine]) if mine else np.zeros(len(labels), dtype=bool)
        colours = [shade(i) for i in np.searchsorted(known, labels[here])]
        x, y = plane[here].T
        axis.scatter(
            x,
            y,
            s=size or mark_size(plane),
            c=colours or None,
            marker=marker,
            alpha=0.8,
            linewidths=0,
            rasterized=True,
        )


def shade(number: int) -> Any:
    """Return the colour of a class: the golden angle keeps successive hues apart."""
    from matplotlib.colors import hsv_to_rgb, to_rgb

    if number < len(SERIES):
        return to_rgb(SERIES[number][0])
    return tuple(
        hsv_to_rgb(
            (number * 0.618034 % 1, 0.55 + 0.4 * (number % 3) / 2, 0.62 + 0.25 * (number % 4) / 3)
        )
    )


def mark_size(plane: Plane) -> float:
    """Return the area of a mark: smaller where there are many."""
    return float(np.clip(20_000 / max(1, len(plane)), 3.0, 26.0))


def frame(axes: Any, plane: Plane) -> None:
    """Put all axes on one scale, without ticks: positions on a map have no units."""
    (left, bottom), (right, top) = plane.min(axis=0), plane.max(axis=0)
    edge = 0.03 * max(right - left, top - bottom, 1e-9)
    for axis in axes:
        bare(axis)
        axis.set(xlim=(left - edge, right + edge), ylim=(bottom - edge, top + edge))


def bare(axis: Axes) -> None:
    axis.set(xticks=[], yticks=[])
    axis.grid(visible=False)
    axis.spines[["top", "right"]].set_visible(True)
