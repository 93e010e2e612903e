"""Draw progress by year: how much each loss improves on an older one, and what papers claimed."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.figures.style import INK, SERIES, Drawing, styled_figure
from analysis.tables.table import Table

# A line for each combination; it shows the mean over embedding sizes.
LINE_COLUMNS = ["dataset", "backbone", "protocol"]
NO_YEAR = 9999  # sorts losses without a year last


def improvement_by_year(table: Table, base: str = "contrastive") -> Drawing | None:
    """Draw a line per dataset, backbone and protocol; what peeks is hollow and starred.

    table: the table `improvement` of a study or of a paper.
    """
    rows = [row for row in table.rows if row[f"over_{base}"]]
    if not rows:
        return None
    frame = pd.DataFrame(
        [
            {**row, "ahead": 100 * row[f"over_{base}"].value, "peeks": row[f"over_{base}"].peeks}
            for row in rows
        ]
    )
    names = _names_in_order(frame)
    position = {loss: x for x, loss in enumerate(names)}
    labelled = [name for name in LINE_COLUMNS if frame[name].nunique() > 1 or name == "dataset"]
    with styled_figure(3.6 + 0.02 * len(names)) as figure:
        axis = figure.subplots()
        axis.axhline(0, color=INK, linewidth=1)
        for i, (_, part) in enumerate(frame.groupby(LINE_COLUMNS, sort=False)):
            colour, marker, dashes = SERIES[i % len(SERIES)]
            line = part.groupby(part["loss"].map(position))["ahead"].mean()
            peeks = bool(part["peeks"].any())
            axis.plot(
                line.index,
                line,
                color=colour,
                marker=marker,
                linestyle=dashes,
                markerfacecolor="none" if peeks else colour,
                markersize=5,
                label=", ".join(str(part[name].iloc[0]) for name in labelled) + "*" * peeks,
            )
        axis.set_xticks(
            range(len(names)),
            list(names.values()),
            rotation=45 if len(names) > 7 else 0,
            ha="right" if len(names) > 7 else "center",
        )
        axis.set(ylabel=f"score over that of {base}, %")
        figure.legend(loc="outside lower left", ncols=3)
        return Drawing(f"improvement-over-{base}", f"Improvement over {base} by year", figure)


def claims_and_scores_by_year(table: Table) -> Drawing | None:
    """Draw claimed scores by year, and beside them the measured ones, each with its trend.

    table: the table `papers_versus_reality` of a study or of a paper.
    """
    frame = pd.DataFrame([{**dict.fromkeys(("claimed", "measured")), **row} for row in table.rows])
    if frame.empty or not frame["measured"].notna().any():
        return None
    frame = frame[frame["year"].notna()]
    with styled_figure(3.4) as figure:
        panels = figure.subplots(1, 2, sharex=True, sharey=True)
        for axis, name in zip(panels, ("claimed", "measured"), strict=True):
            axis.set_title(f"according to {'papers' if name == 'claimed' else 'measurements'}")
            axis.set(xlabel="year of the loss's paper")
            axis.xaxis.set_major_locator(MaxNLocator(integer=True))
        panels[0].set(ylabel="Recall@1, %")
        for i, (dataset, part) in enumerate(frame.groupby("dataset", sort=False)):
            for axis, name in zip(panels, ("claimed", "measured"), strict=True):
                mine = part[part[name].notna()].drop_duplicates(["loss", *LINE_COLUMNS])
                _trend(axis, mine["year"], mine[name], i, str(dataset))
        figure.legend(*panels[1].get_legend_handles_labels(), loc="outside lower left", ncols=3)
        label = "Claimed and measured Recall@1 by year"
        return Drawing("papers-versus-reality", label, figure)


def _trend(axis: Axes, years: pd.Series, numbers: pd.Series, series: int, label: str) -> None:
    """Draw scores as points and their least-squares line; what peeks is hollow and starred."""
    if numbers.empty:
        return
    colour, marker, dashes = SERIES[series % len(SERIES)]
    peeks = any(number.peeks for number in numbers)
    x, y = years.to_numpy(float), np.array([100 * number.value for number in numbers])
    axis.plot(
        x,
        y,
        color=colour,
        marker=marker,
        linestyle="none",
        markerfacecolor="none" if peeks else colour,
        markersize=5,
        label=label + "*" * peeks,
    )
    if len(set(x)) > 1:
        ends = np.array([x.min(), x.max()])
        axis.plot(ends, np.polyval(np.polyfit(x, y, 1), ends), color=colour, linestyle=dashes)


def _names_in_order(frame: pd.DataFrame) -> dict[str, str]:
    """Return each loss with its name on the axis, in the order of their years."""
    order = (
        frame.assign(year=frame["year"].fillna(NO_YEAR))
        .groupby("loss")["year"]
        .min()
        .reset_index()
        .sort_values(["year", "loss"])
    )
    return {
        str(loss): f"{loss}\n{int(year)}" if year < NO_YEAR else str(loss)
        for loss, year in order.itertuples(index=False)
    }
