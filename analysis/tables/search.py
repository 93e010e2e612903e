"""Make the table of searches: the best score so far by trials and by epochs, and tunability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.ranking.fairness import epochs_spent, searched_parameters
from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.statistics import best_so_far, best_within, tunability
from analysis.tables.frames import LOSS_KEYS
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table

TRIAL_COUNTS = (1, 2, 4, 8, 16, 32, 64)
BUDGETS = (1, 2, 4, 8)  # in epochs of the longest search trial
SCORE = "select/best"
PARTS = ("low", "high", "peeks")
NOTES = [
    "Best score on the select classes so far, in the order in which the trials ran: after 1 trial "
    "it is that of the published setting. After E epochs: of the first trials that ran at most E "
    "epochs together.",
    "Losses differ in number of parameters and trials in epochs, so equal trials are not equal "
    "effort. The best of many tries on the select classes is too high by luck.",
]
RANGE_NOTE = (
    "Means over searches, one per replicate; [low, high]: the lowest and the highest search, which "
    "is not an interval."
)


def search(rows: StudyRows) -> Table:
    """Return a row per searched cell; a search with test feedback is starred."""
    epochs = epochs_spent(rows)
    cells = list(searched_cells(rows, scored=False))
    runs = [str(run) for _, trials in cells for run in trials["run_id"]]
    longest = max((epochs.get(run, 0) for run in runs), default=0)
    budgets = [count * longest for count in BUDGETS] if longest else []
    counts = [Column(f"after_{n}", _after(n, "trial"), "percent", 1, PARTS) for n in TRIAL_COUNTS]
    spent = [Column(f"after_{n}_epochs", _after(n, "epoch"), "percent", 1, PARTS) for n in budgets]
    columns = [
        *COMPARISON_COLUMNS,
        Column("loss"),
        Column("searches", form="count"),
        Column("trials", form="count"),
        Column("epochs", form="count"),
        Column("parameters", "searched parameters", "count"),
        *counts,
        *spent,
        Column("best", form="percent", digits=1, parts=PARTS),
        Column("within_a_point", "settings within a point", "percent", 0, PARTS),
    ]
    lines = [about | _line(trials, epochs, budgets) for about, trials in cells]
    several = any(line["searches"] > 1 for line in lines)
    notes = [*([RANGE_NOTE] if several else []), *NOTES] if lines else []
    return table("search", "What the search found", columns, lines, notes=notes)


def _after(count: int, what: str) -> str:
    return f"after {count} {what}{'s' * (count != 1)}"


def searched_cells(
    rows: StudyRows, *, scored: bool = True
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield by cell what its search trials share, and the trials of all its searches, in order.

    scored: without trials that have no score. A cell without any score is left out.
    """
    if rows.trials.empty or SCORE not in rows.trials:
        return
    tried = rows.trials[rows.trials["role"] == "search"].sort_values(
        ["replicate", "number"], kind="stable"
    )
    for cell in tried["cell"].unique():
        trials = tried[tried["cell"] == cell]
        known = trials[trials[SCORE].notna()]
        if len(known):
            about = {name: trials[name].iloc[0] for name in LOSS_KEYS}
            yield about, known if scored else trials


def _line(
    trials: pd.DataFrame, epochs: Mapping[str, int], budgets: Sequence[int]
) -> dict[str, Any]:
    peeks = bool(trials["peeks"].iloc[0])
    searches = [mine for _, mine in trials.groupby("replicate")]
    scores = [mine[SCORE].astype(float).to_list() for mine in searches]
    spent = [[epochs.get(str(run), 0) for run in mine["run_id"]] for mine in searches]
    after: dict[str, Any] = {
        f"after_{n}": _over([best_so_far(each)[n - 1] for each in scores], peeks=peeks)
        for n in TRIAL_COUNTS
        if all(n <= len(each) for each in scores)
    }
    after |= {
        f"after_{budget}_epochs": _over(
            [best_within(each, ran, budget) for each, ran in zip(scores, spent, strict=True)],
            peeks=peeks,
        )
        for budget in budgets
        if budget <= max(sum(ran) for ran in spent)
    }
    known = [[score for score in each if score == score] for each in scores]
    return {
        "searches": len(searches),
        "trials": len(trials),
        "epochs": sum(sum(ran) for ran in spent),
        "parameters": len(searched_parameters(trials["setting"])),
        **after,
        "best": _over([max(each, default=np.nan) for each in known], peeks=peeks),
        "within_a_point": _over([tunability(each) for each in known], peeks=peeks),
    }


def _over(values: Iterable[float], *, peeks: bool) -> Measurement | None:
    """Return the mean over searches, with the lowest and the highest; None if one has no value."""
    every = [float(value) for value in values]
    if any(np.isnan(every)):
        return None
    low, high = (min(every), max(every)) if len(every) > 1 else (None, None)
    return Measurement(float(np.mean(every)), low, high, peeks=peeks)
