"""The search in its order: the score of every trial, and the best so far."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from analysis.figures.curves import place_name
from analysis.figures.style import COLUMNS, DEFAULT, INK, PAPER, VALIDATION, Drawing, panels, sheet


def search(trials: pd.DataFrame, *, peeks: bool = False) -> Drawing | None:
    """A panel per loss: the selection score of each search trial in order, and the best so far; None without a search.

    peeks: the search with test feedback, which is never drawn among the others.
    """
    found = searched(trials[trials["peeks"] == peeks] if len(trials) else trials)
    if found.empty:
        return None
    losses = list(found["loss"].unique())
    with sheet(1.75 * -(-len(losses) // COLUMNS) + 0.6) as figure:
        colour, score = (DEFAULT, "test score*, %") if peeks else (VALIDATION, "selection score, %")
        for loss, panel in panels(figure, losses, name="search", x="search trial", y=score).items():
            _search_panel(panel, found[found["loss"] == loss], colour)
        figure.legend(handles=_search_legend(found, colour), loc="outside lower left", ncols=5, columnspacing=1.2, handletextpad=0.5)
        name = f"{'peeking-' if peeks else ''}search-{place_name(trials)}"
        return Drawing(name, f"Search trials{' with test feedback' if peeks else ''} of {', '.join(losses)}", figure)


def searched(trials: pd.DataFrame) -> pd.DataFrame:
    """Search trials with their number, score in percent and outcome."""
    found = trials[trials["phase"] == "search"] if len(trials) else trials
    if found.empty:
        return found
    found = found.reindex(columns=["loss", "trial", "peeks", "outcome", "select/best", "setting"]).rename(columns={"select/best": "score"})
    found = found.assign(number=found["trial"].str.rpartition("-")[2].astype(int), score=100 * found["score"].astype(float))
    return found.sort_values(["loss", "number"], ignore_index=True)


def _search_panel(panel: Axes, trials: pd.DataFrame, colour: str) -> None:
    scored = trials.dropna(subset=["score"])
    if scored.empty:
        return
    panel.step(scored["number"], scored["score"].cummax(), where="post", color=colour, linewidth=1.6)
    ended = scored[scored["outcome"] == "finished"]
    cut = scored[scored["outcome"] != "finished"]
    panel.plot(cut["number"], cut["score"], "o", color=colour, markersize=4.5, markerfacecolor=PAPER)
    panel.plot(ended["number"], ended["score"], "o", color=colour, markersize=4.5)
    first = scored[scored["number"] == 0]
    if not first.empty:
        panel.axhline(first["score"].iloc[0], color=INK, linestyle=":", linewidth=1)
        panel.plot(first["number"], first["score"], "D", color=INK, markersize=6)
    lost = trials[trials["score"].isna()]
    panel.plot(lost["number"], np.full(len(lost), scored["score"].min()), "x", color=INK, markersize=5)


def _search_legend(found: pd.DataFrame, colour: str) -> list[Line2D]:
    def dot(label: str, **style: Any) -> Line2D:
        return Line2D([], [], **{"color": colour, "linestyle": "", "marker": "o", "markersize": 4.5, "label": label, **style})

    handles = [
        dot("published setting", color=INK, marker="D", markersize=6),
        dot("run to the end"),
        dot("stopped early, diverged or out of memory", markerfacecolor=PAPER),
        Line2D([], [], color=colour, linewidth=1.6, label="best so far"),
    ]
    return [*handles, dot("no score", color=INK, marker="x")] if found["score"].isna().any() else handles
