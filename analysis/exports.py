"""The ranking, what stands beside it and the decomposition as files: frames for CSV, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from analysis.decomposition import decomposition
from analysis.tables.ranked import beside_table, decomposition_table, ranking_table
from analysis.tables.ranking import Ranking
from analysis.tables.table import PLACE
from analysis.tables.writers import as_markdown


def ranking_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per ranking and loss; shares from 0 to 1, and the rule of every number beside it."""
    frame = ranking_table(found).frame()
    counts = [name for name in frame.columns if name.startswith("rank") or name.endswith("_seeds")]
    return frame.astype(dict.fromkeys(counts, "Int64"))


def beside_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per baseline and per number that stands beside a loss's own, each with its rule."""
    return beside_table(found).frame()


def decomposition_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per number of each decomposition that there is."""
    return pd.DataFrame([_place(ranking) | line for ranking in found if (parts := decomposition(ranking)) for line in parts.plain()])


def ranking_json(found: Sequence[Ranking]) -> list[dict[str, Any]]:
    """Plain lists, dicts, strings and numbers."""
    return [
        asdict(replace(ranking, worlds={})) | {"decomposition": parts.plain() if (parts := decomposition(ranking)) else []}
        for ranking in found
    ]


def ranking_markdown(found: Sequence[Ranking]) -> str:
    """Of every ranking its table with the notes, what stands beside, and the decomposition if there is one."""
    if not found:
        return "No final trial has finished, so there is nothing to rank.\n"
    tables = [each for one in found for each in (ranking_table([one]), beside_table([one]), decomposition_table([one])) if each.rows]
    return "\n".join(as_markdown(each) for each in tables)


def _place(ranking: Ranking) -> dict[str, Any]:
    return {column.name: getattr(ranking, column.name) for column in PLACE}
