"""Write a study's frames as Parquet files, for pandas, Polars, DuckDB or R."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

from analysis.record.frames import StudyRows


def write_parquet(rows: StudyRows, folder: Path) -> list[Path]:
    """Write trials, curves and queries, and return their files.

    A trial's setting is also spread over columns, as in setting.margin.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    frames = {"trials": _flat(rows.trials), "curves": rows.curves, "queries": rows.queries}
    for name, frame in frames.items():
        written.append(folder / f"{name}.parquet")
        frame.to_parquet(written[-1], index=False)
    return written


def _flat(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials with their settings as JSON, and as columns."""
    if trials.empty:
        return trials
    settings = pd.DataFrame(list(trials["setting"]), index=trials.index).add_prefix("setting.")
    for name in settings:  # a column has one type: numbers, else text
        if not pd.api.types.is_numeric_dtype(settings[name]):
            settings[name] = settings[name].astype("string")
    return trials.assign(setting=trials["setting"].map(json.dumps)).join(settings)
