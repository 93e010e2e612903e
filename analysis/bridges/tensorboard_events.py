"""Write the curves of every trial as event files, which TensorBoard shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from analysis.record.frames import StudyRows
from analysis.record.trial_id import folder_of


def write_tensorboard(rows: StudyRows, folder: Path) -> int:
    """Write one folder of events per trial, and return how many.

    A trial that is there already is skipped: TensorBoard would join both.
    """
    writer = _writer()
    curves = dict(iter(rows.curves.groupby("run_id", sort=False)))
    for row in rows.trials.to_dict("records"):
        run = str(row["run_id"])
        home = folder / str(row["label"]) / folder_of(str(row["trial"]))
        if home.exists():
            continue
        with writer(str(home)) as events:
            for point in curves.get(run, pd.DataFrame()).itertuples():
                events.add_scalar(point.metric, point.value, point.epoch)
            tests = {name: row[name] for name in row if str(name).startswith("test/")}
            for name, value in tests.items():
                if pd.notna(value):
                    events.add_scalar(name, value, int(row["epochs"]))
            setting = ", ".join(f"{name} = {value}" for name, value in row["setting"].items())
            events.add_text("setting", setting or "none")
    return len(rows.trials)


def _writer() -> Any:
    """Return the class that writes event files: Ray brings tensorboardX."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise ValueError(
            "--tensorboard needs tensorboardX, which is not installed: pip install tensorboardX."
        ) from None
    return SummaryWriter
