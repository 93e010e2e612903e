"""Draw docs/answer.png: a finished study's answer, and its ranking with intervals.

Run `uv run python docs/site/answer.py studies/quickstart` after a quickstart.
"""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import read_study
from analysis.ranking.ranking import Ranking, rankings
from analysis.ranking.summary import summarise

TARGET = Path(__file__).parents[1] / "answer.png"
METRIC = "recall_at_1"
INK, FAINT, HONEST, PEEKED = "#1c1e21", "#8a929b", "#1f4e79", "#c2500b"


def draw(ranking: Ranking) -> Figure:
    """Return the picture of a ranking."""
    figure = Figure(figsize=(8.2, 5.0), facecolor="white")
    answer = textwrap.fill(summarise(ranking)[0], 92)
    figure.text(0.03, 0.965, answer, va="top", fontsize=11, color=INK, linespacing=1.35)
    axes = figure.add_axes((0.2, 0.19, 0.77, 0.605))
    rows = [row for row in ranking.rows if row.rank]
    for place, row in enumerate(rows):
        ours, theirs = row.validation[METRIC], row.default.get(METRIC)
        low, high = ours.interval
        axes.plot([100 * low, 100 * high], [place, place], color=HONEST, linewidth=2.2, alpha=0.45)
        axes.plot(100 * ours.value, place, "o", color=HONEST, markersize=7)
        if theirs:
            axes.plot(100 * theirs.value, place, "*", color=PEEKED, markersize=9)
        axes.text(
            1.0, place, row.groups, transform=axes.get_yaxis_transform(), ha="right", va="center",
            fontsize=10, color=INK, family="monospace",
        )  # fmt: skip
    axes.set_yticks(range(len(rows)), [row.loss for row in rows], fontsize=10.5)
    axes.set_ylim(len(rows) - 0.4, -0.9)
    _baselines(axes, ranking)
    _label(axes)
    return figure


def _baselines(axes: Axes, ranking: Ranking) -> None:
    """Draw the best baseline as a line; raw pixels are far to the left."""
    name, numbers = max(ranking.baselines.items(), key=lambda each: each[1][METRIC].value)
    value = 100 * numbers[METRIC].value
    axes.axvline(value, color=FAINT, linestyle="--", linewidth=1.2)
    axes.text(value + 0.1, -0.62, f"untrained {name.split(' of ')[0]}", fontsize=9, color=FAINT)


def _label(axes: Axes) -> None:
    axes.set_xlabel("Recall@1 on the test classes in percent, with 95 % intervals", fontsize=10)
    axes.tick_params(length=0, colors=INK)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.grid(axis="x", alpha=0.25)
    low, high = axes.get_xlim()
    axes.set_xlim(low, high + 1.6)
    axes.plot([], [], "o-", color=HONEST, label="tuned on held-out train classes")
    axes.plot([], [], "*", color=PEEKED, label="as papers do: epoch chosen on test classes")
    axes.plot([], [], " ", label="same letter: no difference shown")
    axes.legend(
        loc="upper center", bbox_to_anchor=(0.38, -0.13), ncols=3, fontsize=8.5, frameon=False,
        columnspacing=1.2, handletextpad=0.3,
    )  # fmt: skip


if __name__ == "__main__":
    draw(rankings(read_study(sys.argv[1]))[0]).savefig(TARGET, dpi=130)
