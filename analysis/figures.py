"""Figures: learning curves and the default-against-validation chart, as inline SVG."""

from __future__ import annotations

import io
import re
from html import escape
from itertools import cycle
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from analysis.places import AXES
from analysis.tables import HONEST, Number, Ranking
from trainables.contract import PEEKING, UNTRAINED

# Blue and vermillion of Okabe and Ito: told apart with any colour vision; dashes and hollow markers tell them apart in grey.
VALIDATION, DEFAULT = "#0072b2", "#d55e00"
INK, PAPER = "#010101", "#fefefe"
# A figure stands inside a page, so it takes the page's colours and is right on light and on dark.
PAGE = {INK: "currentColor", PAPER: "var(--paper, #fff)", VALIDATION: "var(--validation, #0072b2)", DEFAULT: "var(--default, #d55e00)"}
FONT = "font-family: system-ui, -apple-system, 'Segoe UI', 'Liberation Sans', Arial, sans-serif"
WIDTH = 9.2  # inches, of every figure
COLUMNS = 4  # panels side by side
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",  # text stays text: it can be found, copied and read aloud
    "svg.hashsalt": "fairtrial",  # the same study gives the same file
    "font.family": ["DejaVu Sans"],  # measured with a wide font, so a page's own one always fits
    "font.size": 8.5,
    "text.color": INK,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": INK,
    "grid.alpha": 0.13,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.solid_capstyle": "round",
}


def metric_label(name: str) -> str:
    """recall_at_1 -> Recall@1, map_at_r -> MAP@R."""
    head, at, tail = name.partition("_at_")
    return f"{'MAP' if head == 'map' else head.capitalize()}@{tail.upper()}" if at else name.replace("_", "-").capitalize()


def learning_curves(trials: pd.DataFrame, curves: pd.DataFrame, metric: str) -> str:
    """A row of panels per protocol, each with its own scale, and a panel per loss; empty if nothing was trained."""
    points = _points(trials, curves, f"select/{metric}")
    if points.empty:
        return ""
    losses = list(points["loss"].unique())
    protocols = list(points.sort_values("peeks", ascending=False, kind="stable")["protocol"].unique())
    with mpl.rc_context(STYLE):
        rows = -(-len(losses) // COLUMNS)
        figure = Figure(figsize=(WIDTH, len(protocols) * (0.45 + 1.6 * rows) + 0.7), layout="constrained")
        parts = figure.subfigures(len(protocols), 1, squeeze=False, hspace=0.06)[:, 0]
        for part, protocol in zip(parts, protocols, strict=True):
            mine = points[points["protocol"] == protocol]
            peeks = bool(mine["peeks"].iloc[0])
            part.suptitle(_scored_on(peeks, int(mine["folds"].max())), x=0.005, ha="left", fontsize=9.5, fontweight="bold")
            for loss, panel in _panels(part, losses, name=f"curves-{protocol}", x="epoch", y=f"{metric_label(metric)}, %").items():
                _curve_panel(panel, mine[mine["loss"] == loss], DEFAULT if peeks else VALIDATION, "--" if peeks else "-")
        figure.legend(handles=_curve_legend(points), loc="outside lower left", ncols=3)
        return _svg(figure, f"curves-{_place(trials)}", f"Learning curves of {', '.join(losses)}")


def differences(ranking: Ranking) -> str:
    """Test Recall@1 of both setups with intervals and baselines; beside it the signed difference."""
    rows = ranking.rows
    paired = [row for row in rows if "recall_at_1" in row.difference]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.42 * len(rows) + 1.5), layout="constrained")
        ratios = [3, 2] if paired else [1]
        axes = figure.subplots(1, len(ratios), sharey=True, width_ratios=ratios, squeeze=False)[0]
        left: Axes = axes[0]
        for y, row in enumerate(rows):
            _whisker(left, y - 0.15 * bool(row.validation), row.default.get("recall_at_1"), DEFAULT)
            _whisker(left, y + 0.15 * bool(row.default), row.validation.get("recall_at_1"), VALIDATION)
            if row in paired:
                _whisker(axes[1], y, row.difference["recall_at_1"], INK)
        styles = cycle([(0, (5, 3)), (0, (1, 2)), (0, (6, 2, 1, 2))])
        for (name, numbers), dashes in zip(ranking.baselines.items(), styles, strict=False):
            label = f"{name} ({numbers['recall_at_1'].percent()}), rule {numbers['recall_at_1'].rule}"
            left.axvline(100 * numbers["recall_at_1"].value, color=INK, linestyle=dashes, linewidth=1, alpha=0.7, label=label)
        left.set_yticks(range(len(rows)), [row.loss for row in rows])
        left.set(ylim=(len(rows) - 0.5, -0.5), title="Test Recall@1, % with 95 % interval")
        if paired:
            axes[1].axvline(0, color=INK, linewidth=1)
            axes[1].set_title("Validation minus default*, points")
        for axis in axes:
            axis.grid(visible=False, axis="y")
        figure.legend(handles=[*_setup_legend(rows), *left.get_legend_handles_labels()[0]], loc="outside lower left", ncols=2)
        name = f"differences-{ranking.dataset}-{ranking.backbone}-{ranking.embedding_size}-{ranking.protocol}"
        return _svg(figure, name, "Test Recall@1 of each loss under both setups, and the difference")


def search(trials: pd.DataFrame, *, peeks: bool = False) -> str:
    """A panel per loss: the selection score of each search trial in order, and the best so far; empty without a search.

    peeks: the search with test feedback, which is never drawn among the others.
    """
    found = _searched(trials[trials["peeks"] == peeks] if len(trials) else trials)
    if found.empty:
        return ""
    losses = list(found["loss"].unique())
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1.75 * -(-len(losses) // COLUMNS) + 0.6), layout="constrained")
        colour, score = (DEFAULT, "test score*, %") if peeks else (VALIDATION, "selection score, %")
        for loss, panel in _panels(figure, losses, name="search", x="search trial", y=score).items():
            _search_panel(panel, found[found["loss"] == loss], colour)
        figure.legend(handles=_search_legend(found, colour), loc="outside lower left", ncols=5, columnspacing=1.2, handletextpad=0.5)
        name = f"{'peeking-' if peeks else ''}search-{_place(trials)}"
        return _svg(figure, name, f"Search trials{' with test feedback' if peeks else ''} of {', '.join(losses)}")


def _points(trials: pd.DataFrame, curves: pd.DataFrame, metric: str) -> pd.DataFrame:
    """One row per trial and epoch, in percent, with what the trial was; losses in alphabetical order, as in every figure.

    Only search trials and those of a loss's own number: a published setting has another curve, and a refit none.
    """
    if trials.empty or curves.empty:
        return pd.DataFrame()
    drawn = trials[(trials["rule"] != UNTRAINED) & trials["role"].isin(["search", "final"])]
    about = drawn.reindex(columns=["run_id", "loss", "protocol", "phase", "peeks", "folds", "chosen_epoch"])
    points = curves[curves["metric"] == metric].dropna(subset=["value"]).merge(about, on="run_id")
    return points.assign(value=100 * points["value"]).sort_values(["loss", "run_id", "epoch"], ignore_index=True)


def _searched(trials: pd.DataFrame) -> pd.DataFrame:
    """Search trials with their number, score in percent and outcome."""
    found = trials[trials["phase"] == "search"] if len(trials) else trials
    if found.empty:
        return found
    found = found.reindex(columns=["loss", "trial", "peeks", "outcome", "select/best"]).rename(columns={"select/best": "score"})
    found = found.assign(number=found["trial"].str.rpartition("-")[2].astype(int), score=100 * found["score"].astype(float))
    return found.sort_values(["loss", "number"], ignore_index=True)


def _panels(figure: FigureBase, losses: list[str], *, name: str, x: str, y: str) -> dict[str, Axes]:
    columns = min(COLUMNS, len(losses))
    grid = figure.subplots(-(-len(losses) // columns), columns, sharex=True, sharey=True, squeeze=False)
    for spare in grid.flat[len(losses) :]:
        spare.set_visible(False)
    panels: dict[str, Axes] = dict(zip(losses, grid.flat, strict=False))
    for axis in grid[:, 0]:
        axis.set_ylabel(y)
    for loss, panel in panels.items():
        panel.set(title=loss, xlabel=x)
        panel.set_gid(f"panel-{name}-{loss}")
        panel.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
        panel.tick_params(labelbottom=True)
    return panels


def _curve_panel(panel: Axes, points: pd.DataFrame, colour: str, dashes: str) -> None:
    for _, trial in points[points["phase"] == "search"].groupby("run_id"):
        panel.plot(trial["epoch"], trial["value"], color=colour, alpha=0.35, linewidth=0.7, marker="." if len(trial) == 1 else "")
    final = points[points["phase"] == "final"]
    if final.empty:
        return
    by_epoch = final.groupby("epoch")["value"].agg(["mean", "min", "max"])
    panel.fill_between(by_epoch.index, by_epoch["min"], by_epoch["max"], color=colour, alpha=0.22, linewidth=0)
    panel.plot(by_epoch.index, by_epoch["mean"], color=colour, linestyle=dashes, linewidth=1.8)
    chosen = _chosen(final)
    panel.plot(chosen["epoch"], chosen["value"], "o", color=colour, markersize=4.5, markerfacecolor=PAPER, markeredgewidth=1.2)


def _chosen(final: pd.DataFrame) -> pd.DataFrame:
    """The point of each trial that is nearest to its chosen epoch: over several folds that is a mean and may lie between two."""
    away = (final["epoch"] - final["chosen_epoch"]).abs().dropna()
    return final.loc[away.groupby(final["run_id"]).idxmin()]


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


def _whisker(panel: Axes, y: float, number: Number | None, colour: str) -> None:
    """Hollow and dashed if the number peeks, solid if not."""
    if number is None:
        return
    value, low, high = 100 * number.value, 100 * number.low, 100 * number.high
    panel.plot([low, high], [y, y], color=colour, linewidth=1.5, linestyle=(0, (3, 1.5)) if number.peeks else "-", solid_capstyle="butt")
    panel.plot([value], [y], "o", color=colour, markersize=6, markeredgewidth=1.4, markerfacecolor=PAPER if number.peeks else colour)


def _scored_on(peeks: bool, folds: int) -> str:
    if peeks:
        return "Default setup*: every epoch scored on the test classes (peeks)"
    mean = f", mean of {folds} folds" if folds > 1 else ""
    return f"Validation setup: scored on held-out train classes{mean}; fewer classes, another scale"


def _curve_legend(points: pd.DataFrame) -> list[Line2D | Patch]:
    handles: list[Line2D | Patch] = []
    chosen = "epoch chosen, one per seed" + (" (nearest to the folds' mean)" if points["folds"].max() > 1 else "")
    if points["peeks"].any():
        handles.append(
            Line2D([], [], color=DEFAULT, linestyle="--", linewidth=1.8, label="default setup*: peeks at test classes, mean of seeds")
        )
    if not points["peeks"].all():
        handles.append(Line2D([], [], color=VALIDATION, linewidth=1.8, label="validation setup, mean of seeds"))
    handles.append(Patch(color=INK, alpha=0.22, linewidth=0, label="lowest to highest seed"))
    handles.append(Line2D([], [], color=INK, linestyle="", marker="o", markerfacecolor=PAPER, markersize=4.5, label=chosen))
    if (points["phase"] == "search").any():
        handles.append(Line2D([], [], color=VALIDATION, alpha=0.45, linewidth=0.7, label="search trial"))
    return handles


def _setup_legend(rows: list[Any]) -> list[Line2D]:
    common: dict[str, Any] = {"marker": "o", "markersize": 6, "linewidth": 1.5}
    handles = []
    if any(row.default for row in rows):
        label = f"default setup*, rule {PEEKING}: epoch chosen on the test classes"
        handles.append(Line2D([], [], color=DEFAULT, linestyle=(0, (3, 1.5)), markerfacecolor=PAPER, label=label, **common))
    if any(row.validation for row in rows):
        handles.append(Line2D([], [], color=VALIDATION, label=f"validation setup, rule {HONEST}: nothing chosen on test classes", **common))
    return handles


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


def _place(trials: pd.DataFrame) -> str:
    """Names a figure on a page that has several."""
    trained = trials[trials["rule"] != UNTRAINED]
    first, honest = trained.iloc[0], trained.loc[~trained["peeks"], "protocol"].unique()
    return "-".join([*(str(first[axis]) for axis in AXES), *honest])


def _svg(figure: Figure, name: str, label: str) -> str:
    """Ready to stand in a page: no prolog, no addresses, the page's colours, and ids that no other figure has."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    viewbox = re.search(r'viewBox="[^"]*"', text)
    assert viewbox, "matplotlib writes a viewBox"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" {viewbox[0]} '
    text = re.sub(r"<svg[^>]*>", f'{head}role="img" aria-label="{escape(label)}" style="{FONT}">', text, count=1)
    text = re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-", text)
    text = text.replace("font-family: 'DejaVu Sans'; ", "")
    for colour, of_page in PAGE.items():
        text = text.replace(colour, of_page)
    return text
