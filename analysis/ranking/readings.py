"""Find the readings of the test classes: the rows of final trials behind one number, and how it was
chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from analysis.statistics import Sample
from trainables.contract import (
    CLOSED_SET,
    CONCATENATED,
    LAST,
    PCA,
    PIXELS,
    POOLED,
    is_closed_set,
)

PUBLISHED, TUNED, TUNED_ON_TEST = "published", "tuned", "tuned-on-test"  # who chose a setting
HONEST, REFIT = "selected-on-validation", "refit"  # rules
DEFAULT, VALIDATION, BASELINE = "default", "validation", "untrained"  # setups
# Role of a final trial -> what its reading is; empty for a loss's own number.
ROLES = {
    "final": "",
    "published": "published setting",
    "refit": "refit",
    "published_refit": "published setting, refit",
}
# What a baseline does with a backbone, in words.
BASELINES = {PCA: "PCA of", POOLED: "pooled features of"}
Parts = dict[tuple[str, str, bool], pd.DataFrame]  # run, rule, several models as one -> its queries


@dataclass(frozen=True)
class Reading:
    """Hold the rows behind one number. what: empty for a loss's own number, else what this is."""

    loss: str  # or the baseline's name
    setup: str
    what: str
    rule: str
    joined: bool  # all fold models as one
    setting: str  # who chose it; empty if there is none or it is unknown
    runs: tuple[str, ...]
    replicates: tuple[int, ...]  # of each run, or its seed; see unit_of()
    closed: bool = False  # train and test images share their classes

    def sample(self, parts: Parts, metric: str) -> Sample:
        """Return the metric's mean in every replicate and test class."""
        rows = pd.concat([parts[run, self.rule, self.joined] for run in self.runs])
        return Sample.of(rows, metric, dict(zip(self.runs, self.replicates, strict=True)))

    def has(self, parts: Parts, metric: str) -> bool:
        """Return whether each query has this metric; concatenated models have none of pooled
        features.
        """
        return all(
            metric in part and bool(part[metric].notna().all())
            for part in (parts[run, self.rule, self.joined] for run in self.runs)
        )


def split_queries(queries: pd.DataFrame) -> Parts:
    """Split by trial, rule, and whether one fold's model or all of them as one read a row."""
    joined = (queries["fold"] == CONCATENATED).rename("joined")
    return {
        (str(run), str(rule), bool(one)): part
        for (run, rule, one), part in queries.groupby(["run_id", "rule", joined], sort=False)
    }


def of_closed_set(trials: pd.DataFrame) -> pd.Series[bool]:
    """Return by trial whether its train and test images share their classes."""
    protocols = trials["protocol"] if len(trials) else pd.Series(dtype=object)
    return protocols.map(is_closed_set).astype(bool)


def unit_of(trials: pd.DataFrame) -> str:
    """Return the column whose values are the unit of replication, for all of a study's trials.

    It is the replicate if the study has several. With one it is the seed: the search and the split
    are then held fixed.
    """
    return "replicate" if len(trials) and trials["replicate"].max() > 1 else "seed"


def readings(
    finals: pd.DataFrame, untrained: pd.DataFrame, parts: Parts, *, unit: str
) -> list[Reading]:
    """Return each loss's own readings, then the baselines, then all other readings.

    unit: as unit_of() returns it.
    """
    finals, untrained = (each.assign(unit=each[unit]) for each in (finals, untrained))
    setup = finals["peeks"].map({True: DEFAULT, False: VALIDATION})
    setup = setup.mask(of_closed_set(finals), CLOSED_SET)
    found = [
        reading
        for (loss, name, role), trials in finals.groupby(["loss", setup, "role"], sort=False)
        for reading in _of_cell(trials, parts, loss=str(loss), setup=str(name), role=str(role))
    ]
    baselines = [
        _reading(
            trials, loss=baseline_name(str(backbone), str(loss)), setup=BASELINE, rule=BASELINE
        )
        for (backbone, loss), trials in untrained.groupby(["backbone", "loss"], sort=False)
    ]
    return [r for r in found if not r.what] + baselines + [r for r in found if r.what]


def _of_cell(
    trials: pd.DataFrame, parts: Parts, *, loss: str, setup: str, role: str
) -> Iterator[Reading]:
    """Yield every reading that trials of one loss, setup and role made."""
    own = str(trials["rule"].iloc[0])
    for rule, joined in ((own, False), (LAST, False), (own, True)):
        there = trials[[(run, rule, joined) in parts for run in trials["run_id"]]]
        if len(there):
            names = [
                ROLES[role],
                "last epoch" if rule == LAST else "",
                CONCATENATED if joined else "",
            ]
            about = {
                "what": ", ".join(name for name in names if name),
                "setting": _setting(trials, setup),
            }
            yield _reading(there, loss=loss, setup=setup, rule=rule, joined=joined, **about)


def _reading(
    trials: pd.DataFrame,
    *,
    loss: str,
    setup: str,
    rule: str,
    joined: bool = False,
    what: str = "",
    setting: str = "",
) -> Reading:
    trials = trials.sort_values(["unit", "seed"])
    return Reading(
        loss,
        setup,
        what,
        rule,
        joined=joined,
        setting=setting,
        runs=tuple(trials["run_id"]),
        replicates=tuple(int(each) for each in trials["unit"]),
        closed=bool(of_closed_set(trials).any()),
    )


def _setting(trials: pd.DataFrame, setup: str) -> str:
    tuned = trials.get("tuned", pd.Series(dtype=object)).dropna()
    if tuned.empty:  # a study from before trials recorded it
        return ""
    if not tuned.any():  # in no replicate
        return PUBLISHED
    return TUNED_ON_TEST if setup == DEFAULT else TUNED


def baseline_name(backbone: str, loss: str) -> str:
    if backbone == PIXELS:
        return "raw pixels"
    return f"{BASELINES.get(loss, BASELINE)} {backbone}"
