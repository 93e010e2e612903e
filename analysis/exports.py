"""The ranking, what stands beside it and the decomposition as CSV, Markdown and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from analysis.decomposition import STEPS, Decomposition, decomposition
from analysis.places import AXES
from analysis.tables import HONEST, METRICS, Beside, Number, Ranking, RankingRow
from trainables.contract import PEEKING

SIDES = ("default", "validation", "difference")
PLACE = [*AXES, "protocol"]
# The rule stands in the column's head, so that no number goes without.
HEADER = [
    "rank", "loss", f"default* Recall@1 ({PEEKING})", f"default* MAP@R ({PEEKING})", f"validation Recall@1 ({HONEST})",
    f"validation MAP@R ({HONEST})", f"difference* Recall@1 ({HONEST} minus {PEEKING})",
]  # fmt: skip


def ranking_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per ranking and loss; shares from 0 to 1. A column's rule says whether its numbers peek."""
    frame = pd.DataFrame([_flat(ranking, row) for ranking in found for row in ranking.rows], columns=_columns())
    counts = ["rank", "rank_low", "rank_high", "default_seeds", "validation_seeds"]
    return frame.astype(dict.fromkeys(counts, "Int64"))


def beside_frame(found: Sequence[Ranking]) -> pd.DataFrame:
    """One row per baseline and per number that stands beside a loss's own, each with its rule."""
    lines: list[dict[str, Any]] = []
    for ranking in found:
        for name, numbers in ranking.baselines.items():
            lines += [_place(ranking) | _line(name, "untrained", "baseline", metric, number) for metric, number in numbers.items()]
        for row, one in _beside(ranking):
            for metric, number in one.numbers.items():
                lines.append(_place(ranking) | _line(row.loss, one.setup, one.what, metric, number) | _gap(one.difference.get(metric)))
    names = ["loss", "setup", "what", "metric", "value", "low", "high", "rule", "setting", "peeks", "seeds"]
    return pd.DataFrame(lines, columns=[*PLACE, *names, *_gap(None)])


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
    """A table per ranking, with its baselines above, and below it what stands beside, the decomposition and the notes."""
    if not found:
        return "No final trial has finished, so there is nothing to rank.\n"
    return "\n".join(_markdown(ranking) for ranking in found)


def _markdown(ranking: Ranking) -> str:
    lines = [f"## {ranking.title}", "", "Test classes, in percent.", ""]
    for name, numbers in ranking.baselines.items():
        recall, precision = numbers["recall_at_1"], numbers["map_at_r"]
        lines.append(f"- {name}: Recall@1 {recall.percent_interval()}, MAP@R {precision.percent_interval()} (rule {recall.rule})")
    lines += ["", *_table(HEADER, [_cells(row) for row in ranking.rows], left=2)]
    if any(row.beside for row in ranking.rows):
        header = ["loss", "setup", "beside its own number", "rule", "Recall@1", "MAP@R", "minus its own, Recall@1"]
        lines += ["", *_table(header, [_beside_cells(row, one) for row, one in _beside(ranking)], left=4)]
    if parts := decomposition(ranking):
        lines += ["", f"{STEPS}:", "", *_parts_table(parts)]
    return "\n".join([*lines, "", *(_escaped(f"- {note}") for note in ranking.notes), ""])


def _table(header: list[str], rows: list[list[str]], *, left: int) -> list[str]:
    """left: columns of words; the others are numbers."""
    rule = "| " + " | ".join(["---"] * left + ["--:"] * (len(header) - left)) + " |"
    return [_escaped(f"| {' | '.join(header)} |"), rule, *(_escaped(f"| {' | '.join(row)} |") for row in rows)]


def _escaped(text: str) -> str:
    return text.replace("*", "\\*")


def _cells(row: RankingRow) -> list[str]:
    rank = f"{row.rank} [{row.rank_interval[0]}-{row.rank_interval[1]}]" if row.rank_interval else "-"
    cells = [_written(side.get(metric)) for side in (row.default, row.validation) for metric in METRICS]
    return [rank, row.loss, *cells, _signed(row.difference)]


def _beside_cells(row: RankingRow, one: Beside) -> list[str]:
    numbers = [one.numbers[metric] for metric in METRICS]
    return [row.loss, one.setup, one.what, numbers[0].rule, *(number.percent_interval() for number in numbers), _signed(one.difference)]


def _parts_table(parts: Decomposition) -> list[str]:
    header = ["loss", "setting", *(f"{classes} train classes, {rule}" for classes, rule in parts.columns)]
    rows = [[loss, setting, *(_written(cell.get("recall_at_1"), "") for cell in cells)] for loss, setting, cells in parts.lines()]
    return _table(header, rows, left=2)


def _written(number: Number | None, none: str = "-") -> str:
    return number.percent_interval() if number else none


def _signed(difference: dict[str, Number]) -> str:
    return difference["recall_at_1"].signed() if difference else "-"


def _beside(ranking: Ranking) -> list[tuple[RankingRow, Beside]]:
    return [(row, one) for row in ranking.rows for one in row.beside]


def _place(ranking: Ranking) -> dict[str, Any]:
    return {axis: getattr(ranking, axis) for axis in PLACE}


def _line(loss: str, setup: str, what: str, metric: str, number: Number) -> dict[str, Any]:
    names = {"loss": loss, "setup": setup, "what": what, "metric": metric}
    return names | asdict(number) | {"peeks": number.peeks}


def _gap(number: Number | None) -> dict[str, Any]:
    """Columns of the difference to the loss's own number."""
    values = (number.value, number.low, number.high, number.rule) if number else (None,) * 4
    return dict(zip(("difference", "difference_low", "difference_high", "difference_rule"), values, strict=True))


def _columns() -> list[str]:
    numbers = [f"{side}_{metric}{end}" for side in SIDES for metric in METRICS for end in ("", "_low", "_high")]
    rules = [f"{side}_rule" for side in SIDES] + ["default_setting", "validation_setting"]
    return [*PLACE, "rank", "rank_low", "rank_high", "loss", *numbers, *rules, "default_seeds", "validation_seeds"]


def _flat(ranking: Ranking, row: RankingRow) -> dict[str, Any]:
    low, high = row.rank_interval or (None, None)
    flat = _place(ranking) | {"rank": row.rank, "rank_low": low, "rank_high": high, "loss": row.loss}
    for side in SIDES:
        numbers: dict[str, Number] = getattr(row, side)
        for metric, number in numbers.items():
            flat |= {f"{side}_{metric}": number.value, f"{side}_{metric}_low": number.low, f"{side}_{metric}_high": number.high}
            flat |= {f"{side}_rule": number.rule, f"{side}_setting": number.setting, f"{side}_seeds": number.seeds}
    return flat
