"""Tables: the ranking with default setup beside validation setup, and the baselines below which nothing was learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from analysis.statistics import LEVEL, ClassSums, bootstrap, interval, rank_intervals
from analysis.tracking import read_queries, read_trials

SETTING_AXES = ["dataset", "backbone", "embedding_size"]
METRICS = ("recall_at_1", "map_at_r")
HONEST = "selected-on-validation"


@dataclass(frozen=True)
class Number:
    """A mean with its 95 % interval and how it was chosen. Shares are from 0 to 1."""

    value: float
    low: float
    high: float
    rule: str
    seeds: int = 0

    @property
    def peeks(self) -> bool:
        return self.rule == "best-on-test"

    def percent(self) -> str:
        return f"{100 * self.value:.1f}{'*' if self.peeks else ''}"

    def percent_interval(self) -> str:
        return f"{100 * self.value:.1f}{'*' if self.peeks else ''} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def signed(self) -> str:
        return f"{100 * self.value:+.1f}{'*' if self.peeks else ''} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"


@dataclass(frozen=True)
class RankingRow:
    """One loss: both setups, their difference, and its rank among the honestly chosen ones."""

    loss: str
    default: dict[str, Number]
    validation: dict[str, Number]
    difference: dict[str, Number]  # validation minus default
    rank: int | None = None
    rank_interval: tuple[int, int] | None = None


@dataclass(frozen=True)
class Ranking:
    """The losses of one dataset, backbone and embedding size, best first; ranked by the validation setup only."""

    dataset: str
    backbone: str
    embedding_size: int
    rows: list[RankingRow]
    baselines: dict[str, dict[str, Number]]
    notes: list[str] = field(default_factory=list)


def rankings(uri: str, study: str) -> list[Ranking]:
    """One ranking per dataset, backbone and embedding size of the study."""
    trials = read_trials(uri, study)
    if trials.empty:
        return []
    finals = trials[(trials["phase"] == "final") & (trials["status"] == "FINISHED")]
    trained = finals[finals["rule"] != "untrained"]
    untrained = finals[finals["rule"] == "untrained"]
    queries = read_queries(uri, finals["run_id"].tolist())
    found = []
    for (dataset, backbone, size), group in trained.groupby(SETTING_AXES, sort=False):
        theirs = untrained[(untrained["dataset"] == dataset) & untrained["backbone"].isin(["pixels", backbone])]
        theirs = theirs[(theirs["backbone"] == "pixels") | (theirs["embedding_size"] == size)]
        found.append(_ranking(str(dataset), str(backbone), int(str(size)), group, theirs, queries))
    return found


def _ranking(dataset: str, backbone: str, size: int, finals: pd.DataFrame, untrained: pd.DataFrame, queries: pd.DataFrame) -> Ranking:
    numbers: dict[str, dict[tuple[str, str], Number]] = {}
    worlds: dict[str, dict[tuple[str, str], Any]] = {}
    for metric in METRICS:
        groups = {
            (str(loss), str(rule)): ClassSums.of(queries[queries["run_id"].isin(cell["run_id"])], metric)
            for (loss, rule), cell in finals.groupby(["loss", "rule"], sort=False)
        }
        worlds[metric] = bootstrap(groups)
        numbers[metric] = {
            key: Number(group.mean(), *interval(worlds[metric][key]), rule=key[1], seeds=len(group.sums)) for key, group in groups.items()
        }
    rows = [_row(loss, numbers, worlds) for loss in finals["loss"].unique()]
    return Ranking(dataset, backbone, size, _ranked(rows, worlds["recall_at_1"]), _baselines(untrained, queries), _notes(finals))


def _row(loss: str, numbers: dict[str, dict[tuple[str, str], Number]], worlds: dict[str, dict[tuple[str, str], Any]]) -> RankingRow:
    sides: dict[str, dict[str, Number]] = {}
    for side, rule in (("default", "best-on-test"), ("validation", HONEST)):
        sides[side] = {metric: found[loss, rule] for metric, found in numbers.items() if (loss, rule) in found}
    difference = {}
    for metric in sides["default"].keys() & sides["validation"].keys():
        drawn = worlds[metric][loss, HONEST] - worlds[metric][loss, "best-on-test"]
        value = sides["validation"][metric].value - sides["default"][metric].value
        # One side of it was chosen with test feedback, so the difference carries the mark.
        difference[metric] = Number(value, *interval(drawn), rule="best-on-test")
    return RankingRow(loss, sides["default"], sides["validation"], difference)


def _ranked(rows: list[RankingRow], worlds: dict[tuple[str, str], Any]) -> list[RankingRow]:
    """Best first by the validation setup; a loss without it is listed last and has no rank."""
    honest = sorted((row for row in rows if row.validation), key=lambda row: -row.validation["recall_at_1"].value)
    spans = rank_intervals({row.loss: worlds[row.loss, HONEST] for row in honest}) if honest else {}
    ranked = [
        RankingRow(row.loss, row.default, row.validation, row.difference, rank, spans[row.loss]) for rank, row in enumerate(honest, start=1)
    ]
    rest = sorted((row for row in rows if not row.validation), key=lambda row: -row.default["recall_at_1"].value)
    return ranked + rest


def _baselines(untrained: pd.DataFrame, queries: pd.DataFrame) -> dict[str, dict[str, Number]]:
    found: dict[str, dict[str, Number]] = {}
    for backbone, cell in untrained.groupby("backbone", sort=False):
        name = "raw pixels" if backbone == "pixels" else f"untrained {backbone}"
        for metric in METRICS:
            sums = ClassSums.of(queries[queries["run_id"].isin(cell["run_id"])], metric)
            number = Number(sums.mean(), *interval(bootstrap({0: sums})[0]), rule="untrained", seeds=len(sums.sums))
            found.setdefault(name, {})[metric] = number
    return found


def _notes(finals: pd.DataFrame) -> list[str]:
    seeds = finals.groupby(["loss", "rule"])["seed"].nunique()
    spread = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    notes = [
        "* chosen with test feedback: its epoch was picked on the test classes. Never compare it with a number without the mark.",
        f"[low, high]: {LEVEL:.0%} interval, bootstrap over test classes and {spread} seeds (n - 1 of n drawn); "
        "the split and the searched setting are held fixed.",
        "Rank: by validation-setup Recall@1; in brackets the ranks that the same interval allows.",
    ]
    if seeds.min() < 2:
        notes.append("With one seed the intervals hold no variation between seeds.")
    return notes
