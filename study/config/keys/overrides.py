"""Read and check `where` (values for some cells only) and `leave_out` (cells not to run)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import product
from typing import Any

from search_spaces import pick
from study.config.keys.key_types import several
from trainables.contract import Cell, ImageTransform, ModelConfig, Training

# The axes that an entry matches, each with a tuple of names, and the values that it sets.
CellOverride = Mapping[str, Any]
CELL_AXES = tuple(field.name for field in fields(Cell))
# The key of a study that lists the values of an axis.
PLURALS = {"loss": "losses", "protocol": "protocols"}
AXIS_KEYS = {axis: PLURALS.get(axis, axis) for axis in CELL_AXES}
# The same in all cells: metrics compare numbers and choose settings; data, weights and processes
# are prepared once.
SHARED = ("metrics", "select_metric", "deterministic", "cache_size", "resize", "weights")
OVERRIDABLE = tuple(
    field.name
    for kind in (Training, ImageTransform, ModelConfig)
    for field in fields(kind)
    if field.name not in SHARED
)


def matches(entry: CellOverride, cell: Cell) -> bool:
    """Return whether the entry is for this cell."""
    return all(getattr(cell, axis) in entry[axis] for axis in CELL_AXES if axis in entry)


def values_for(entries: Iterable[CellOverride], cell: Cell) -> dict[str, Any]:
    """Return the values that all matching entries set; later entries win."""
    return {
        key: value
        for entry in entries
        if matches(entry, cell)
        for key, value in entry.items()
        if key not in CELL_AXES
    }


def with_tuples(entry: CellOverride) -> dict[str, Any]:
    """Return the entry with a tuple of names for each axis."""
    return {key: _names(value) if key in CELL_AXES else value for key, value in entry.items()}


def _names(value: Any) -> tuple[Any, ...]:
    names = value if isinstance(value, (list, tuple)) else (value,)
    # Digits are an embedding size: no name is a number.
    return tuple(int(name) if str(name).isdigit() else name for name in names)


def check_entries(
    entries: Sequence[CellOverride],
    axes: Mapping[str, Sequence[Any]],
    *,
    key: str,
    known: Iterable[str],
) -> None:
    """Check that an entry names cells of the study and keys that may differ between cells.

    axes: the study's own values; key: where or leave_out; known: the study's keys.
    """
    allowed = dict.fromkeys(CELL_AXES if key == "leave_out" else (*CELL_AXES, *OVERRIDABLE))
    for entry in entries:
        for name in entry:
            if name not in allowed and name in known:
                raise ValueError(
                    f"{name} is the same in all cells of a study, so {key} cannot have it; set it "
                    f"in the study itself."
                )
            pick(allowed, name, f"axis or key in {key}")
        named = [axis for axis in CELL_AXES if axis in entry]
        if not named:
            raise ValueError(
                f"An entry of {key} names the cells that it is for ({', '.join(CELL_AXES)}), but "
                f"got {_as_yaml(entry)}."
            )
        if key == "where" and len(named) == len(entry):
            raise ValueError(
                f"An entry of where sets a value, but got {_as_yaml(entry)}; add one, as in "
                f"batch_size: 100."
            )
        for axis in named:
            for value in entry[axis]:
                pick({str(each): each for each in axes[axis]}, str(value), f"{axis} in {key}")


def check_matches(entries: Iterable[CellOverride], cells: Sequence[Cell]) -> None:
    """Check that every entry of `where` is for a cell of the study."""
    for entry in entries:
        if not any(matches(entry, cell) for cell in cells):
            raise ValueError(
                f"An entry of where matches a cell of the study, but {_as_yaml(entry)} matches "
                f"none; leave it out."
            )


def check_axes_remain(axes: Mapping[str, Sequence[Any]], cells: Iterable[Cell]) -> None:
    """Check that leave_out leaves at least one cell for every value of every axis."""
    left = list(cells)
    for axis, values in axes.items():
        for value in values:
            if not any(getattr(cell, axis) == value for cell in left):
                raise ValueError(
                    f"leave_out leaves no cell with {axis}={value}; take it out of "
                    f"{AXIS_KEYS[axis]} instead."
                )


def narrow(values: Mapping[str, Any], theirs: Collection[str]) -> dict[str, Any]:
    """Return the values of a preset that change because the user set some of its axes.

    Entries of `where` and `leave_out` lose the names that are gone, and fall away with their last
    cell; so do the settings of losses that are gone, and names of other axes that have no cell any
    more. theirs: the keys that the user set, which stay as they are, with settings.LOSS for a part
    of settings.
    """
    axes = {axis: _names(several(values[key])) for axis, key in AXIS_KEYS.items() if key in values}
    if len(axes) < len(AXIS_KEYS) or not {*theirs} & {*AXIS_KEYS.values()}:
        return {}
    own = {key: value for key, value in values.items() if value and key not in theirs}
    entries = {key: _within(own.get(key, ()), axes) for key in ("where", "leave_out")}
    cells = _cells(axes, entries["leave_out"])
    for axis, names in axes.items():
        if AXIS_KEYS[axis] in own and cells:
            axes[axis] = tuple(n for n in names if any(getattr(c, axis) == n for c in cells))
    entries = {key: _within(each, axes) for key, each in entries.items()}
    entries["where"] = [each for each in entries["where"] if _has_cell(each, cells)]
    settings = {
        loss: setting
        for loss, setting in (own.get("settings") or {}).items()
        if loss in axes["loss"] or f"settings.{loss}" in theirs
    }
    kept = {AXIS_KEYS[axis]: list(names) for axis, names in axes.items()}
    new = entries | kept | {"settings": settings}
    return {key: new[key] for key in new if key in own and new[key] != own[key]}


def _cells(axes: Mapping[str, Sequence[Any]], left_out: Iterable[CellOverride]) -> list[Cell]:
    entries = [with_tuples(entry) for entry in left_out]
    every = (Cell(*parts) for parts in product(*axes.values()))
    return [cell for cell in every if not any(matches(entry, cell) for entry in entries)]


def _has_cell(entry: CellOverride, cells: Iterable[Cell]) -> bool:
    return any(matches(with_tuples(entry), cell) for cell in cells)


def _within(
    entries: Iterable[CellOverride], axes: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    """Return the entries with the names that the axes have; without those that have none left."""
    found = []
    for entry in entries:
        named = [axis for axis in CELL_AXES if axis in entry]
        left = {axis: [n for n in _names(entry[axis]) if n in axes[axis]] for axis in named}
        if all(left.values()):
            found.append({**entry, **left})
    return found


def _as_yaml(entry: CellOverride) -> str:
    parts = [
        f"{key}: {', '.join(map(str, value)) if key in CELL_AXES else value}"
        for key, value in entry.items()
    ]
    return "{" + ", ".join(parts) + "}"
