"""Recall by loss, by embedding size and by backbone, losses in the order of their years (thesis figures 27 to 31)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.style import INK, PAPER, SERIES, VALIDATION, Drawing, metric_label, sheet
from search_spaces import find_card

COLUMNS = ["dataset", "backbone", "embedding_size", "loss", "metric", "value"]  # value: in percent
AXES = {"dataset": "dataset", "backbone": "backbone", "embedding_size": "embedding size"}


def recall_frame(finals: pd.DataFrame) -> pd.DataFrame:
    """What the figures here take, from finished final trials: the mean over seeds of each test metric. Numbers that peek are left out."""
    own = finals[(finals["role"] == "final") & ~finals["peeks"] & (finals["loss"] != "untrained")] if len(finals) else finals
    names = [name for name in own.columns if str(name).startswith("test/")]
    if own.empty or not names:
        return pd.DataFrame(columns=COLUMNS)
    long = own.melt(COLUMNS[:4], names, var_name="metric").dropna(subset=["value"])
    long = long.assign(metric=long["metric"].str.removeprefix("test/"), value=100 * long["value"].astype(float))
    return long.groupby(COLUMNS[:5])["value"].mean().reset_index()


def in_order_of_years(losses: Iterable[str]) -> list[str]:
    """Losses that no card knows come last."""
    return sorted(losses, key=lambda loss: (_year(loss), loss))


def recall_by_loss(frame: pd.DataFrame, *, first: str = "recall_at_1") -> Drawing | None:
    """Every recall of each loss, the first one as a bar with its number. A panel per dataset, backbone and embedding size."""
    shown = frame[frame["metric"].str.contains("^(?:recall|precision)_at_", regex=True)] if len(frame) else frame
    if shown.empty or first not in set(shown["metric"]):
        return None
    losses = in_order_of_years(shown["loss"].unique())
    places = list(shown.groupby(COLUMNS[:3], sort=False))
    metrics = sorted(shown["metric"].unique(), key=lambda name: int(name.rpartition("_")[2]))
    with sheet(2.1 * len(places) + 0.9) as figure:
        axes = figure.subplots(len(places), 1, squeeze=False, sharex=True)[:, 0]
        for axis, (place, part) in zip(axes, places, strict=True):
            _bars(axis, part.pivot_table(index="loss", columns="metric", values="value").reindex(losses), metrics, first)
            axis.set(title=", ".join(map(str, place)) + " dimensions", ylabel="test, %")
        axes[-1].set_xticks(range(len(losses)), losses, rotation=0 if len(losses) < 6 else 30, ha="center" if len(losses) < 6 else "right")
        handles = axes[0].get_legend_handles_labels()[0]
        figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))
        return Drawing(f"recall-by-loss-{_stem(shown)}", f"Recall of {', '.join(losses)}", figure)


def _bars(axis: Axes, table: pd.DataFrame, metrics: Sequence[str], first: str) -> None:
    values = table[first].to_numpy(dtype=float)
    axis.bar(range(len(table)), np.nan_to_num(values), width=0.62, color=VALIDATION, label=metric_label(first))
    for x, value in enumerate(values):
        if np.isfinite(value):
            axis.text(x, value / 2, f"{value:.1f}", ha="center", va="center", color=PAPER, fontsize=8, fontweight="bold")
    for metric, (_, marker, _) in zip([name for name in metrics if name != first and name in table], SERIES * 2, strict=False):
        style: dict[str, Any] = {"marker": marker, "color": INK, "markerfacecolor": PAPER, "markersize": 5}
        axis.plot(range(len(table)), table[metric], linestyle="", label=metric_label(metric), **style)
    axis.grid(visible=False, axis="x")
    axis.margins(x=0.02)


def recall_by(frame: pd.DataFrame, axis: str, *, metric: str = "recall_at_1") -> Drawing | None:
    """A line per loss and a mark per embedding size, backbone or dataset: what the axis changes, and whether it changes the order.

    A panel per combination of the other two.
    """
    if axis not in AXES:
        raise ValueError(f"Recall can be shown by {', '.join(AXES)}, but not by {axis!r}.")
    shown = frame[frame["metric"] == metric] if len(frame) else frame
    if shown.empty:
        return None
    others = [name for name in AXES if name != axis]
    losses, values = in_order_of_years(shown["loss"].unique()), _sorted(shown[axis].unique())
    places = [(place, part) for place, part in shown.groupby(others, sort=False)]
    columns = min(2, len(places))
    rows = -(-len(places) // columns)
    with sheet(rows * (0.24 * len(losses) + 0.75) + 0.45) as figure:
        axes = figure.subplots(rows, columns, squeeze=False, sharey=True)
        for spare in axes.flat[len(places) :]:
            spare.set_visible(False)
        for panel, (place, part) in zip(axes.flat, places, strict=False):
            _dots(panel, part.pivot_table(index="loss", columns=axis, values="value").reindex(index=losses, columns=values))
            known = dict(zip(others, place, strict=True))
            words = [f"{value} dimensions" if name == "embedding_size" else str(value) for name, value in known.items()]
            panel.set(title=", ".join(words), xlabel=f"test {metric_label(metric)}, %")
        handles = [_mark(value, i) for i, value in enumerate(values)]
        figure.legend(handles=handles, title=AXES[axis], loc="outside lower left", ncols=max(4, len(handles)), alignment="left")
        return Drawing(f"recall-by-{axis}-{_stem(shown)}", f"{metric_label(metric)} of {', '.join(losses)} by {AXES[axis]}", figure)


def _dots(panel: Axes, table: pd.DataFrame) -> None:
    for y, (_, row) in enumerate(table.iterrows()):
        known = row.dropna()
        if len(known) > 1:
            panel.plot([known.min(), known.max()], [y, y], color=INK, alpha=0.3, linewidth=1)
    for i, value in enumerate(table.columns):
        colour, marker, _ = SERIES[i % len(SERIES)]
        edge: dict[str, Any] = {"markeredgecolor": PAPER, "markeredgewidth": 0.6}
        panel.plot(table[value], range(len(table)), linestyle="", marker=marker, color=colour, markersize=6, **edge)
    panel.set_yticks(range(len(table)), list(table.index))
    panel.set_ylim(len(table) - 0.5, -0.5)


def _mark(value: Any, i: int) -> Line2D:
    colour, marker, _ = SERIES[i % len(SERIES)]
    return Line2D([], [], linestyle="", marker=marker, color=colour, markersize=6, label=str(value))


def validation_against_test(finals: pd.DataFrame, metric: str = "recall_at_1") -> Drawing | None:
    """The score that chose the epoch against the test score it led to, a mark per final trial; only what never peeked."""
    names = ["loss", "select/best", f"test/{metric}"]
    own = finals[~finals["peeks"] & (finals["role"] == "final")] if len(finals) else finals
    shown = (100 * own.reindex(columns=names).set_index("loss").astype(float)).dropna()
    if shown.empty:
        return None
    losses = in_order_of_years(shown.index.unique())
    with sheet(3.6, width=5.6) as figure:
        axis = figure.subplots()
        for i, loss in enumerate(losses):
            colour, marker, _ = SERIES[i % len(SERIES)]
            points = shown.loc[[loss]]
            hollow = PAPER if i >= len(SERIES) else colour
            axis.plot(*points.to_numpy().T, linestyle="", marker=marker, color=colour, markerfacecolor=hollow, markersize=6, label=loss)
        axis.set(xlabel="selection score on held-out train classes, %", ylabel=f"test {metric_label(metric)}, %")
        figure.legend(loc="outside right upper")
        return Drawing(f"validation-against-test-{_stem(own)}", f"Validation against test score of {', '.join(losses)}", figure)


def _sorted(values: Any) -> list[Any]:
    return sorted(values, key=lambda value: (isinstance(value, str), value))


def _stem(frame: pd.DataFrame) -> str:
    return "-".join("+".join(map(str, _sorted(frame[name].unique()))) for name in COLUMNS[:3])


def _year(loss: str) -> int:
    try:
        return find_card(loss).year
    except ValueError:
        return 9999
