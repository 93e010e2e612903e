"""The ranking, what stands beside it and the decomposition, in the shape of every table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.decomposition import EPOCHS, STEPS, decomposition
from analysis.readings import HONEST
from analysis.statistics import LEVEL
from analysis.tables.number import metric_label
from analysis.tables.ranking import METRICS, Ranking, RankingRow
from analysis.tables.setups import SIDES
from analysis.tables.steps import ASKED
from analysis.tables.table import PLACE, Cell, Column, Table, measured, table
from trainables.contract import PEEKING

RULES = {"default": f"* ({PEEKING})", "validation": f" ({HONEST})", "difference": "*"}  # behind a head, so that no number goes without
BESIDE = [*PLACE, *(Column(name) for name in ("loss", "setup", "what", "metric", "rule", "setting"))]
SHARES = [
    Column("value", form="percent", parts=("low", "high", "peeks", "seeds")),
    Column("difference", "minus its own", "points", parts=("low", "high", "rule", "peeks")),
]


def ranking_table(found: Sequence[Ranking], above: Sequence[str] = ()) -> Table:
    """One row per ranking and loss; losses are ranked by the validation setup only."""
    columns = [
        *PLACE,
        Column("rank", form="count", parts=("low", "high")),
        Column("groups", "cannot be told apart"),
        Column("loss"),
        *(
            Column(
                f"{side}_{name}", f"{side} {metric_label(name)}{rule}", "points" if side == "difference" else "percent", 1, ("low", "high")
            )
            for side, rule in RULES.items()
            for name in METRICS
        ),
        *(Column(f"{side}_{part}", data=True) for part in ("rule", "setting", "seeds") for side in SIDES),
    ]
    rows = [_place(ranking) | _row(row) for ranking in found for row in ranking.rows]
    notes = list(dict.fromkeys(note for ranking in found for note in ranking.notes))
    return table("ranking", "Ranking on the test classes, in percent", columns, rows, above=above, notes=notes)


def _row(row: RankingRow) -> dict[str, Any]:
    rank = Cell(row.rank, *row.rank_interval) if row.rank and row.rank_interval else None
    cells = {f"{side}_{name}": Cell.of(getattr(row, side).get(name)) for side in SIDES for name in METRICS}
    told: dict[str, Any] = {"rank": rank, "groups": row.groups, "loss": row.loss, **cells}
    for side in SIDES:
        for number in getattr(row, side).values():
            told |= {f"{side}_rule": number.rule, f"{side}_setting": number.setting, f"{side}_seeds": number.seeds}
    return told


def beside_table(found: Sequence[Ranking]) -> Table:
    """One row per baseline and per number that stands beside a loss's own, each with its rule."""
    rows = [_place(ranking) | line for ranking in found for line in _beside(ranking)]
    return table("beside", "Beside the losses' own numbers, never ranked; in percent", [*BESIDE, *SHARES], rows)


def _beside(ranking: Ranking) -> Iterator[dict[str, Any]]:
    for name, numbers in ranking.baselines.items():
        for metric, number in numbers.items():
            about = {"loss": name, "setup": "untrained", "what": "baseline", "metric": metric, "rule": number.rule}
            yield {**about, "value": Cell.of(number)}
    for row in ranking.rows:
        for one in row.beside:
            for metric, number in one.numbers.items():
                about = {"loss": row.loss, "setup": one.setup, "what": one.what, "metric": metric, "rule": number.rule}
                cells = {"value": Cell.of(number), "difference": Cell.of(one.difference.get(metric))}
                yield {**about, "setting": number.setting, **cells}


def decomposition_table(found: Sequence[Ranking], metric: str = "recall_at_1") -> Table:
    """A row per loss and setting, a column per train classes and rule."""
    rows: list[dict[str, Any]] = []
    heads: dict[str, str] = {}
    for ranking in found:
        if not (parts := decomposition(ranking)):
            continue
        names = [f"{classes}_{rule}" for classes, rule in parts.columns]
        heads |= {name: f"{classes} train classes, {rule}" for name, (classes, rule) in zip(names, parts.columns, strict=True)}
        for loss, setting, cells in parts.lines():
            numbers = {name: Cell.of(cell.get(metric)) for name, cell in zip(names, cells, strict=True)}
            rows.append({**_place(ranking), "loss": loss, "setting": setting, **numbers})
    columns = [*PLACE, Column("loss"), Column("setting"), *(measured(name, head) for name, head in heads.items())]
    notes = [f"Columns: train classes and rule; {', '.join(f'{rule}: {epoch}' for rule, epoch in EPOCHS.items())}."] if rows else []
    return table("decomposition", STEPS.replace("Recall@1", metric_label(metric)), columns, rows, notes=notes)


def steps_table(found: Sequence[Ranking], metric: str = "recall_at_1") -> Table:
    """A row per loss and step; a step that no loss has is told below, with what it takes."""
    rows = [
        {**_place(ranking), "loss": row.loss, "step": step.name, "what": step.what, "why_not": step.why_not}
        | {"difference": Cell.of(step.difference.get(metric))}
        for ranking in found
        for row in ranking.rows
        for step in row.steps
    ]
    columns = [
        *PLACE,
        *(Column(name) for name in ("loss", "step", "what")),
        measured("difference", form="points", digits=1),
        Column("why_not"),
    ]
    notes = list(dict.fromkeys(note for ranking in found for note in step_notes(ranking)))
    return table(
        "steps", f"What each step changes in {metric_label(metric)}, test classes, in points", columns, rows, notes=notes if rows else []
    )


def step_notes(ranking: Ranking) -> list[str]:
    there = {step.name for row in ranking.rows for step in row.steps}
    if not there:
        return []
    where = f" under {ranking.protocol}" if ranking.several else ""
    return [
        f"[low, high]: {LEVEL:.0%} interval of the difference, paired, by bootstrap over test classes and seeds."
        " Tuned: with the feedback of its own setup.",
        *(f"{name}{where}: no number, because that takes {needs}." for name, needs in ASKED.items() if name not in there),
    ]


def _place(ranking: Ranking) -> dict[str, Any]:
    return {column.name: getattr(ranking, column.name) for column in PLACE}
