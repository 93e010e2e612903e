"""Where: values that hold for some cells of a study only, and cells that are left out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from search_spaces import pick
from trainables.contract import Cell, Design, Look, Training

Entry = Mapping[str, Any]  # axes it matches, each with a tuple of names, and the values it puts in place
AXES = ("dataset", "backbone", "embedding_size", "loss", "protocol")
# One for a whole study: numbers are compared and settings chosen by the metrics; data, weights and processes are made ready once.
SHARED = ("metrics", "select_metric", "deterministic", "cache_size", "weights")
VARIES = tuple(field.name for kind in (Training, Look, Design) for field in fields(kind) if field.name not in SHARED)


def matches(entry: Entry, cell: Cell) -> bool:
    return all(getattr(cell, axis) in entry[axis] for axis in AXES if axis in entry)


def values_of(entry: Entry) -> dict[str, Any]:
    """What it puts in place."""
    return {key: value for key, value in entry.items() if key not in AXES}


def values_for(entries: Iterable[Entry], cell: Cell) -> dict[str, Any]:
    """What all entries that match put in place; later ones win."""
    return {key: value for entry in entries if matches(entry, cell) for key, value in values_of(entry).items()}


def with_axes(entry: Entry) -> dict[str, Any]:
    """One name or several become a tuple of them."""
    return {key: _several(value) if key in AXES else value for key, value in entry.items()}


def _several(value: Any) -> tuple[Any, ...]:
    names = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(int(name) if str(name).isdigit() else name for name in names)  # an embedding size; no name is a number


def check_entries(entries: Sequence[Entry], axes: Mapping[str, Sequence[Any]], *, key: str, known: Iterable[str]) -> None:
    """Every name is one, and every axis has one of the study's own values. key: where or leave_out; known: the study's keys."""
    allowed = dict.fromkeys(AXES if key == "leave_out" else (*AXES, *VARIES))
    for entry in entries:
        for name in entry:
            if name not in allowed and name in known:
                raise ValueError(f"{name} is the same in all cells of a study, so {key} cannot have it; set it in the study itself.")
            pick(allowed, name, f"axis or key in {key}")
        named = [axis for axis in AXES if axis in entry]
        if not named:
            raise ValueError(f"An entry of {key} names the cells that it is for ({', '.join(AXES)}), but got {shown(entry)}.")
        if key == "where" and len(named) == len(entry):
            raise ValueError(f"An entry of where puts a value in place, but got {shown(entry)}; add one, as in batch_size: 100.")
        for axis in named:
            for value in entry[axis]:
                pick({str(each): each for each in axes[axis]}, str(value), f"{axis} in {key}")


def check_matches(entries: Iterable[Entry], cells: Sequence[Cell], *, key: str) -> None:
    for entry in entries:
        if not any(matches(entry, cell) for cell in cells):
            raise ValueError(f"An entry of {key} matches a cell of the study, but {shown(entry)} matches none; leave it out.")


def check_rest(axes: Mapping[str, Sequence[Any]], cells: Iterable[Cell]) -> None:
    """What leave_out leaves has every value of every axis."""
    left = list(cells)
    for axis, values in axes.items():
        for value in values:
            if not any(getattr(cell, axis) == value for cell in left):
                key = {"loss": "losses", "protocol": "protocols"}.get(axis, axis)
                raise ValueError(f"leave_out leaves no cell with {axis}={value}; take it out of {key} instead.")


def shown(entry: Entry) -> str:
    """As YAML has it."""
    parts = [f"{key}: {', '.join(map(str, value)) if key in AXES else value}" for key, value in entry.items()]
    return "{" + ", ".join(parts) + "}"
