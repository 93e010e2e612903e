"""Prepare a page's first screen: the ranking as a picture, and how the study was made."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import comparisons
from analysis.ranking.measurement import Measurement, metric_label
from analysis.ranking.notes import listed
from analysis.ranking.ranking import METRICS, Ranking
from analysis.record.frames import StudyRows
from trainables.contract import UNTRAINED

STEPS = (0.5, 1.0, 2.0, 5.0, 10.0, 20.0)  # between two ticks, in percent
MOST_TICKS = 7


@dataclass(frozen=True)
class Whisker:
    """Hold a number with its interval as places on an axis from 0 to 100."""

    at: float
    low: float
    high: float
    number: Measurement

    @property
    def ends(self) -> str:
        """Return the interval in percent as people read it."""
        low, high = (100 * end for end in self.number.interval)
        return f"[{low:.1f}, {high:.1f}]"


@dataclass(frozen=True)
class PictureRow:
    """Hold one loss of the picture: its rank, its letters, and both setups."""

    loss: str
    rank: int | None
    groups: str
    default: Whisker | None
    validation: Whisker | None


@dataclass(frozen=True)
class BaselineLine:
    """Hold a baseline: its number, and its place on the axis, or None if that lies too far away."""

    name: str
    number: Measurement
    at: float | None


@dataclass(frozen=True)
class RankingPicture:
    """Hold a ranking as a picture: a row per loss, a line per baseline, and ticks in percent."""

    rows: list[PictureRow]
    baselines: list[BaselineLine]
    ticks: list[tuple[float, str]]  # place on the axis, text
    rule: str  # of the numbers that rank

    @property
    def peeks(self) -> bool:
        """Return whether a number of it has a star."""
        return any(row.default for row in self.rows)


def picture_of(ranking: Ranking, *, beside: Sequence[Ranking] = ()) -> RankingPicture:
    """Return the picture of Recall@1 with its intervals. beside: rankings on the same axis."""
    metric = METRICS[0]
    together = (ranking, *beside)
    low, high, step = _axis(
        [each for one in together for each in _numbers(one, metric)],
        [each[metric].value for one in together for each in one.baselines.values()],
    )
    count = round((high - low) / step)
    ticks = [(100 * i / count, f"{low + i * step:g}") for i in range(count + 1)]

    def whisker(number: Measurement | None) -> Whisker | None:
        if number is None:
            return None
        ends = number.interval if number.low is not None else (number.value, number.value)
        value, left, right = (
            100 * (100 * each - low) / (high - low) for each in (number.value, *ends)
        )
        return Whisker(round(value, 2), round(left, 2), round(right, 2), number)

    rows = [
        PictureRow(
            row.loss,
            row.rank,
            row.groups,
            whisker(row.default.get(metric)),
            whisker(row.validation.get(metric)),
        )
        for row in ranking.rows
    ]
    ranked = [row.validation[metric].rule for row in ranking.rows if metric in row.validation]
    baselines = [
        BaselineLine(name, number, found.at if 0 <= found.at <= 100 else None)
        for name, numbers in ranking.baselines.items()
        for number in [numbers[metric]]
        if (found := whisker(number))
    ]
    return RankingPicture(rows, baselines, ticks, ranked[0] if ranked else "")


def _numbers(ranking: Ranking, metric: str) -> list[Measurement]:
    sides = [side for row in ranking.rows for side in (row.default, row.validation)]
    return [side[metric] for side in sides if metric in side]


def _axis(numbers: Iterable[Measurement], baselines: Iterable[float]) -> tuple[float, float, float]:
    """Return an axis in percent that holds all numbers and intervals, and the step of its ticks.

    baselines: it also holds those that are less than its length away.
    """
    parts = [part for each in numbers for part in (each.value, each.low, each.high)]
    ends = [100 * part for part in parts if part is not None]
    lowest, highest = min(ends, default=0.0), max(ends, default=100.0)
    reach = max(highest - lowest, STEPS[0])
    near = [100 * at for at in baselines if lowest - reach < 100 * at < highest + reach]
    lowest, highest = min([lowest, *near]), max([highest, *near])
    step = next((step for step in STEPS if (highest - lowest) / step <= MOST_TICKS - 2), STEPS[-1])
    low, high = step * math.floor(lowest / step), step * math.ceil(highest / step)
    return low, high if high > low else low + step, step


def how_made(rows: StudyRows, metric: str) -> list[str]:
    """Return three sentences: the data and networks, who chose what, and what it took.

    metric: the one that chose epochs and settings.
    """
    trials = rows.trials
    trained = trials[trials["rule"] != UNTRAINED] if len(trials) else trials
    if trained.empty:
        return []
    names = {key: list(dict.fromkeys(map(str, trained[key]))) for key in ("dataset", "backbone")}
    sizes = listed([str(size) for size in dict.fromkeys(trained["embedding_size"])])
    losses = trained["loss"].nunique()
    where = (
        f"{losses} loss{'es' * (losses > 1)} on {listed(names['dataset'])}{_classes(rows)}, "
        f"network {listed(names['backbone'])}, {sizes} dimensions."
    )
    return [where, _choices(trained, metric), _effort(rows)]


def _classes(rows: StudyRows) -> str:
    """Return how many classes train and test, if all cells have the same numbers."""
    counts = {_count(spec["splits"]) for spec in rows.specs.values() if spec.get("splits")}
    if len(counts) != 1:
        return ""
    ((train, test),) = counts
    return f" ({train} train and {test} test classes)"


def _count(splits: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    test = {label for split in splits for label in split["test"]}
    seen = {label for split in splits for label in (*split["train"], *split["select"])}
    return len(seen - test), len(test)


def _choices(trained: pd.DataFrame, metric: str) -> str:
    """Return who chose settings and epochs, and how often each loss was searched and trained."""
    honest = list(dict.fromkeys(each.protocol for each in comparisons(trained) if each.protocol))
    if not honest:
        return f"Only the default setup* was run: {metric_label(metric)} on the test classes chose."
    mine = trained[~trained["peeks"].astype(bool)]
    search, finals = mine[mine["role"] == "search"], mine[mine["role"] == "final"]
    parts = []
    if len(search):
        searches = _counted(search.groupby("cell")["replicate"].nunique(), "search", "searches")
        size = _counted(search.groupby(["cell", "replicate"]).size(), "trial", "trials")
        parts.append(f"{searches} of {size}")
    if len(finals):
        seeds = finals.groupby("cell")["seed"].nunique()
        parts.append(_counted(seeds, "final trial", "final trials"))
    chose = "settings and epochs" if len(search) else "epochs"
    return (
        f"{listed(honest)}: {metric_label(metric)} on held-out classes chose {chose}; each loss "
        f"had {listed(parts)}."
    )


def _counted(counts: pd.Series[int], one: str, many: str) -> str:
    span = _span(counts)
    return f"{span} {one if span == '1' else many}"


def _span(counts: pd.Series[int]) -> str:
    low, high = int(counts.min()), int(counts.max())
    return str(low) if low == high else f"{low} to {high}"


def _effort(rows: StudyRows) -> str:
    """Return how many trials and hours the study took, and when it began."""
    trials = rows.trials
    hours = float(rows.curves.loc[rows.curves["metric"] == "seconds", "value"].sum())
    parts = [f"{len(trials):,} trials, {duration(hours)} of epochs"]
    if began := when(trials):
        parts.append(began)
    if "devices" in trials and (names := _names(trials["devices"])):
        parts.append(listed(names))
    return "; ".join(parts) + "."


def _names(devices: pd.Series[Any]) -> list[str]:
    return sorted({each for names in devices.dropna() for each in str(names).split(", ") if each})


def duration(seconds: float) -> str:
    """Return seconds as people read them."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def when(trials: pd.DataFrame) -> str:
    """Return when the first trial started, and how long it took until the last one ended."""
    if trials.empty or trials["end"].isna().all():
        return ""
    start, end = float(trials["start"].min()) / 1000, float(trials["end"].max()) / 1000
    began = f"{datetime.fromtimestamp(start, UTC):%Y-%m-%d %H:%M} UTC"
    return f"{began}, {duration(end - start)} from first to last trial"


def splits_of(rows: StudyRows) -> list[Mapping[str, Any]]:
    """Return by dataset and protocol how many classes train, choose and test."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    cells = rows.trials.drop_duplicates("cell") if len(rows.trials) else rows.trials
    for _, cell in cells.iterrows():
        splits: Sequence[Mapping[str, Any]] = rows.specs.get(cell["cell"], {}).get("splits", [])
        key = str(cell["dataset"]), str(cell["protocol"])
        if splits and cell["rule"] != UNTRAINED:
            counts = {
                part: _span(pd.Series([len(split[part]) for split in splits]))
                for part in ("train", "select", "test")
            }
            found[key] = {"dataset": key[0], "protocol": key[1], "folds": len(splits), **counts}
    return list(found.values())
