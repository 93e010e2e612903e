"""Draw all losses at once: joint maps of train and test images, yoked over losses and layers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from analysis.figures.embedding_maps import bare, by_class, by_part, frame, legend_of_parts
from analysis.figures.map_pictures import (
    LAYERS,
    YOKED_POINTS,
    cached_maps,
    common_images,
    compact_region,
    make_yoked,
    rows_of,
)
from analysis.figures.similarity import similarity_panel
from analysis.figures.style import INK, WIDTH, Drawing, styled_figure
from analysis.maps.embeddings import TrialEmbeddings, whole_classes
from analysis.maps.nearest import Nearest, nearest
from analysis.maps.plane import Plane

PANEL = 1.9  # inches, of one map or scatter plot
PARTS = ("train", "test")
CAPTION = (
    "Train and test images in joint t-SNEs, all of them yoked: an image lies in about the same "
    "position in the map of every loss and of both layers. The scatter plots show exact cosines to "
    "the nearest image of an image's class and of another one."
)


def method_maps(
    models: Sequence[TrialEmbeddings], *, points: int = YOKED_POINTS, cache: Path | None = None
) -> list[Drawing]:
    """Draw a figure of all models for each layer, then one of both layers for each model.

    Only train and test images that all models kept are on the maps.
    """
    first = models[0].take(np.flatnonzero(np.isin(models[0].part, PARTS)))
    shown = whole_classes(common_images(first, models), points)
    if not len(shown):
        return []
    same = [model.take(rows_of(model, shown.image)) for model in models]
    units = [each.units(layer) for each in same for layer in LAYERS.values()]
    maps = cached_maps(cache, "methods", units, make_yoked)
    planes = {
        (model.name, layer): maps[i * len(LAYERS) + j]
        for i, model in enumerate(models)
        for j, layer in enumerate(LAYERS)
    }
    found = {
        (model.name, layer, part): nearest(own.units(LAYERS[layer]), own.label)
        for model in models
        for part in PARTS
        for own in [model.only(part)]
        for layer in LAYERS
    }
    names = [model.name for model in models]
    return [
        *(_by_method(layer, names, shown, planes=planes, found=found) for layer in LAYERS),
        *(_by_layer(name, shown, planes=planes) for name in names),
    ]


def _by_method(
    layer: str,
    names: Sequence[str],
    shown: TrialEmbeddings,
    *,
    planes: dict[tuple[str, str], Plane],
    found: dict[tuple[str, str, str], Nearest],
) -> Drawing:
    """Draw a row for each model: three maps, and the similarities of train and test images."""
    low = min(float(np.quantile(each.same, 0.001)) for each in found.values() if len(each.same))
    with styled_figure(PANEL * len(names) + 0.9, width=PANEL * 5 + 0.6) as figure:
        axes = figure.subplots(len(names), 5, squeeze=False)
        for row, name in zip(axes, names, strict=True):
            _three_maps(row[:3], planes[name, layer], shown)
            row[0].set_ylabel(name.replace(", ", "\n"), fontsize=7)
            for axis, part in zip(row[3:], PARTS, strict=True):
                near = found[name, layer, part]
                axis.set_visible(bool(len(near.same)))
                if len(near.same):
                    similarity_panel(axis, near, low=max(-1, low - 0.02), counted=False)
                    axis.set_title(f"{part}: {100 * near.share:.1f} %", fontsize=8)
                    axis.set(xlabel="", ylabel="")
                    axis.tick_params(labelsize=6)
        legend_of_parts(figure, shown.part)
        title = f"{layer}: train, test and both, yoked over all losses; same against different"
        figure.suptitle(title, x=0.005, ha="left", fontsize=9.5, fontweight="bold")
        return Drawing(f"methods-{layer}", f"Joint maps of {len(names)} models by {layer}", figure)


def _by_layer(
    name: str, shown: TrialEmbeddings, *, planes: dict[tuple[str, str], Plane]
) -> Drawing:
    """Draw a row for each layer of one model: three maps, and a region of test images, larger."""
    from analysis.maps.yoked import zoom

    own = [planes[name, layer] for layer in LAYERS]
    tests = np.flatnonzero(shown.part == "test")
    region = tests[compact_region(own[0][tests], shown.label[tests])]
    with styled_figure(len(LAYERS) * WIDTH / 4 + 0.9) as figure:
        axes = figure.subplots(len(LAYERS), 4, squeeze=False)
        boxes = zoom(own, region)
        for row, layer, plane, box in zip(axes, LAYERS, own, boxes, strict=True):
            _three_maps(row[:3], plane, shown)
            row[0].set_ylabel(layer)
            left, right, bottom, top = box
            edge = Rectangle(
                (left, bottom), right - left, top - bottom, fill=False, edgecolor=INK, linewidth=1.2
            )
            row[1].add_patch(edge)
            by_class(row[3], plane[tests], shown.label[tests], size=30)
            bare(row[3])
            row[3].set(xlim=(left, right), ylim=(bottom, top))
            row[3].set_title("the framed region", fontsize=8)
        legend_of_parts(figure, shown.part)
        title = f"{name}: embedding layer (fc) and the features below it (gap), yoked"
        figure.suptitle(title, x=0.005, ha="left", fontsize=9.5, fontweight="bold")
        return Drawing(f"layers-{name}".replace(", ", "-"), f"Both layers of {name}", figure)


def _three_maps(axes: Sequence[Axes], plane: Plane, shown: TrialEmbeddings) -> None:
    """Draw train images by class, test images by class, and all by part."""
    for axis, part in zip(axes, PARTS, strict=False):
        here = shown.part == part
        by_class(axis, plane[here], shown.label[here])
        axis.set_title(part, fontsize=8)
    by_part(axes[2], plane, shown.part)
    axes[2].set_title("both", fontsize=8)
    frame(axes, plane)
