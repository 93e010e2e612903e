"""A study as frames: what tables, figures and the page are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

SPEC = "trial.yaml"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # class lists are long


def _nothing(run_id: str, name: str) -> Path | None:
    return None


def read_spec(file: Path) -> dict[str, Any]:
    spec: dict[str, Any] = yaml.load(file.read_text(), Loader=LOADER)
    return spec


@dataclass(frozen=True)
class StudyRows:
    """A study as frames. trials: one row per trial (what it was, its setting, how it ended, its last metrics);
    curves: one row per trial, epoch and metric; queries: one row per final trial, model (fold), rule and test query.
    A trial's role is search, final, published or refit. specs: by cell what all its trials share, as one of them was given it.
    fetch: a trial's artifact by its name, None if it left none.
    """

    name: str
    trials: pd.DataFrame
    curves: pd.DataFrame
    queries: pd.DataFrame
    specs: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    fetch: Callable[[str, str], Path | None] = field(default=_nothing, repr=False)

    def spec(self, run_id: str) -> dict[str, Any]:
        """What this trial was given; empty if it left none."""
        file = self.fetch(run_id, SPEC)
        return read_spec(file) if file else {}

    @property
    def finals(self) -> pd.DataFrame:
        """Final trials that finished; of those made again after a search had grown, only the ones with the last setting.

        A seed that failed the second time is missing: what it scored before was another setting's.
        """
        if self.trials.empty:
            return self.trials
        found = self.trials[(self.trials["phase"] == "final") & (self.trials["status"] == "FINISHED")]
        last = dict(zip(zip(found["cell"], found["role"], strict=True), found["setting"], strict=True))
        same = [last[cell, role] == setting for cell, role, setting in found[["cell", "role", "setting"]].itertuples(index=False)]
        return found[same].drop_duplicates(["cell", "role", "seed"], keep="last")
