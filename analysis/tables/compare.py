"""Compare two studies: each loss's own numbers in both, the difference with its interval, and what
else is not equal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.ranking.comparisons import COMPARISON_KEYS, comparisons
from analysis.ranking.fairness import treatments
from analysis.ranking.measurement import Measurement, metric_label
from analysis.ranking.notes import interval_notes, validation_notes
from analysis.ranking.ranking import METRICS
from analysis.ranking.readings import (
    DEFAULT,
    Parts,
    Reading,
    of_closed_set,
    readings,
    split_queries,
    unit_of,
)
from analysis.ranking.samples import Sampled, difference, minus, sample
from analysis.record.frames import StudyRows
from analysis.statistics import estimates, unpaired, unrelated
from analysis.tables.frames import LOSS_KEYS, groups
from analysis.tables.scores import SETUPS
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, measured, table
from search_spaces import value_text
from search_spaces.training import TRAINED
from trainables.contract import UNTRAINED

# Dataset, backbone, embedding size, protocol, loss and setup.
Key = tuple[str, str, int, str, str, str]
Draws = frozenset[tuple[int, int]]  # replicate and seed of every trial
# A loss's own reading with the classes that it read and its draws.
Read = tuple[Sampled, frozenset[Any], Draws]
NOTES = {
    "paired": "",
    "unpaired": "Where the two studies do not have the same replicates and seeds, a difference is "
    "paired by test class only, and its interval is wider.",
    "unrelated": "Where the two studies' data or test classes are not the same, nothing is paired: "
    "the interval of a difference contains what test classes differ in.",
}


def compare(one: StudyRows, other: StudyRows) -> Table:
    """Return a row per loss and setup of either study.

    Differences are paired by test class where both studies have the same images, and by replicate
    where both have the same replicates.
    """
    _check_same_task(one, other)
    protocols = _protocols(one, other)
    first, second = _read(one, protocols), _read(other, protocols)
    keys = sorted({**first, **second}, key=lambda key: (key[:4], SETUPS[key[5]], key[4]))
    data = [_data(rows) for rows in (one, other)]
    same = {key: data[0].get(key[0]) == data[1].get(key[0]) for key in keys}
    kinds = {
        key: _kind(first[key], second[key], same_data=same[key])
        for key in keys
        if key in first and key in second
    }
    gaps = _differences(first, second, kinds)
    rows = [_row(key, first.get(key), second.get(key), gaps.get(key, {})) for key in keys]
    names = _names(one, other)
    title = f"{names[0]} and {names[1]}, test classes, in percent"
    return table(
        "compare",
        title,
        _columns(names),
        rows,
        above=unequal(one, other, protocols) if rows else [],
        notes=[
            *(_contents(one, other) if rows else []),
            *(note for kind, note in NOTES.items() if note and kind in kinds.values()),
        ],
    )


def _check_same_task(one: StudyRows, other: StudyRows) -> None:
    """Raise ValueError if only one of the studies is of a closed set."""
    closed = [each.name for each in (one, other) if of_closed_set(each.trials).any()]
    if len(closed) == 1:
        raise ValueError(
            f"Numbers of a closed set compare with no class-disjoint number, but only "
            f"'{closed[0]}' is of a closed set; compare studies of the same kind."
        )


def _contents(one: StudyRows, other: StudyRows) -> list[str]:
    """Return what the intervals of both studies contain, and warnings of either first."""
    said = [
        validation_notes(rows.trials, rows.specs)
        + interval_notes(rows.finals, unit=unit_of(rows.trials))
        for rows in (one, other)
    ]
    shared = [note for note in said[0] if note in said[1]]
    own = [
        f"{name}: {note}"
        for name, notes in zip(_names(one, other), said, strict=True)
        for note in notes
        if note not in shared
    ]
    return sorted([*shared, *own], key=lambda note: "WARNING" not in note)


def _columns(names: tuple[str, str]) -> list[Column]:
    sides = [
        measured(f"{side}_{m}", f"{name} {metric_label(m)}")
        for side, name in zip(("first", "second"), names, strict=True)
        for m in METRICS
    ]
    gaps = [
        measured(f"difference_{m}", f"{names[1]} minus {names[0]}, {metric_label(m)}", "points")
        for m in METRICS
    ]
    return [*COMPARISON_COLUMNS, Column("setup"), Column("loss"), *sides, *gaps]


def _names(one: StudyRows, other: StudyRows) -> tuple[str, str]:
    return (one.name, other.name) if one.name != other.name else ("first", "second")


def _kind(one: Read, other: Read, *, same_data: bool) -> str:
    """Return what a difference of these two readings is paired by: one of NOTES."""
    if not same_data or one[1] != other[1]:
        return "unrelated"
    return "paired" if one[2] == other[2] else "unpaired"


def _differences(
    first: Mapping[Key, Read], second: Mapping[Key, Read], kinds: Mapping[Key, str]
) -> dict[Key, dict[str, Measurement]]:
    """Return by key and metric the second study minus the first."""
    found: dict[Key, dict[str, Measurement]] = {}
    for family in dict.fromkeys((*key[:4], key[5]) for key in kinds):
        paired = [key for key in kinds if (*key[:4], key[5]) == family and kinds[key] == "paired"]
        gaps = minus({key[4]: (second[key][0], first[key][0]) for key in paired})
        found |= {key: gaps[key[4]] for key in paired}
    for key, kind in kinds.items():
        if kind != "paired":
            found[key] = _apart(second[key][0], first[key][0], kind)
    return found


def _apart(one: Sampled, other: Sampled, kind: str) -> dict[str, Measurement]:
    found = {}
    for metric in one.samples.keys() & other.samples.keys():
        mine, yours = one.samples[metric], other.samples[metric]
        if kind == "unpaired":
            gap = unpaired(mine, yours)
        else:
            gap = unrelated(estimates({0: mine})[0], estimates({0: yours})[0])
        # Replicates of the same number are not the same ones.
        found[metric] = replace(difference(gap, one, other, metric), replicates=0)
    return found


def _classes(reading: Reading, parts: Parts) -> frozenset[Any]:
    return frozenset(
        label
        for run in reading.runs
        for label in parts[run, reading.rule, reading.joined]["class"].unique()
    )


def _data(rows: StudyRows) -> dict[str, set[str]]:
    """Return by dataset the fingerprint of its images: other images may have the same class
    numbers.
    """
    if "data" not in rows.trials:
        return {}
    return {
        str(dataset): set(tags)
        for dataset, tags in rows.trials.dropna(subset=["data"]).groupby("dataset")["data"]
    }


def _protocols(one: StudyRows, other: StudyRows) -> dict[str, str]:
    """Return one name for both honest protocols if each study has just one; the fairness check says
    that they differ.
    """
    mine, yours = (
        {comparison.protocol for comparison in comparisons(rows.trials)} - {""}
        for rows in (one, other)
    )
    if len(mine) == len(yours) == 1 and mine != yours:
        joined = " and ".join([*mine, *yours])
        return dict.fromkeys([*mine, *yours], joined)
    return {}


def _read(rows: StudyRows, protocols: Mapping[str, str]) -> dict[Key, Read]:
    """Return the losses' own readings, measured as in the study's ranking."""
    found: dict[Key, Read] = {}
    parts, unit = split_queries(rows.queries), unit_of(rows.trials)
    for comparison in comparisons(rows.trials) if len(rows.finals) else []:
        trained = comparison.trained(rows.finals)
        draws = {
            str(run): (int(each), int(seed))
            for run, each, seed in trained[["run_id", unit, "seed"]].itertuples(index=False)
        }
        every = readings(trained, trained.iloc[:0], parts, unit=unit) if len(trained) else []
        for one in sample([each for each in every if not each.what], parts, METRICS):
            protocol = (
                "default"
                if one.reading.setup == DEFAULT
                else protocols.get(comparison.protocol, comparison.protocol)
            )
            key = (
                comparison.dataset,
                comparison.backbone,
                comparison.embedding_size,
                protocol,
                one.reading.loss,
                one.reading.setup,
            )
            drawn = frozenset(draws[run] for run in one.reading.runs)
            found[key] = one, _classes(one.reading, parts), drawn
    return found


def _row(
    key: Key, one: Read | None, other: Read | None, gaps: Mapping[str, Measurement]
) -> dict[str, Any]:
    row: dict[str, Any] = dict(
        zip([*COMPARISON_KEYS, "protocol", "loss", "setup"], key, strict=True)
    )
    for metric in METRICS:
        row[f"first_{metric}"] = one[0].numbers.get(metric) if one else None
        row[f"second_{metric}"] = other[0].numbers.get(metric) if other else None
        row[f"difference_{metric}"] = gaps.get(metric)
    return row


def unequal(one: StudyRows, other: StudyRows, protocols: Mapping[str, str]) -> list[str]:
    """Return what was not equal for the rows that both studies have."""
    mine, yours = _treatments(one, protocols), _treatments(other, protocols)
    both = [key for key in mine if key in yours]
    if not both:
        return ["Fairness check: the studies have no row in common."]
    names = _names(one, other)
    found = Counter(
        f"{name.replace('_', ' ')} {mine[key].get(name, 'unknown')} and "
        f"{yours[key].get(name, 'unknown')}"
        for key in both
        for name in {**mine[key], **yours[key]}
        if mine[key].get(name) != yours[key].get(name)
    )
    if not found:
        return ["Fairness check: rows of both studies were trained alike."]
    counted = [
        what if count == len(both) else f"{what} (in {count} of {len(both)} rows)"
        for what, count in found.items()
    ]
    return [f"Fairness check: not equal, in {names[0]} and {names[1]}: {'; '.join(counted)}."]


def _treatments(
    rows: StudyRows, protocols: Mapping[str, str]
) -> dict[tuple[Any, ...], dict[str, str]]:
    """Return by comparison, protocol and loss how its trials were trained."""
    found = {}
    trained = rows.trials[rows.trials["rule"] != UNTRAINED] if len(rows.trials) else rows.trials
    for about, trials in groups(trained, LOSS_KEYS):
        protocol, loss = str(about["protocol"]), str(about["loss"])
        values = {what: by_loss[loss] for what, by_loss in treatments(rows, trials).items()}
        values = {"protocol": protocol, **values}
        values |= {"data": str(trials["data"].iloc[0])} if "data" in trials else {}
        values |= dict(_chosen(trials))
        keys = [about[name] for name in COMPARISON_KEYS]
        found[*keys, protocols.get(protocol, protocol), loss] = values
    return found


def _chosen(trials: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Yield who chose the setting of final trials, the values that no search chose, and their
    split; older studies record neither.
    """
    own = trials[trials["role"] == "final"]
    if own.empty or not {"tuned", "split"} <= set(own):
        return
    tried = [dict(setting) for setting in trials.loc[trials["role"] == "search", "setting"]]
    last = own.iloc[-1]  # made again after a search had grown: the last
    yield "tuned", str(last["tuned"])
    for name, value in last["setting"].items():
        varied = last["tuned"] and len({setting.get(name) for setting in tried}) > 1
        yield (
            name.removeprefix(TRAINED) if name.startswith(TRAINED) else f"loss_{name}",
            "searched" if varied else value_text(value),
        )
    yield "split", " ".join(sorted(set(own["split"])))
