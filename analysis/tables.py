"""The ranking: default setup beside validation setup, with intervals, and the baselines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

import pandas as pd

from analysis.edges import edge_notes
from analysis.statistics import LEVEL, ClassSums, Floats, bootstrap, interval, rank_intervals
from analysis.tracking import StudyRows
from trainables.contract import PEEKING, PIXELS

SETTING_AXES = ["dataset", "backbone", "embedding_size"]
METRICS = ("recall_at_1", "map_at_r")
HONEST = "selected-on-validation"

Who = tuple[str, str]  # loss or baseline, and rule


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
        return self.rule == PEEKING

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
    worlds: dict[str, Floats] = field(default_factory=dict, repr=False)  # Recall@1 of losses and baselines in shared worlds; nothing peeks


def rankings(rows: StudyRows) -> list[Ranking]:
    """One ranking per dataset, backbone and embedding size of the study."""
    finals = rows.finals
    if finals.empty:
        return []
    searched = set(rows.trials.loc[rows.trials["phase"] == "search", "cell"])
    trained, untrained = finals[finals["rule"] != "untrained"], finals[finals["rule"] == "untrained"]
    found = []
    for place in trained[SETTING_AXES].drop_duplicates().itertuples(index=False):
        dataset, backbone, size = str(place[0]), str(place[1]), int(place[2])
        here = (trained["dataset"] == dataset) & (trained["backbone"] == backbone) & (trained["embedding_size"] == size)
        same = (untrained["backbone"] == backbone) & (untrained["embedding_size"] == size)
        theirs = untrained[(untrained["dataset"] == dataset) & (same | (untrained["backbone"] == PIXELS))]
        ranking = _ranking(dataset, backbone, size, trained[here], theirs, rows.queries)
        found.append(replace(ranking, notes=ranking.notes + edge_notes(trained[here], searched)))
    return found


def _ranking(dataset: str, backbone: str, size: int, finals: pd.DataFrame, untrained: pd.DataFrame, queries: pd.DataFrame) -> Ranking:
    """All losses, both setups and the baselines in the same resampled worlds, so that every comparison is paired."""
    runs: dict[Who, pd.Series[str]] = {
        (str(loss), str(rule)): cell["run_id"] for (loss, rule), cell in finals.groupby(["loss", "rule"], sort=False)
    }
    runs |= {(_baseline(str(name)), "untrained"): cell["run_id"] for name, cell in untrained.groupby("backbone", sort=False)}
    numbers: dict[str, dict[Who, Number]] = {}
    worlds: dict[str, dict[Who, Floats]] = {}
    for metric in METRICS:
        groups = {who: ClassSums.of(queries[queries["run_id"].isin(ids)], metric) for who, ids in runs.items()}
        worlds[metric] = bootstrap(groups)
        numbers[metric] = {
            who: Number(group.mean(), *interval(worlds[metric][who]), rule=who[1], seeds=len(group.sums)) for who, group in groups.items()
        }
    rows = [_row(loss, numbers, worlds) for loss in finals["loss"].unique()]
    baselines = {who[0]: {metric: numbers[metric][who] for metric in METRICS} for who in runs if who[1] == "untrained"}
    honest = {who[0]: drawn for who, drawn in worlds["recall_at_1"].items() if who[1] != PEEKING}
    return Ranking(dataset, backbone, size, _ranked(rows, honest), baselines, _notes(finals), honest)


def _baseline(backbone: str) -> str:
    return "raw pixels" if backbone == PIXELS else f"untrained {backbone}"


def _row(loss: str, numbers: dict[str, dict[Who, Number]], worlds: dict[str, dict[Who, Floats]]) -> RankingRow:
    default, validation = (
        {metric: found[loss, rule] for metric, found in numbers.items() if (loss, rule) in found} for rule in (PEEKING, HONEST)
    )
    difference = {}
    for metric in default.keys() & validation.keys():
        drawn = worlds[metric][loss, HONEST] - worlds[metric][loss, PEEKING]
        # One side of it was chosen with test feedback, so the difference carries the mark.
        difference[metric] = Number(validation[metric].value - default[metric].value, *interval(drawn), rule=PEEKING)
    return RankingRow(loss, default, validation, difference)


def _ranked(rows: list[RankingRow], worlds: dict[str, Floats]) -> list[RankingRow]:
    """Best first by the validation setup; a loss without it is listed last and has no rank."""
    honest = sorted((row for row in rows if row.validation), key=lambda row: -row.validation["recall_at_1"].value)
    spans = rank_intervals({row.loss: worlds[row.loss] for row in honest}) if honest else {}
    ranked = [replace(row, rank=rank, rank_interval=spans[row.loss]) for rank, row in enumerate(honest, start=1)]
    rest = sorted((row for row in rows if not row.validation), key=lambda row: -row.default["recall_at_1"].value)
    return ranked + rest


def _notes(finals: pd.DataFrame) -> list[str]:
    seeds = finals.groupby(["loss", "rule"])["seed"].nunique()
    spread = f"{seeds.min()}" if seeds.min() == seeds.max() else f"{seeds.min()} to {seeds.max()}"
    spread += " seed" if seeds.max() == 1 else " seeds"
    notes = [
        "* chosen with test feedback: its epoch was picked on the test classes. Never rank it among numbers without the mark.",
        f"[low, high]: {LEVEL:.0%} interval, bootstrap over test classes and {spread} (n - 1 of n drawn); "
        "the split and the searched setting are held fixed.",
        "Rank: by validation-setup Recall@1; in brackets the ranks that the same interval allows.",
    ]
    if seeds.min() < 2:
        notes.append("With one seed the intervals hold no variation between seeds.")
    elif seeds.min() < 3:
        notes.append("With two seeds the intervals are too narrow: they cover the truth about 80 times in 100.")
    if "outcome" in finals:
        lost = Counter((finals["loss"] + " under " + finals["protocol"])[finals["outcome"] == "diverged"])
        notes += [
            f"{count} of the final trials of {label} diverged; they count with their best epoch before that."
            for label, count in lost.items()
        ]
    return notes
