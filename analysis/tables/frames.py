"""Frames as plain dicts: row by row, group by group, and a curve by run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def groups(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What all rows of a group share, and its rows, in the order in which they first came."""
    if len(frame):
        for values, part in frame.groupby(list(keys), sort=False):
            yield dict(zip(keys, values, strict=True)), part


def curves_by_run(curves: pd.DataFrame, metric: str) -> dict[str, pd.Series[float]]:
    """One metric's values by epoch, in order; grouped once, because a study may have thousands of runs."""
    mine = curves[curves["metric"] == metric].dropna(subset=["value"]).sort_values("epoch", kind="stable")
    return {str(run): part.set_index("epoch")["value"].astype(float) for run, part in mine.groupby("run_id", sort=False)}
