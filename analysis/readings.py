"""Readings of the test classes: which rows of which final trials make one number, and how that number was chosen."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.statistics import ClassSums
from trainables.contract import CONCATENATED, LAST, PCA, PIXELS

AUDIT = "readings.csv"  # in a study's folder: one line for each time that test classes were read
PUBLISHED, TUNED, TUNED_ON_TEST = "published", "tuned", "tuned-on-test"  # who chose the setting of a number
HONEST, REFIT = "selected-on-validation", "refit"  # rules
DEFAULT, VALIDATION, BASELINE = "default", "validation", "untrained"  # setups
# Of a final trial -> what it is beside a loss's own number.
ROLES = {"final": "", "published": "published setting", "refit": "refit", "published_refit": "published setting, refit"}
Parts = dict[tuple[str, str, bool], pd.DataFrame]  # run, rule, several models as one -> its queries


@dataclass(frozen=True)
class Reading:
    """The rows behind one number. what: empty for a loss's own number, else what stands beside it."""

    loss: str  # or the baseline's name
    setup: str
    what: str
    rule: str
    joined: bool  # all fold models as one
    setting: str  # who chose it, empty if there is none or nobody said
    runs: tuple[str, ...]  # in the order of their seeds
    seeds: tuple[int, ...]

    def sums(self, parts: Parts, metric: str) -> ClassSums:
        return ClassSums.of(pd.concat([parts[run, self.rule, self.joined] for run in self.runs]), metric, self.runs)

    def has(self, parts: Parts, metric: str) -> bool:
        """Whether each of its queries has this metric: fold models as one have none of pooled features."""
        return all(
            metric in part and bool(part[metric].notna().all()) for part in (parts[run, self.rule, self.joined] for run in self.runs)
        )

    @property
    def tie(self) -> tuple[str, str, tuple[int, ...]]:
        """Readings with the same tie were made by the same seeds of one loss under one setup."""
        return self.loss, self.setup, self.seeds


def split_queries(queries: pd.DataFrame) -> Parts:
    """By trial, rule, and whether a row was read by one fold's model or by all of them as one."""
    joined = (queries["fold"] == CONCATENATED).rename("joined")
    return {(str(run), str(rule), bool(one)): part for (run, rule, one), part in queries.groupby(["run_id", "rule", joined], sort=False)}


def readings(finals: pd.DataFrame, untrained: pd.DataFrame, parts: Parts) -> list[Reading]:
    """First each loss's own numbers, then the baselines, then all that stands beside."""
    setup = finals["peeks"].map({True: DEFAULT, False: VALIDATION})
    found = [
        reading
        for (loss, name, role), trials in finals.groupby(["loss", setup, "role"], sort=False)
        for reading in _of_cell(trials, parts, loss=str(loss), setup=str(name), role=str(role))
    ]
    baselines = [
        _reading(trials, loss=_baseline(str(backbone), str(loss)), setup=BASELINE, rule=BASELINE)
        for (backbone, loss), trials in untrained.groupby(["backbone", "loss"], sort=False)
    ]
    return [r for r in found if not r.what] + baselines + [r for r in found if r.what]


def _of_cell(trials: pd.DataFrame, parts: Parts, *, loss: str, setup: str, role: str) -> Iterator[Reading]:
    """Every reading that trials of one loss, setup and role have made."""
    own = str(trials["rule"].iloc[0])
    for rule, joined in ((own, False), (LAST, False), (own, True)):
        there = trials[[(run, rule, joined) in parts for run in trials["run_id"]]]
        if len(there):
            names = [ROLES[role], "last epoch" if rule == LAST else "", CONCATENATED if joined else ""]
            about = {"what": ", ".join(name for name in names if name), "setting": _setting(trials, setup)}
            yield _reading(there, loss=loss, setup=setup, rule=rule, joined=joined, **about)


def _reading(trials: pd.DataFrame, *, loss: str, setup: str, rule: str, joined: bool = False, what: str = "", setting: str = "") -> Reading:
    trials = trials.sort_values("seed")
    seeds = tuple(int(seed) for seed in trials["seed"])
    return Reading(loss, setup, what, rule, joined=joined, setting=setting, runs=tuple(trials["run_id"]), seeds=seeds)


def _setting(trials: pd.DataFrame, setup: str) -> str:
    tuned = trials.get("tuned", pd.Series(dtype=object)).dropna()
    if tuned.empty:  # a study from before trials told it
        return ""
    if not tuned.iloc[0]:
        return PUBLISHED
    return TUNED_ON_TEST if setup == DEFAULT else TUNED


def _baseline(backbone: str, loss: str) -> str:
    return "raw pixels" if backbone == PIXELS else f"{'PCA of' if loss == PCA else 'untrained'} {backbone}"


def audited(folder: Path, rules: Sequence[str]) -> dict[str, int]:
    """How often the test classes were read under each rule; empty if the study keeps no audit."""
    path = folder / AUDIT
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        lines = csv.DictReader(file)
        counts = Counter(line.get("rule") or "nothing" for line in lines)
        strange = sorted(counts.keys() - set(rules)) if "rule" in (lines.fieldnames or ()) else ["no such column"]
    if strange:
        raise ValueError(
            f"Every line of {path} names one of the rules {', '.join(rules)}, but there is {', '.join(strange)}; "
            "put the file back as the study wrote it, or move it away."
        )
    return {rule: counts[rule] for rule in rules if rule in counts}
