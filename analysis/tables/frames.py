"""Read frames as plain dicts: row by row, group by group, and a curve by run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS

LOSS_KEYS = [*COMPARISON_KEYS, "protocol", "loss"]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return every row as a dict."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def groups(
    frame: pd.DataFrame, keys: Sequence[str]
) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Yield what all rows of a group share, and its rows, in order of first appearance."""
    if len(frame):
        for values, part in frame.groupby(list(keys), sort=False):
            yield dict(zip(keys, values, strict=True)), part


def replicate_mean(trials: pd.DataFrame, values: Mapping[str, float]) -> float | None:
    """Return the mean over replicates; the trials of one replicate are averaged first.

    values: by run; a trial without one counts for nothing.
    """
    known = trials["run_id"].map(values).astype(float)
    means = known.groupby(trials["replicate"]).mean().dropna()
    return float(means.mean()) if len(means) else None


def curves_by_run(curves: pd.DataFrame, metric: str) -> dict[str, pd.Series[float]]:
    """Return one metric's values by run and epoch, in order.

    It groups once, because a study may have thousands of runs.
    """
    mine = (
        curves[curves["metric"] == metric]
        .dropna(subset=["value"])
        .sort_values("epoch", kind="stable")
    )
    return {
        str(run): part.set_index("epoch")["value"].astype(float)
        for run, part in mine.groupby("run_id", sort=False)
    }
