"""Two studies side by side: each loss's own numbers in both, the difference with its interval, and what else is not equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from analysis.fairness import ledger
from analysis.places import AXES, places
from analysis.readings import DEFAULT, Parts, Reading, readings, split_queries
from analysis.tables.draws import Drawn, draw, minus
from analysis.tables.frames import groups
from analysis.tables.number import metric_label
from analysis.tables.ranking import METRICS
from analysis.tables.scores import SETUPS
from analysis.tables.table import PLACE, Cell, Column, Table, measured, table
from analysis.tracking import StudyRows
from search_spaces import text
from search_spaces.training import TRAINED
from trainables.contract import UNTRAINED

Key = tuple[str, str, int, str, str, str]  # dataset, backbone, embedding size, protocol, loss, setup
FIRST, SECOND = "1 ", "2 "  # before what belongs to either study, so that both can be drawn together


def compare(one: StudyRows, other: StudyRows) -> Table:
    """Row by row, each in resampled worlds that both studies share, so that the difference is paired; that needs the same images."""
    protocols = _protocols(one, other)
    (first, parts), (second, more) = _read(one, FIRST, protocols), _read(other, SECOND, protocols)
    keys = sorted({**first, **second}, key=lambda key: (key[:4], SETUPS[key[5]], key[4]))
    data = [_data(rows) for rows in (one, other)]
    same = {key: data[0].get(key[0]) == data[1].get(key[0]) for key in keys}
    rows = [_row(key, *_draw(first.get(key), second.get(key), parts | more, same_data=same[key])) for key in keys]
    lone = any(isinstance(gap := row["difference_recall_at_1"], Cell) and gap.low is None for row in rows)
    notes = ["Where the two studies' data or test classes are not the same, a difference has no interval."] if lone else []
    names = _names(one, other)
    title = f"{names[0]} and {names[1]}, test classes, in percent"
    return table("compare", title, _columns(names), rows, above=unequal(one, other, protocols) if rows else [], notes=notes)


def _columns(names: tuple[str, str]) -> list[Column]:
    sides = [
        measured(f"{side}_{m}", f"{name} {metric_label(m)}") for side, name in zip(("first", "second"), names, strict=True) for m in METRICS
    ]
    gaps = [measured(f"difference_{m}", f"{names[1]} minus {names[0]}, {metric_label(m)}", "points") for m in METRICS]
    return [*PLACE, Column("setup"), Column("loss"), *sides, *gaps]


def _names(one: StudyRows, other: StudyRows) -> tuple[str, str]:
    return (one.name, other.name) if one.name != other.name else ("first", "second")


def _draw(one: Reading | None, other: Reading | None, parts: Parts, *, same_data: bool) -> tuple[Drawn | None, Drawn | None, bool]:
    """Both in the same worlds where both have the same test classes, which is told last; else each in its own."""
    if one and other and same_data and _classes(one, parts) == _classes(other, parts):
        first, second = draw([one, other], parts, METRICS)
        return first, second, True
    alone = [draw([reading], parts, METRICS)[0] if reading else None for reading in (one, other)]
    return alone[0], alone[1], False


def _classes(reading: Reading, parts: Parts) -> set[Any]:
    return {label for run in reading.runs for label in parts[run, reading.rule, reading.joined]["class"].unique()}


def _data(rows: StudyRows) -> dict[str, set[str]]:
    """By dataset the fingerprint of its images: classes of other images may have the same numbers."""
    if "data" not in rows.trials:
        return {}
    return {str(dataset): set(tags) for dataset, tags in rows.trials.dropna(subset=["data"]).groupby("dataset")["data"]}


def _protocols(one: StudyRows, other: StudyRows) -> dict[str, str]:
    """Where each study has one honest protocol they meet, under both names: the check above says that they differ."""
    mine, yours = ({place.protocol for place in places(rows.trials)} - {""} for rows in (one, other))
    if len(mine) == len(yours) == 1 and mine != yours:
        joined = " and ".join([*mine, *yours])
        return dict.fromkeys([*mine, *yours], joined)
    return {}


def _read(rows: StudyRows, mark: str, protocols: Mapping[str, str]) -> tuple[dict[Key, Reading], Parts]:
    """The losses' own readings and their queries, marked."""
    found: dict[Key, Reading] = {}
    parts = split_queries(rows.queries)
    for place in places(rows.trials) if len(rows.finals) else []:
        trained = place.trained(rows.finals)
        for reading in readings(trained, trained.iloc[:0], parts) if len(trained) else []:
            if not reading.what:
                protocol = "default" if reading.setup == DEFAULT else protocols.get(place.protocol, place.protocol)
                key = (place.dataset, place.backbone, place.embedding_size, protocol, reading.loss, reading.setup)
                found[key] = replace(reading, loss=f"{mark}{key}", runs=tuple(f"{mark}{run}" for run in reading.runs))
    marked = {(f"{mark}{run}", rule, joined): part.assign(run_id=f"{mark}{run}") for (run, rule, joined), part in parts.items()}
    return found, marked


def _row(key: Key, one: Drawn | None, other: Drawn | None, paired: bool) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip([*AXES, "protocol", "loss", "setup"], key, strict=True))
    gaps = minus(other, one)
    for metric in METRICS:
        row[f"first_{metric}"] = Cell.of(one.numbers.get(metric)) if one else None
        row[f"second_{metric}"] = Cell.of(other.numbers.get(metric)) if other else None
        gap = Cell.of(gaps.get(metric))
        row[f"difference_{metric}"] = gap if paired or not gap else replace(gap, low=None, high=None)
    return row


def unequal(one: StudyRows, other: StudyRows, protocols: Mapping[str, str]) -> list[str]:
    """What was not equal for the rows that both studies have."""
    mine, yours = _given(one, protocols), _given(other, protocols)
    both = [key for key in mine if key in yours]
    if not both:
        return ["Fairness check: the studies have no row in common."]
    names = _names(one, other)
    found = Counter(
        f"{name.replace('_', ' ')} {mine[key].get(name, 'unknown')} and {yours[key].get(name, 'unknown')}"
        for key in both
        for name in {**mine[key], **yours[key]}
        if mine[key].get(name) != yours[key].get(name)
    )
    if not found:
        return ["Fairness check: rows of both studies were trained alike."]
    said = [what if count == len(both) else f"{what} (in {count} of {len(both)} rows)" for what, count in found.items()]
    return [f"Fairness check: not equal, in {names[0]} and {names[1]}: {'; '.join(said)}."]


def _given(rows: StudyRows, protocols: Mapping[str, str]) -> dict[tuple[Any, ...], dict[str, str]]:
    """By place, protocol and loss, what its trials were given."""
    found = {}
    trained = rows.trials[rows.trials["rule"] != UNTRAINED] if len(rows.trials) else rows.trials
    for about, trials in groups(trained, [*AXES, "protocol", "loss"]):
        protocol, loss = str(about["protocol"]), str(about["loss"])
        given = {"protocol": protocol, **{what: values[loss] for what, values in ledger(rows, trials).items()}}
        given |= {"data": str(trials["data"].iloc[0])} if "data" in trials else {}
        given |= dict(_chosen(trials))
        found[*(about[axis] for axis in AXES), protocols.get(protocol, protocol), loss] = given
    return found


def _chosen(trials: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """Of final trials: who chose their setting, the values that no search chose, and their split; older studies tell neither."""
    own = trials[trials["role"] == "final"]
    if own.empty or not {"tuned", "split"} <= set(own):
        return
    tried = [dict(setting) for setting in trials.loc[trials["role"] == "search", "setting"]]
    last = own.iloc[-1]  # made again after a search had grown: the last
    yield "tuned", str(last["tuned"])
    for name, value in last["setting"].items():
        varied = last["tuned"] and len({setting.get(name) for setting in tried}) > 1
        yield name.removeprefix(TRAINED) if name.startswith(TRAINED) else f"loss_{name}", "searched" if varied else text(value)
    yield "split", " ".join(sorted(set(own["split"])))
