"""The ranking as CSV, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from analysis.tables import METRICS, SETTING_AXES, Number, Ranking, RankingRow

SIDES = ("default", "validation", "difference")


def title(dataset: str, backbone: str, size: int) -> str:
    return f"{dataset}, {backbone}, {size} dimensions"


def ranking_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per ranking and loss; shares from 0 to 1. A column's rule says whether its numbers peek."""
    frame = pd.DataFrame([_flat(ranking, row) for ranking in found for row in ranking.rows], columns=_columns())
    counts = ["rank", "rank_low", "rank_high", "default_seeds", "validation_seeds"]
    return frame.astype(dict.fromkeys(counts, "Int64"))


def ranking_json(found: Sequence[Ranking]) -> list[dict[str, Any]]:
    """Plain lists, dicts, strings and numbers."""
    return [asdict(replace(ranking, worlds={})) for ranking in found]


def ranking_markdown(found: Sequence[Ranking]) -> str:
    """A table per ranking, with its baselines above and its notes below."""
    if not found:
        return "No final trial has finished, so there is nothing to rank.\n"
    return "\n".join(_markdown(ranking) for ranking in found)


def _markdown(ranking: Ranking) -> str:
    lines = [f"## {title(ranking.dataset, ranking.backbone, ranking.embedding_size)}", "", "Test classes, in percent.", ""]
    for name, numbers in ranking.baselines.items():
        lines.append(f"- {name}: Recall@1 {numbers['recall_at_1'].percent_interval()}, MAP@R {numbers['map_at_r'].percent_interval()}")
    header = ["rank", "loss", "default* Recall@1", "default* MAP@R", "validation Recall@1", "validation MAP@R", "difference* Recall@1"]
    lines += ["", f"| {' | '.join(header)} |".replace("*", "\\*"), "| :-: | --- |" + " --: |" * 5]
    for row in ranking.rows:
        rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]" if row.rank_interval else "-"
        cells = [side[m].percent_interval() if m in side else "-" for side in (row.default, row.validation) for m in METRICS]
        gap = row.difference["recall_at_1"].signed() if row.difference else "-"
        lines.append(f"| {' | '.join([rank, row.loss, *cells, gap])} |".replace("*", "\\*"))
    notes = [f"- {note}".replace("*", "\\*") for note in ranking.notes]
    return "\n".join([*lines, "", *notes, ""])


def _columns() -> list[str]:
    numbers = [f"{side}_{metric}{end}" for side in SIDES for metric in METRICS for end in ("", "_low", "_high")]
    rules = [f"{side}_rule" for side in SIDES]
    return [*SETTING_AXES, "rank", "rank_low", "rank_high", "loss", *numbers, *rules, "default_seeds", "validation_seeds"]


def _flat(ranking: Ranking, row: RankingRow) -> dict[str, Any]:
    low, high = row.rank_interval or (None, None)
    flat: dict[str, Any] = {axis: getattr(ranking, axis) for axis in SETTING_AXES}
    flat |= {"rank": row.rank, "rank_low": low, "rank_high": high, "loss": row.loss}
    for side in SIDES:
        numbers: dict[str, Number] = getattr(row, side)
        for metric, number in numbers.items():
            flat |= {f"{side}_{metric}": number.value, f"{side}_{metric}_low": number.low, f"{side}_{metric}_high": number.high}
            flat |= {f"{side}_rule": number.rule, f"{side}_seeds": number.seeds}
    return flat
