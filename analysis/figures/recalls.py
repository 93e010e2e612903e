"""Draw recall by loss, embedding size, backbone and dataset (thesis figures 27 to 31)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.style import (
    DEFAULT_COLOUR,
    INK,
    PAPER,
    SERIES,
    VALIDATION_COLOUR,
    Drawing,
    styled_figure,
)
from analysis.ranking.measurement import metric_label
from analysis.ranking.readings import DEFAULT, VALIDATION
from analysis.tables.improvement import year
from analysis.tables.scores import own
from trainables.contract import CLOSED_SET

AXIS_LABELS = {"dataset": "dataset", "backbone": "backbone", "embedding_size": "embedding size"}
PANEL_COLUMNS = [*AXIS_LABELS, "protocol"]
RECALL_COLUMNS = [*PANEL_COLUMNS, "loss", "metric", "value", "peeks"]  # value: in percent


def recall_frame(scores: pd.DataFrame) -> pd.DataFrame:
    """Return each loss's own numbers of the validation setup, or, without any, those that peek."""
    mine = own(scores)
    there = set(mine["setup"])
    setup = next((each for each in (VALIDATION, CLOSED_SET) if each in there), DEFAULT)
    mine = mine[mine["setup"] == setup]
    return mine.assign(
        value=[100 * number.value for number in mine["measurement"]], peeks=setup == DEFAULT
    )[RECALL_COLUMNS]


def in_order_of_years(losses: Iterable[str]) -> list[str]:
    """Return the losses by the year of their paper; those without a card come last."""
    return sorted(losses, key=lambda loss: (year(loss) or 9999, loss))


def recall_by_loss(frame: pd.DataFrame, *, first: str = "recall_at_1") -> Drawing | None:
    """Draw every recall of each loss, the first one as a bar with its number.

    There is a panel per dataset, backbone, embedding size and protocol.
    """
    shown = (
        frame[frame["metric"].str.contains("^(?:recall|precision)_at_", regex=True)]
        if len(frame)
        else frame
    )
    if shown.empty or first not in set(shown["metric"]):
        return None
    losses = in_order_of_years(shown["loss"].unique())
    groups = list(shown.groupby(PANEL_COLUMNS, sort=False))
    several, star = shown["protocol"].nunique() > 1, _star(shown)
    metrics = sorted(shown["metric"].unique(), key=lambda name: int(name.rpartition("_")[2]))
    with styled_figure(2.1 * len(groups) + 0.9) as figure:
        axes = figure.subplots(len(groups), 1, squeeze=False, sharex=True)[:, 0]
        for axis, (values, part) in zip(axes, groups, strict=True):
            table = part.pivot_table(index="loss", columns="metric", values="value").reindex(losses)
            _bars(axis, table, metrics, first, colour=DEFAULT_COLOUR if star else VALIDATION_COLOUR)
            axis.set(
                title=_title(dict(zip(PANEL_COLUMNS, values, strict=True)), several),
                ylabel=f"test{star}, %",
            )
        axes[-1].set_xticks(
            range(len(losses)),
            losses,
            rotation=0 if len(losses) < 6 else 30,
            ha="center" if len(losses) < 6 else "right",
        )
        handles = axes[0].get_legend_handles_labels()[0]
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))
        return Drawing(f"recall-by-loss-{_stem(shown)}", f"Recall of {', '.join(losses)}", figure)


def _bars(
    axis: Axes, table: pd.DataFrame, metrics: Sequence[str], first: str, *, colour: str
) -> None:
    values = table[first].to_numpy(dtype=float)
    axis.bar(
        range(len(table)),
        np.nan_to_num(values),
        width=0.62,
        color=colour,
        label=metric_label(first),
    )
    others = [name for name in metrics if name != first and name in table]
    # A bar below this height has no room for a number inside.
    low = 0.15 * np.nanmax(table[[first, *others]].to_numpy(dtype=float))
    for x, value in enumerate(values):
        if np.isfinite(value):
            inside: dict[str, Any] = {"y": value / 2, "va": "center", "color": PAPER}
            above: dict[str, Any] = {"y": value + low / 15, "va": "bottom", "color": INK}
            axis.text(
                x - 0.15 * bool(others),  # beside the marks of the other metrics
                s=f"{value:.1f}",
                ha="center",
                fontsize=8,
                fontweight="bold",
                **(inside if value > low else above),
            )
    for metric, (_, marker, _) in zip(others, SERIES * 2, strict=False):
        style: dict[str, Any] = {
            "marker": marker,
            "color": INK,
            "markerfacecolor": PAPER,
            "markersize": 5,
        }
        axis.plot(
            range(len(table)), table[metric], linestyle="", label=metric_label(metric), **style
        )
    axis.grid(visible=False, axis="x")
    axis.margins(x=0.02)


def recall_by(frame: pd.DataFrame, axis: str, *, metric: str = "recall_at_1") -> Drawing | None:
    """Draw a line per loss with a mark per value of the axis, as AXIS_LABELS lists them.

    There is a panel per combination of the other two axes and the protocol.
    """
    if axis not in AXIS_LABELS:
        raise ValueError(
            f"axis must be one of {', '.join(AXIS_LABELS)}, but got {axis!r}; choose one of them."
        )
    shown = frame[frame["metric"] == metric] if len(frame) else frame
    if shown.empty:
        return None
    others = [name for name in PANEL_COLUMNS if name != axis]
    several, star = shown["protocol"].nunique() > 1, _star(shown)
    losses, values = in_order_of_years(shown["loss"].unique()), _sorted(shown[axis].unique())
    groups = list(shown.groupby(others, sort=False))
    columns = min(2, len(groups))
    rows = -(-len(groups) // columns)
    with styled_figure(rows * (0.24 * len(losses) + 0.75) + 0.45) as figure:
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for spare in axes.flat[len(groups) :]:
            spare.set_visible(False)
        for panel, (others_here, part) in zip(axes.flat, groups, strict=False):
            _dots(
                panel,
                part.pivot_table(index="loss", columns=axis, values="value").reindex(
                    index=losses, columns=values
                ),
            )
            panel.set(
                title=_title(dict(zip(others, others_here, strict=True)), several),
                xlabel=f"test {metric_label(metric)}{star}, %",
            )
        handles = [_mark(value, i) for i, value in enumerate(values)]
        figure.legend(
            handles=handles,
            title=AXIS_LABELS[axis],
            loc="outside lower left",
            ncols=max(4, len(handles)),
            alignment="left",
        )
        return Drawing(
            f"recall-by-{axis}-{_stem(shown)}",
            f"{metric_label(metric)} of {', '.join(losses)} by {AXIS_LABELS[axis]}",
            figure,
        )


def _dots(panel: Axes, table: pd.DataFrame) -> None:
    for y, (_, row) in enumerate(table.iterrows()):
        known = row.dropna()
        if len(known) > 1:
            panel.plot([known.min(), known.max()], [y, y], color=INK, alpha=0.3, linewidth=1)
    for i, value in enumerate(table.columns):
        colour, marker, _ = SERIES[i % len(SERIES)]
        edge: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
        panel.plot(
            table[value],
            range(len(table)),
            linestyle="",
            marker=marker,
            color=colour,
            markersize=6,
            **edge,
        )
    panel.set_yticks(range(len(table)), list(table.index))
    panel.set_ylim(len(table) - 0.5, -0.5)


def _mark(value: Any, i: int) -> Line2D:
    colour, marker, _ = SERIES[i % len(SERIES)]
    return Line2D([], [], linestyle="", marker=marker, color=colour, markersize=6, label=str(value))


def validation_against_test(finals: pd.DataFrame, metric: str = "recall_at_1") -> Drawing | None:
    """Draw the score that chose the epoch against the test score, a mark per final trial.

    Trials that peek are left out.
    """
    names = ["loss", "select/best", f"test/{metric}"]
    own = finals[~finals["peeks"] & (finals["role"] == "final")] if len(finals) else finals
    shown = (100 * own.reindex(columns=names).set_index("loss").astype(float)).dropna()
    if shown.empty:
        return None
    losses = in_order_of_years(shown.index.unique())
    with styled_figure(3.6, width=5.6) as figure:
        axis = figure.subplots()
        for i, loss in enumerate(losses):
            colour, marker, _ = SERIES[i % len(SERIES)]
            points = shown.loc[[loss]]
            hollow = PAPER if i >= len(SERIES) else colour
            axis.plot(
                *points.to_numpy().T,
                linestyle="",
                marker=marker,
                color=colour,
                markerfacecolor=hollow,
                markersize=6,
                label=loss,
            )
        axis.set(
            xlabel="selection score on held-out train classes, %",
            ylabel=f"test {metric_label(metric)}, %",
        )
        figure.legend(loc="outside right upper")
        return Drawing(
            f"validation-against-test-{_stem(own)}",
            f"Validation against test score of {', '.join(losses)}",
            figure,
        )


def _sorted(values: Any) -> list[Any]:
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _title(values: dict[str, Any], several: bool) -> str:
    """Return the title of a panel, with the protocol only where there are several."""
    known = {name: value for name, value in values.items() if name != "protocol" or several}
    return ", ".join(
        f"{value} dimensions" if name == "embedding_size" else str(value)
        for name, value in known.items()
    )


def _star(shown: pd.DataFrame) -> str:
    return "*" if shown["peeks"].any() else ""


def _stem(frame: pd.DataFrame) -> str:
    return "-".join("+".join(map(str, _sorted(frame[name].unique()))) for name in PANEL_COLUMNS)
