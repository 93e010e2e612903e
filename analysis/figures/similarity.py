"""Draw how near each image is to its own class, against the nearest other class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.style import (
    DEFAULT_COLOUR,
    INK,
    PAPER,
    VALIDATION_COLOUR,
    Drawing,
    styled_figure,
)

if TYPE_CHECKING:
    from analysis.maps.nearest import Nearest


def same_vs_different(found: Mapping[tuple[str, str], Nearest], *, name: str) -> Drawing | None:
    """Draw a panel for each layer and part: rows are layers, columns are parts.

    found: as {("fc", "train"): nearest, ...}. Below the diagonal an image is nearest to its own
    class, so a query with it is right; the share of such images is Recall@1.
    """
    shown = {key: each for key, each in found.items() if len(each.same)}
    if not shown:
        return None
    layers, parts = (list(dict.fromkeys(key[i] for key in shown)) for i in (0, 1))
    with styled_figure(2.9 * len(layers) + 0.6, width=3.1 * len(parts) + 0.3) as figure:
        axes = figure.subplots(len(layers), len(parts), squeeze=False)
        low = min(float(np.quantile(each.same, 0.001)) for each in shown.values())
        for row, layer in zip(axes, layers, strict=True):
            for axis, part in zip(row, parts, strict=True):
                axis.set_visible((layer, part) in shown)
                if (layer, part) in shown:
                    similarity_panel(axis, shown[layer, part], low=max(-1, low - 0.02))
                    axis.set_title(f"{layer}, {part}: {100 * shown[layer, part].share:.1f} % right")
        handles = [
            Line2D(
                [],
                [],
                linestyle="",
                marker="o",
                color=VALIDATION_COLOUR,
                markersize=5,
                label="right: its own class is nearest",
            ),
            Line2D(
                [],
                [],
                linestyle="",
                marker="x",
                color=DEFAULT_COLOUR,
                markersize=5,
                label="wrong: another class is nearer",
            ),
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=1 if len(parts) == 1 else 2)
        figure.suptitle(name, x=0.005, ha="left", fontsize=9.5, fontweight="bold")
        return Drawing(
            f"similarity-{name}".replace(", ", "-"),
            f"Same-class against different-class similarity, {name}",
            figure,
        )


def similarity_panel(axis: Axes, found: Nearest, *, low: float, counted: bool = True) -> None:
    """Draw one cloud with its diagonal. counted: also write how many images are right."""
    # One image in a thousand lies beyond the edge and is drawn on it.
    right, same, different = found.right, found.same.clip(low), found.different.clip(low)
    size = float(np.clip(9_000 / len(right), 2.0, 18.0))
    dots = axis.scatter(
        same[right],
        different[right],
        s=size,
        color=VALIDATION_COLOUR,
        marker="o",
        alpha=0.45,
        linewidths=0,
    )
    crosses = axis.scatter(
        same[~right],
        different[~right],
        s=size * 1.6,
        color=DEFAULT_COLOUR,
        marker="x",
        alpha=0.6,
        linewidths=0.5,
    )
    for cloud in (dots, crosses):
        cloud.set_rasterized(True)
    axis.plot([low, 1], [low, 1], color=INK, linewidth=0.9)
    if counted:
        axis.text(
            0.97,
            0.04,
            f"{right.sum():,} of {len(right):,}",
            transform=axis.transAxes,
            ha="right",
            fontsize=8,
            bbox={"color": PAPER, "alpha": 0.7, "pad": 1.5},
        )
    axis.set(xlim=(low, 1.01), ylim=(low, 1.01), aspect="equal")
    axis.set(xlabel="cosine to the nearest of its class", ylabel="cosine to the nearest other")
