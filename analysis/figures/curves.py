"""Draw learning curves: search trials faint, final trials with their chosen epochs."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.figures.style import (
    DEFAULT_COLOUR,
    INK,
    PANELS_PER_ROW,
    PAPER,
    VALIDATION_COLOUR,
    Drawing,
    panels,
    styled_figure,
)
from analysis.ranking.comparisons import COMPARISON_KEYS
from analysis.ranking.measurement import metric_label
from trainables.contract import UNTRAINED

# A panel with more search trials than this draws them as pixels, or a page would weigh megabytes.
RASTER_ABOVE = 40


def learning_curves(trials: pd.DataFrame, curves: pd.DataFrame, metric: str) -> Drawing | None:
    """Draw a row of panels per protocol, each with its own scale, and a panel per loss."""
    points = _points(trials, curves, f"select/{metric}")
    if points.empty:
        return None
    losses = list(points["loss"].unique())
    protocols = list(
        points.sort_values("peeks", ascending=False, kind="stable")["protocol"].unique()
    )
    rows = -(-len(losses) // PANELS_PER_ROW)
    with styled_figure(len(protocols) * (0.45 + 1.6 * rows) + 0.7) as figure:
        parts = figure.subfigures(len(protocols), 1, squeeze=False, hspace=0.06)[:, 0]
        for part, protocol in zip(parts, protocols, strict=True):
            mine = points[points["protocol"] == protocol]
            peeks = bool(mine["peeks"].iloc[0])
            part.suptitle(
                _scored_on(peeks, int(mine["folds"].max())),
                x=0.005,
                ha="left",
                fontsize=9.5,
                fontweight="bold",
            )
            for loss, panel in panels(
                part, losses, name=f"curves-{protocol}", x="epoch", y=f"{metric_label(metric)}, %"
            ).items():
                _curve_panel(
                    panel,
                    mine[mine["loss"] == loss],
                    DEFAULT_COLOUR if peeks else VALIDATION_COLOUR,
                    "--" if peeks else "-",
                )
        figure.legend(handles=_curve_legend(points), loc="outside lower left", ncols=3)
        return Drawing(
            f"curves-{comparison_stem(trials)}", f"Learning curves of {', '.join(losses)}", figure
        )


def training_losses(trials: pd.DataFrame, curves: pd.DataFrame) -> Drawing | None:
    """Draw the training loss of every final trial, a panel per loss, each on its own scale."""
    points = _points(trials, curves, "train/loss")
    points = points[points["phase"] == "final"] if len(points) else points
    if points.empty:
        return None
    losses = list(points["loss"].unique())
    with styled_figure(0.6 + 1.6 * -(-len(losses) // PANELS_PER_ROW)) as figure:
        for loss, panel in panels(
            figure, losses, name="training-loss", x="epoch", y="training loss", sharey=False
        ).items():
            for _, trial in points[points["loss"] == loss].groupby("run_id"):
                style = "--" if trial["peeks"].iloc[0] else "-"
                colour = DEFAULT_COLOUR if trial["peeks"].iloc[0] else VALIDATION_COLOUR
                panel.plot(
                    trial["epoch"], trial["value"] / 100, style, color=colour, marker=".", lw=1.2
                )
        return Drawing(
            f"training-loss-{comparison_stem(trials)}",
            f"Training loss of {', '.join(losses)}",
            figure,
        )


def _points(trials: pd.DataFrame, curves: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Return a row per trial and epoch, in percent, with what the trial was, sorted by loss.

    Only search trials and those of a loss's own number count: a published setting has another
    curve, and a refit has none.
    """
    if trials.empty or curves.empty:
        return pd.DataFrame()
    drawn = trials[(trials["rule"] != UNTRAINED) & trials["role"].isin(["search", "final"])]
    about = drawn.reindex(
        columns=["run_id", "replicate", "loss", "protocol", "phase", "peeks", "folds"]
        + ["chosen_epoch"]
    )
    points = curves[curves["metric"] == metric].dropna(subset=["value"]).merge(about, on="run_id")
    return points.assign(value=100 * points["value"]).sort_values(
        ["loss", "run_id", "epoch"], ignore_index=True
    )


def _curve_panel(panel: Axes, points: pd.DataFrame, colour: str, dashes: str) -> None:
    search_curves = [
        trial[["epoch", "value"]].to_numpy()
        for _, trial in points[points["phase"] == "search"].groupby("run_id")
    ]
    lines = LineCollection(
        [line for line in search_curves if len(line) > 1], colors=colour, alpha=0.35, linewidths=0.7
    )
    lines.set_rasterized(len(search_curves) > RASTER_ABOVE)
    panel.add_collection(lines)
    short = [line[0] for line in search_curves if len(line) == 1]
    panel.plot(
        *zip(*short, strict=True) if short else ([], []),
        ".",
        color=colour,
        alpha=0.35,
        rasterized=len(short) > RASTER_ABOVE,
    )
    panel.autoscale_view()
    final = points[points["phase"] == "final"]
    if final.empty:
        return
    several = final["replicate"].nunique() > 1
    for _, mine in final.groupby("replicate"):
        by_epoch = mine.groupby("epoch")["value"].agg(["mean", "min", "max"])
        if not several:
            panel.fill_between(
                by_epoch.index,
                by_epoch["min"],
                by_epoch["max"],
                color=colour,
                alpha=0.22,
                linewidth=0,
            )
        width = 1.2 if several else 1.8
        panel.plot(
            by_epoch.index, by_epoch["mean"], color=colour, linestyle=dashes, linewidth=width
        )
    chosen = _chosen(final)
    panel.plot(
        chosen["epoch"],
        chosen["value"],
        "o",
        color=colour,
        markersize=4.5,
        markerfacecolor=PAPER,
        markeredgewidth=1.2,
    )


def _chosen(final: pd.DataFrame) -> pd.DataFrame:
    """Return the point of each trial that is nearest to its chosen epoch.

    Over several folds the chosen epoch is a mean, which may lie between two points.
    """
    away = (final["epoch"] - final["chosen_epoch"]).abs().dropna()
    return final.loc[away.groupby(final["run_id"]).idxmin()]


def _scored_on(peeks: bool, folds: int) -> str:
    if peeks:
        return "Default setup*: every epoch scored on the test classes (peeks)"
    mean = f", mean of {folds} folds" if folds > 1 else ""
    return f"Validation setup: scored on held-out train classes{mean}; fewer classes, another scale"


def _curve_legend(points: pd.DataFrame) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    several = points["replicate"].nunique() > 1
    line = "a line per replicate" if several else "mean of final trials"
    chosen = "epoch chosen, one per final trial" + (
        " (nearest to the folds' mean)" if points["folds"].max() > 1 else ""
    )
    if points["peeks"].any():
        handles.append(
            Line2D(
                [],
                [],
                color=DEFAULT_COLOUR,
                linestyle="--",
                linewidth=1.8,
                label=f"default setup*: peeks at test classes, {line}",
            )
        )
    if not points["peeks"].all():
        handles.append(
            Line2D(
                [],
                [],
                color=VALIDATION_COLOUR,
                linewidth=1.8,
                label=f"validation setup, {line}",
            )
        )
    if not several:
        handles.append(Patch(color=INK, alpha=0.22, linewidth=0, label="lowest to highest trial"))
    handles.append(
        Line2D(
            [],
            [],
            color=INK,
            linestyle="",
            marker="o",
            markerfacecolor=PAPER,
            markersize=4.5,
            label=chosen,
        )
    )
    if (points["phase"] == "search").any():
        handles.append(
            Line2D([], [], color=VALIDATION_COLOUR, alpha=0.45, linewidth=0.7, label="search trial")
        )
    return handles


def comparison_stem(trials: pd.DataFrame) -> str:
    """Return the part of a figure's name that says which comparison it shows."""
    trained = trials[trials["rule"] != UNTRAINED]
    first, honest = trained.iloc[0], trained.loc[~trained["peeks"], "protocol"].unique()
    return "-".join([*(str(first[key]) for key in COMPARISON_KEYS), *honest])
