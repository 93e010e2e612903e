"""Draw a search in its order: the score of every trial, and the best so far."""

from __future__ import annotations

from itertools import cycle
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.curves import comparison_stem
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

MARKERS, DASHES = "os^vP", ("-", "--", "-.", ":")  # of the searches of further replicates


def search_progress(trials: pd.DataFrame, *, peeks: bool = False) -> Drawing | None:
    """Draw a panel per loss: the selection score of each search trial, and the best so far of each
    replicate's search.

    peeks: draw the search with test feedback, which never shares a figure with the others.
    """
    found = numbered_trials(trials[trials["peeks"] == peeks] if len(trials) else trials)
    if found.empty:
        return None
    losses = list(found["loss"].unique())
    with styled_figure(1.75 * -(-len(losses) // PANELS_PER_ROW) + 0.6) as figure:
        colour, score = (
            (DEFAULT_COLOUR, "test score*, %")
            if peeks
            else (VALIDATION_COLOUR, "selection score, %")
        )
        for loss, panel in panels(figure, losses, name="search", x="search trial", y=score).items():
            _search_panel(panel, found[found["loss"] == loss], colour)
        figure.legend(
            handles=_search_legend(found, colour),
            loc="outside lower left",
            ncols=5,
            columnspacing=1.2,
            handletextpad=0.5,
        )
        name = f"{'peeking-' if peeks else ''}search-{comparison_stem(trials)}"
        return Drawing(
            name,
            f"Search trials{' with test feedback' if peeks else ''} of {', '.join(losses)}",
            figure,
        )


def numbered_trials(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the search trials with their replicate, number, score in percent and outcome."""
    found = trials[trials["role"] == "search"] if len(trials) else trials
    if found.empty:
        return found
    found = found.reindex(
        columns=["loss", "replicate", "number", "peeks", "outcome", "select/best", "setting"]
    ).rename(columns={"select/best": "score"})
    found = found.assign(
        number=found["number"].astype(int),
        score=100 * found["score"].astype(float),
    )
    return found.sort_values(["loss", "replicate", "number"], ignore_index=True)


def _search_panel(panel: Axes, trials: pd.DataFrame, colour: str) -> None:
    """Draw trials at their place in their search; the first, at 1, has the published setting."""
    trials = trials.assign(number=trials["number"] + 1)
    scored = trials.dropna(subset=["score"])
    if scored.empty:
        return
    several = trials["replicate"].nunique() > 1
    looks = zip(cycle(MARKERS), cycle(DASHES))
    for (_, mine), (marker, dashes) in zip(scored.groupby("replicate"), looks, strict=False):
        best, width = mine["score"].cummax(), 1.2 if several else 1.6
        panel.step(
            mine["number"], best, where="post", color=colour, linestyle=dashes, linewidth=width
        )
        for part, face in (
            (mine[mine["outcome"] != "finished"], PAPER),
            (mine[mine["outcome"] == "finished"], colour),
        ):
            panel.plot(
                part["number"],
                part["score"],
                marker,
                color=colour,
                markersize=4.5,
                markerfacecolor=face,
            )
    first = scored[scored["number"] == 1]
    if not first.empty:
        if not several:
            panel.axhline(first["score"].iloc[0], color=INK, linestyle=":", linewidth=1)
        panel.plot(first["number"], first["score"], "D", color=INK, markersize=6)
    lost = trials[trials["score"].isna()]
    panel.plot(
        lost["number"], np.full(len(lost), scored["score"].min()), "x", color=INK, markersize=5
    )


def _search_legend(found: pd.DataFrame, colour: str) -> list[Line2D]:
    def dot(label: str, **style: Any) -> Line2D:
        return Line2D(
            [],
            [],
            **{
                "color": colour,
                "linestyle": "",
                "marker": "o",
                "markersize": 4.5,
                "label": label,
                **style,
            },
        )

    best = "best so far" + ", by search" * (found["replicate"].nunique() > 1)
    handles = [
        dot("published setting", color=INK, marker="D", markersize=6),
        dot("run to the end"),
        dot("ended early, diverged or out of memory", markerfacecolor=PAPER),
        Line2D([], [], color=colour, linewidth=1.6, label=best),
    ]
    return (
        [*handles, dot("no score", color=INK, marker="x")]
        if found["score"].isna().any()
        else handles
    )
