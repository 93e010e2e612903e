"""Papers against reality: how much each year's loss improves on an older one, by who measured it."""

from __future__ import annotations

import pandas as pd

from analysis.figures.style import INK, SERIES, Drawing, metric_label, sheet


def relative_improvement(frame: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The frame with a column `improvement`: percent over the baseline of the same source. Sources without the baseline are left out."""
    of = frame[frame["loss"] == baseline].groupby("source")["value"].mean() if len(frame) else pd.Series(dtype=float)
    known = frame[frame["source"].isin(of.index)] if len(frame) else frame
    return known.assign(improvement=100 * (known["value"] / known["source"].map(of) - 1)) if len(known) else known.assign(improvement=[])


def improvement_by_year(frame: pd.DataFrame, baseline: str = "contrastive", *, metric: str = "recall_at_1") -> Drawing | None:
    """frame: one row per source and loss with the columns source, loss, year, value. A line per source, over the losses by their years."""
    shown = relative_improvement(frame, baseline)
    if shown.empty:
        return None
    order = shown.groupby("loss")["year"].min().reset_index().sort_values(["year", "loss"])
    place = {loss: x for x, loss in enumerate(order["loss"])}
    with sheet(3.6) as figure:
        axis = figure.subplots()
        axis.axhline(0, color=INK, linewidth=1)
        for i, (source, part) in enumerate(shown.groupby("source", sort=False)):
            colour, marker, dashes = SERIES[i % len(SERIES)]
            line = part.groupby(part["loss"].map(place))["improvement"].mean()
            axis.plot(line.index, line, color=colour, marker=marker, linestyle=dashes, linewidth=1.4, markersize=5, label=str(source))
        names = [f"{loss}\n{int(year)}" for loss, year in order.itertuples(index=False)]
        axis.set_xticks(range(len(names)), names, rotation=45 if len(names) > 7 else 0, ha="right" if len(names) > 7 else "center")
        axis.set(ylabel=f"{metric_label(metric)} over {baseline}, %")
        figure.legend(loc="outside lower left", ncols=4)
        return Drawing(f"improvement-over-{baseline}", f"Improvement over {baseline} by year", figure)
