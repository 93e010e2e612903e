"""Progress by year: how much each loss improves on an older one, losses in the order of their years."""

from __future__ import annotations

import pandas as pd

from analysis.figures.style import INK, SERIES, Drawing, sheet
from analysis.tables.table import Table

LINE = ["dataset", "backbone", "protocol"]  # a line for each; over embedding sizes the mean is shown


def improvement_by_year(table: Table, base: str = "contrastive") -> Drawing | None:
    """table: `improvement`, of a study or of a paper. A line per dataset, backbone and protocol; what peeked is hollow and starred."""
    lines = [row for row in table.rows if row[f"over_{base}"]]
    if not lines:
        return None
    frame = pd.DataFrame([{**row, "ahead": 100 * row[f"over_{base}"].value, "peeks": row[f"over_{base}"].peeks} for row in lines])
    order = frame.assign(year=frame["year"].fillna(9999)).groupby("loss")["year"].min().reset_index().sort_values(["year", "loss"])
    place = {loss: x for x, loss in enumerate(order["loss"])}
    names = [f"{loss}\n{int(year)}" if year < 9999 else str(loss) for loss, year in order.itertuples(index=False)]
    told = [name for name in LINE if frame[name].nunique() > 1 or name == "dataset"]
    with sheet(3.6 + 0.02 * len(names)) as figure:
        axis = figure.subplots()
        axis.axhline(0, color=INK, linewidth=1)
        for i, (about, part) in enumerate(frame.groupby(LINE, sort=False)):
            colour, marker, dashes = SERIES[i % len(SERIES)]
            line, peeks = part.groupby(part["loss"].map(place))["ahead"].mean(), bool(part["peeks"].any())
            label = ", ".join(str(value) for name, value in zip(LINE, about, strict=True) if name in told) + "*" * peeks
            fill = "none" if peeks else colour
            axis.plot(line.index, line, color=colour, marker=marker, linestyle=dashes, markerfacecolor=fill, markersize=5, label=label)
        axis.set_xticks(range(len(names)), names, rotation=45 if len(names) > 7 else 0, ha="right" if len(names) > 7 else "center")
        axis.set(ylabel=f"score over that of {base}, %")
        figure.legend(loc="outside lower left", ncols=3)
        return Drawing(f"improvement-over-{base}", f"Improvement over {base} by year", figure)
