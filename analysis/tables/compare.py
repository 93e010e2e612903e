"""Two studies side by side: each loss's own numbers in both, the difference with its interval, and what else is not equal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from analysis.fairness import Ledger, differing, flat
from analysis.places import AXES, places
from analysis.readings import Parts, Reading, readings, split_queries
from analysis.tables.draws import Drawn, draw, minus
from analysis.tables.ranking import METRICS
from analysis.tables.retrieval import label
from analysis.tables.scores import SETUPS
from analysis.tables.table import PLACE, Cell, Column, Table, measured, table
from analysis.tracking import StudyRows

Key = tuple[str, str, int, str, str, str]  # place, protocol, loss, setup


def compare(one: StudyRows, other: StudyRows) -> Table:
    """Both studies in the same resampled worlds, so that the difference is paired; that needs the same test classes."""
    found = [_drawn(one), _drawn(other)]
    paired = _classes(one) == _classes(other) and bool(_classes(one))
    if paired:
        found = _together(one, other)
    keys = sorted({**found[0], **found[1]}, key=lambda key: (key[:4], SETUPS[key[5]], key[4]))
    names = _names(one, other)
    rows = [_row(key, found[0].get(key), found[1].get(key), paired=paired) for key in keys]
    sides = [(f"first_{m}", f"{names[0]} {label(m)}") for m in METRICS] + [(f"second_{m}", f"{names[1]} {label(m)}") for m in METRICS]
    gaps = [measured(f"difference_{m}", f"{names[1]} minus {names[0]}, {label(m)}", "points") for m in METRICS]
    columns = [*PLACE, Column("setup"), Column("loss"), *(measured(*side) for side in sides), *gaps]
    notes = [] if paired or not rows else ["Their test classes are not the same, so the differences have no interval."]
    return table("compare", f"{names[0]} and {names[1]}, test classes, in percent", columns, rows, above=unequal(one, other), notes=notes)


def _names(one: StudyRows, other: StudyRows) -> tuple[str, str]:
    return (one.name, other.name) if one.name != other.name else ("first", "second")


def _classes(rows: StudyRows) -> set[Any]:
    return set(rows.queries["class"]) if len(rows.queries) else set()


def _read(rows: StudyRows, mark: str) -> tuple[dict[Key, Reading], Parts]:
    """The losses' own readings, their runs and losses marked so that two studies can be drawn together."""
    found: dict[Key, Reading] = {}
    for place in places(rows.trials) if len(rows.finals) else []:
        trained = place.trained(rows.finals)
        own = [r for r in readings(trained, trained.iloc[:0], split_queries(rows.queries)) if not r.what] if len(trained) else []
        for reading in own:
            protocol = "default" if reading.setup == "default" else place.protocol
            key = (place.dataset, place.backbone, place.embedding_size, protocol, reading.loss, reading.setup)
            found[key] = replace(reading, loss=f"{mark}{key}", runs=tuple(f"{mark}{run}" for run in reading.runs))
    parts = {
        (f"{mark}{run}", rule, one): part.assign(run_id=f"{mark}{run}") for (run, rule, one), part in split_queries(rows.queries).items()
    }
    return found, parts


def _drawn(rows: StudyRows) -> dict[Key, Drawn]:
    found, parts = _read(rows, "")
    return dict(zip(found, draw(list(found.values()), parts, METRICS), strict=True)) if found else {}


def _together(one: StudyRows, other: StudyRows) -> list[dict[Key, Drawn]]:
    (first, parts), (second, more) = _read(one, "1 "), _read(other, "2 ")
    drawn = draw([*first.values(), *second.values()], {**parts, **more}, METRICS)
    return [dict(zip(first, drawn, strict=False)), dict(zip(second, drawn[len(first) :], strict=True))]


def _row(key: Key, one: Drawn | None, other: Drawn | None, *, paired: bool) -> dict[str, Any]:
    row: dict[str, Any] = dict(zip([*AXES, "protocol", "loss", "setup"], key, strict=True))
    gaps = minus(other, one)
    for metric in METRICS:
        row[f"first_{metric}"] = Cell.of(one.numbers.get(metric)) if one else None
        row[f"second_{metric}"] = Cell.of(other.numbers.get(metric)) if other else None
        gap = Cell.of(gaps.get(metric))
        row[f"difference_{metric}"] = gap if paired or not gap else replace(gap, low=None, high=None)
    return row


def unequal(one: StudyRows, other: StudyRows) -> list[str]:
    """What was not equal for cells of the same name, and which cells have no counterpart."""
    both = [cell for cell in one.specs if cell in other.specs]
    names = _names(one, other)
    found: dict[str, dict[str, list[str]]] = {}
    for cell in both:
        book: Ledger = {}
        for name, rows in zip(names, (one, other), strict=True):
            for key, value in [*flat(rows.specs[cell]), *_budget(rows, cell)]:
                book.setdefault(key, {})[name] = value
        for key, _ in differing(book):
            found.setdefault(f"{key.replace('_', ' ')} {book[key][names[0]]} and {book[key][names[1]]}", {}).setdefault("cells", []).append(
                cell
            )
    if not both:
        return ["Fairness check: the studies share no cell whose training is at hand." if one.specs or other.specs else
                "Fairness check: how trials were trained is not at hand."]  # fmt: skip
    said = [
        what if len(where["cells"]) == len(both) else f"{what} (in {len(where['cells'])} of {len(both)} cells)"
        for what, where in found.items()
    ]
    return [
        f"Fairness check: not equal, in {names[0]} and {names[1]}: {'; '.join(said)}."
        if said
        else "Fairness check: cells of the same name were trained alike."
    ]


def _budget(rows: StudyRows, cell: str) -> Iterator[tuple[str, str]]:
    mine = rows.trials[rows.trials["cell"] == cell]
    yield "search trials", str(int((mine["role"] == "search").sum()))
    yield "seeds", str(mine.loc[(mine["role"] == "final") & (mine["status"] == "FINISHED"), "seed"].nunique())
    if "data" in mine and len(mine):
        yield "data", str(mine["data"].iloc[0])
