"""Make the table of mean ranks over cells, with Friedman's test where there are enough datasets."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.ranking.measurement import Measurement, metric_label
from analysis.statistics import CAVEAT, Friedman, blocks_of, friedman, without_test
from analysis.statistics import mean_ranks as mean_ranks_of
from analysis.tables.scores import SETUPS, own
from analysis.tables.table import Column, Table, table
from analysis.tables.tournament import matches


def mean_ranks(found: pd.DataFrame, metric: str = "recall_at_1") -> Table:
    """Return what a critical-difference diagram shows. found: scores."""
    mine = own(found)
    rows: list[dict[str, Any]] = []
    notes = []
    for setup, part in sorted(
        mine[mine["metric"] == metric].groupby("setup"), key=lambda pair: SETUPS[str(pair[0])]
    ):
        cells = matches(part).T
        result = friedman(blocks_of(cells))
        ranks = result.mean_ranks if result else mean_ranks_of(cells)
        if len(ranks) < 3:
            continue
        letters = result.letters() if result else {}
        for loss, rank in ranks.items():
            rows.append(
                {
                    "setup": str(setup),
                    "loss": str(loss),
                    "mean_rank": Measurement(float(rank), peeks=setup == "default"),
                    "groups": letters.get(str(loss), ""),
                }
            )
        notes.append(f"{setup}: {_over(cells, ranks, result)} {_test(result, cells)}")
    columns = [
        Column("setup", in_title=True),
        Column("loss"),
        Column("mean_rank", form="number", digits=2, parts=("peeks",)),
        Column("groups", "no difference shown"),
    ]
    title = f"Mean ranks by {metric_label(metric)} over cells"
    return table("mean_ranks", title, columns, rows, notes=[*notes, CAVEAT] if rows else [])


def _over(cells: pd.DataFrame, ranks: pd.Series, result: Friedman | None) -> str:
    """Say what the mean is over, the same as in the test, and which losses are left out."""
    shared = len(cells[ranks.index].dropna())
    over = (
        f"{shared} cells"
        if shared == len(cells)
        else f"the {shared} of {len(cells)} cells that have every loss"
    )
    if result:
        over = f"{result.blocks} datasets, which rank losses by their mean ranks in {over}"
    left_out = [str(loss) for loss in cells if loss not in ranks.index]
    without = f", without {', '.join(left_out)} (missing in too many cells)" if left_out else ""
    return f"mean over {over}{without}."


def _test(result: Friedman | None, cells: pd.DataFrame) -> str:
    if not result:
        return without_test(cells)
    return (
        f"Friedman chi-square {result.statistic:.2f} on {len(result.mean_ranks) - 1} degrees of "
        f"freedom over {result.blocks} datasets, p = {result.p_value:.2g}; Nemenyi's critical "
        f"difference {result.critical_difference:.2f}."
    )
