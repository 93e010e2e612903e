"""Draw what a search tried: parallel coordinates, slices, and the importance of parameters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator

from analysis.figures.curves import RASTER_ABOVE, comparison_stem
from analysis.figures.search import numbered_trials
from analysis.figures.style import (
    INK,
    PANELS_PER_ROW,
    PAPER,
    VALIDATION_COLOUR,
    Drawing,
    panels,
    styled_figure,
)
from search_spaces import Range, Value, find_card, value_text

FAINT = 0.3  # the opacity of the worst line; the best is opaque, which also shows in grey
PUBLISHED_TRIAL = 0  # the number of the search trial with the published setting


def _scored(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the search trials that never peeked and have a score and a setting.

    With several replicates scores are centred: each has a split of its own, which may be easier.
    """
    honest = trials[~trials["peeks"].astype(bool)] if len(trials) else trials
    found = numbered_trials(honest)
    if found.empty:
        return found
    found = found[found["score"].notna() & found["setting"].map(bool)]
    by_loss = found.groupby("loss")["score"].transform("mean")
    own = found.groupby(["loss", "replicate"])["score"].transform("mean")
    return found.assign(score=found["score"] - own + by_loss)


def _centred(found: pd.DataFrame) -> str:
    several = found["replicate"].nunique() > 1
    return "\nScores are shifted so that all replicates have the same mean." if several else ""


def parallel_coordinates(trials: pd.DataFrame) -> Drawing | None:
    """Draw a panel per loss, an axis per parameter and a line per search trial.

    Better trials are stronger; the published setting is dashed.
    """
    found = _scored(trials)
    if found.empty:
        return None
    losses = list(found["loss"].unique())
    columns = min(2, len(losses))
    with styled_figure(1.95 * -(-len(losses) // columns) + 0.5) as figure:
        grid = panels(
            figure, losses, name="parallel", x="", y="", columns=columns, sharex=False, sharey=False
        )
        for loss, panel in grid.items():
            _parallel(panel, found[found["loss"] == loss], loss)
        words = (
            "Last axis: the selection score on held-out train classes, %, stronger for better. "
            f"Dashed: the published setting.{_centred(found)}"
        )
        figure.supxlabel(words, fontsize=8.5, x=0.01, ha="left")
        return Drawing(
            f"parallel-{comparison_stem(trials)}",
            f"Settings that the search tried for {', '.join(losses)}",
            figure,
        )


def _parallel(panel: Axes, found: pd.DataFrame, loss: str) -> None:
    names = list(dict.fromkeys(name for setting in found["setting"] for name in setting))
    scales = [
        Scale.of(loss, name, [setting[name] for setting in found["setting"] if name in setting])
        for name in names
    ]
    low, high = found["score"].min(), found["score"].max()
    shares = (
        (found["score"].to_numpy() - low) / (high - low) if high > low else np.full(len(found), 0.5)
    )
    heights = [
        [scale.position(setting.get(scale.name)) for scale in scales]
        for setting in found["setting"]
    ]
    heights = [[*height, share] for height, share in zip(heights, shares, strict=True)]
    order = np.argsort(shares, kind="stable")  # the best on top
    strong = FAINT + (1 - FAINT) * shares[order] ** 2
    lines = LineCollection(
        [list(enumerate(heights[i])) for i in order],
        colors=VALIDATION_COLOUR,
        linewidths=0.6 + 1.4 * strong,
        alpha=strong,
    )
    lines.set_rasterized(len(found) > RASTER_ABOVE)
    panel.add_collection(lines)
    for i in np.flatnonzero(found["number"] == PUBLISHED_TRIAL):
        panel.plot(heights[i], color=INK, linestyle=(0, (4, 2)), linewidth=1.5)
    for x, scale in enumerate(scales):
        _ends(panel, x, scale.low, scale.high)
    _ends(panel, len(scales), f"{low:.1f}", f"{high:.1f}")
    panel.set_xticks(range(len(scales) + 1), [_wrapped(name) for name in names] + ["score"])
    panel.set(xlim=(-0.3, len(scales) + 0.3), ylim=(-0.2, 1.2), yticks=[])
    panel.spines[["left", "bottom"]].set_visible(False)


def _ends(panel: Axes, x: float, low: str, high: str) -> None:
    panel.axvline(x, ymin=0.2 / 1.4, ymax=1.2 / 1.4, color=INK, linewidth=0.8)
    panel.text(x, -0.06, low, ha="center", va="top", fontsize=7.5)
    panel.text(x, 1.06, high, ha="center", va="bottom", fontsize=7.5)


def slices(trials: pd.DataFrame) -> Drawing | None:
    """Draw a panel per loss and parameter: the score of every search trial over its range."""
    found = _scored(trials)
    if found.empty:
        return None
    pairs = [
        (loss, name)
        for loss, part in found.groupby("loss")
        for name in dict.fromkeys(n for s in part["setting"] for n in s)
    ]
    titles = {f"{loss}: {name}": (str(loss), name) for loss, name in pairs}
    with styled_figure(1.75 * -(-len(titles) // PANELS_PER_ROW) + 0.5) as figure:
        grid = panels(
            figure, list(titles), name="slices", x="", y="selection score, %", sharex=False
        )
        for title, panel in grid.items():
            loss, name = titles[title]
            _slice(
                panel,
                found[
                    (found["loss"] == loss)
                    & found["setting"].map(lambda setting, name=name: name in setting)
                ],
                loss,
                name,
            )
            panel.set_title(f"{loss}\n{name}", fontsize=8.5)
        figure.supxlabel(
            "Diamond: the published setting. Faint to strong: from the first trial to the last."
            + _centred(found),
            fontsize=8.5,
            x=0.01,
            ha="left",
        )
        return Drawing(
            f"slices-{comparison_stem(trials)}", "The score over every parameter", figure
        )


def _slice(panel: Axes, found: pd.DataFrame, loss: str, name: str) -> None:
    values: list[Any] = [setting[name] for setting in found["setting"]]
    scale = Scale.of(loss, name, values)
    if scale.words:
        values = [scale.words.index(value_text(value)) for value in values]
        panel.set_xticks(range(len(scale.words)), scale.words)
        panel.margins(x=0.3)
    elif scale.log:
        panel.set_xscale("log")
        panel.minorticks_off()
    else:
        panel.xaxis.set_major_locator(MaxNLocator(4))
    strong = np.linspace(0.3, 1, len(found))[np.argsort(np.argsort(found["number"].to_numpy()))]
    marks = panel.scatter(values, found["score"], c=VALIDATION_COLOUR, s=22, linewidths=0)
    marks.set_alpha(strong)  # type: ignore[arg-type]
    marks.set_rasterized(len(found) > RASTER_ABOVE)
    if not scale.words:
        panel.set_xlim(*scale.wide())
    first = (found["number"] == PUBLISHED_TRIAL).to_numpy()
    panel.plot(
        np.asarray(values)[first],
        found["score"][first],
        "D",
        color=INK,
        markersize=6,
        markeredgecolor=PAPER,
    )


def importance_bars(frame: pd.DataFrame, name: str = "") -> Drawing | None:
    """Draw the importance of each parameter, a panel per loss.

    frame: a row per loss and parameter with the columns loss, parameter and importance, a share. A
    loss with a single parameter has no panel: its share is always 1.
    """
    frame = frame[frame.groupby("loss")["loss"].transform("size") > 1]
    if frame.empty:
        return None
    losses = list(frame["loss"].unique())
    most = frame.groupby("loss").size().max()
    with styled_figure((0.24 * most + 0.7) * -(-len(losses) // PANELS_PER_ROW) + 0.2) as figure:
        for loss, panel in panels(
            figure, losses, name="importance", x="share of the variance", y="", sharey=False
        ).items():
            part = frame[frame["loss"] == loss].sort_values("importance", ignore_index=True)
            panel.barh(part.index, part["importance"], color=VALIDATION_COLOUR, height=0.6)
            panel.set_yticks(part.index, [_wrapped(name) for name in part["parameter"]])
            panel.set_xlim(0, max(1.0, float(frame["importance"].max())))
            panel.grid(visible=False, axis="y")
            panel.xaxis.set_major_locator(MaxNLocator(4))
        return Drawing(
            f"importance-{name}" if name else "importance",
            f"Importance of the parameters of {', '.join(losses)}",
            figure,
        )


class Scale:
    """Map a parameter's values to 0 to 1: by its card's range, else by the values tried."""

    def __init__(
        self, name: str, *, words: list[str], ends: tuple[float, float], log: bool
    ) -> None:
        self.name, self.words, self.ends, self.log = name, words, ends, log
        self.low, self.high = (
            (words[0], words[-1]) if words else (f"{ends[0]:.3g}", f"{ends[1]:.3g}")
        )

    @classmethod
    def of(cls, loss: str, name: str, values: list[Value]) -> Scale:
        numbers = [
            float(value)
            for value in values
            if isinstance(value, (int, float)) and not isinstance(value, bool)
        ]
        if len(numbers) < len(values):
            return cls(
                name,
                words=sorted({value_text(value) for value in values}),
                ends=(0.0, 0.0),
                log=False,
            )
        card = _range(loss, name)
        if card and all(card.low <= number <= card.high for number in numbers):
            return cls(name, words=[], ends=(card.low, card.high), log=card.log)
        log = name.startswith("training.") and min(numbers) > 0
        return cls(name, words=[], ends=(min(numbers), max(numbers)), log=log)

    def wide(self) -> tuple[float, float]:
        """Return both ends, with a margin."""
        low, high = self.ends
        if self.log:
            return low * (low / high) ** 0.05, high * (high / low) ** 0.05
        edge = 0.05 * (high - low) or 0.5
        return low - edge, high + edge

    def position(self, value: Value | None) -> float:
        """Return the value's share of the scale; the middle if it is missing or all are equal."""
        if value is None:
            return 0.5
        if self.words:
            return self.words.index(value_text(value)) / max(1, len(self.words) - 1)
        low, high, number = *self.ends, float(value)
        if self.log:
            low, high, number = math.log(low), math.log(high), math.log(number)
        return (number - low) / (high - low) if high > low else 0.5


def _range(loss: str, name: str) -> Range | None:
    try:
        param = find_card(loss).params.get(name)
    except ValueError:
        return None
    return param.search if param and isinstance(param.search, Range) else None


def _wrapped(name: str) -> str:
    """Return a long name in two lines."""
    name = name.removeprefix("training.")
    middle = name.find("_", len(name) // 3)
    return f"{name[:middle]}\n{name[middle + 1 :]}" if len(name) > 10 and middle > 0 else name
