"""Frames as plain dicts: row by row, and group by group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def groups(frame: pd.DataFrame, keys: Sequence[str]) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """What all rows of a group share, and its rows, in the order in which they first came."""
    if len(frame):
        for values, part in frame.groupby(list(keys), sort=False):
            yield dict(zip(keys, values, strict=True)), part
