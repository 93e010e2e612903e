"""Draw the default setup against the validation setup, with intervals and baselines."""

from __future__ import annotations

from itertools import cycle
from typing import Any

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
from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import Ranking
from analysis.ranking.readings import HONEST
from trainables.contract import PEEKING


def setup_differences(ranking: Ranking) -> Drawing | None:
    """Draw test Recall@1 of both setups, and beside it the signed difference."""
    rows = ranking.rows
    paired = [row for row in rows if "recall_at_1" in row.difference]
    if not rows:
        return None
    with styled_figure(0.42 * len(rows) + 1.5) as figure:
        ratios = [3, 2] if paired else [1]
        axes = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios, squeeze=False)[0]
        left: Axes = axes[0]
        for y, row in enumerate(rows):
            whisker(
                left,
                y - 0.15 * bool(row.validation),
                row.default.get("recall_at_1"),
                DEFAULT_COLOUR,
            )
            whisker(
                left,
                y + 0.15 * bool(row.default),
                row.validation.get("recall_at_1"),
                VALIDATION_COLOUR,
            )
            if row in paired:
                whisker(axes[1], y, row.difference["recall_at_1"], INK)
        styles = cycle([(0, (5, 3)), (0, (1, 2)), (0, (6, 2, 1, 2))])
        for (name, numbers), dashes in zip(ranking.baselines.items(), styles, strict=False):
            label = (
                f"{name} ({numbers['recall_at_1'].percent()}), rule {numbers['recall_at_1'].rule}"
            )
            left.axvline(
                100 * numbers["recall_at_1"].value,
                color=INK,
                linestyle=dashes,
                linewidth=1,
                alpha=0.7,
                label=label,
            )
        left.set_yticks(range(len(rows)), [row.loss for row in rows])
        left.set(ylim=(len(rows) - 0.5, -0.5), title="Test Recall@1, % with 95 % interval")
        if paired:
            axes[1].axvline(0, color=INK, linewidth=1)
            axes[1].set_title("Validation minus default*, points")
        for axis in axes:
            axis.grid(visible=False, axis="y")
        handles = [*_setup_legend(rows), *left.get_legend_handles_labels()[0]]
        figure.legend(
            handles=handles, loc="outside lower left", ncols=2 if ranking.baselines else 1
        )
        cells = (ranking.dataset, ranking.backbone, ranking.embedding_size, ranking.protocol)
        name = "-".join(map(str, ("differences", *cells)))
        return Drawing(
            name, "Test Recall@1 of each loss under both setups, and the difference", figure
        )


def whisker(panel: Axes, y: float, number: Measurement | None, colour: str) -> None:
    """Draw a number with its interval: hollow and dashed if it peeks, solid if not."""
    if number is None:
        return
    value, low, high = (100 * each for each in (number.value, *number.interval))
    panel.plot(
        [low, high],
        [y, y],
        color=colour,
        linewidth=1.5,
        linestyle=(0, (3, 1.5)) if number.peeks else "-",
        solid_capstyle="butt",
    )
    panel.plot(
        [value],
        [y],
        "o",
        color=colour,
        markersize=6,
        markeredgewidth=1.4,
        markerfacecolor=PAPER if number.peeks else colour,
    )


def _setup_legend(rows: list[Any]) -> list[Line2D]:
    common: dict[str, Any] = {"marker": "o", "markersize": 6, "linewidth": 1.5}
    handles = []
    if any(row.default for row in rows):
        label = f"default setup*, rule {PEEKING}: epoch chosen on the test classes"
        handles.append(
            Line2D(
                [],
                [],
                color=DEFAULT_COLOUR,
                linestyle=(0, (3, 1.5)),
                markerfacecolor=PAPER,
                label=label,
                **common,
            )
        )
    if any(row.validation for row in rows):
        handles.append(
            Line2D(
                [],
                [],
                color=VALIDATION_COLOUR,
                label=f"validation setup, rule {HONEST}: nothing chosen on test classes",
                **common,
            )
        )
    return handles
