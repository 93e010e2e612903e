"""Searches: best-so-far against number of trials, tunability and importance, and what validation scores tell of test scores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.edges import param_of
from analysis.statistics import expected_best, importance, tunability
from analysis.statistics.transfer import transfers
from analysis.tables.frames import records
from analysis.tables.table import PLACE, Cell, Column, Form, Table, table
from analysis.tracking import StudyRows
from search_spaces.training import TRAINED
from trainables.contract import PUBLISHED

STEPS = (1, 2, 4, 8, 16, 32, 64)
AUDITED = "audit/recall_at_1"  # what an audit writes of every kept checkpoint
SCORE = "select/best"


def search(rows: StudyRows) -> Table:
    """The expected best validation score of so many trials, whatever their order; a search with test feedback is starred."""
    steps = [Column(f"best_of_{n}", f"best of {n}", "percent", 1, ("peeks",)) for n in STEPS]
    columns = [
        *PLACE,
        Column("loss"),
        Column("trials", form="count"),
        Column("parameters", form="count"),
        Column("published", "published setting", "percent", 1, ("peeks",)),
        *steps,
        Column("best", form="percent", digits=1, parts=("peeks",)),
        Column("within_a_point", "settings within a point", "percent", 0, ("peeks",)),
    ]
    lines = [about | _line(cell) for about, cell in _searched(rows)]
    notes = ["Scores of the select classes. Losses differ in number of parameters, so equal trials are not equal effort.",
             "best of n: expected over all orders of the trials that ran; a search that learns may be ahead of it."]  # fmt: skip
    return table("search", "What the search found", columns, lines, notes=notes if lines else [])


def _searched(rows: StudyRows) -> Iterator[tuple[dict[str, Any], pd.DataFrame]]:
    """Search trials with a score, by cell."""
    if rows.trials.empty or SCORE not in rows.trials:
        return
    tried = rows.trials[(rows.trials["role"] == "search") & rows.trials[SCORE].notna()]
    for _, cell in tried.groupby("cell", sort=False):
        yield {name: cell[name].iloc[0] for name in ("dataset", "backbone", "embedding_size", "protocol", "loss")}, cell


def _line(cell: pd.DataFrame) -> dict[str, Any]:
    scores = cell[SCORE].astype(float).to_list()
    expected, peeks = expected_best(scores), bool(cell["peeks"].iloc[0])
    first = cell.loc[cell["trial"] == PUBLISHED, SCORE].astype(float)
    best: dict[str, Any] = {f"best_of_{n}": Cell(float(expected[n - 1]), peeks=peeks) for n in STEPS if n <= len(scores)}
    return {
        "trials": len(scores),
        "parameters": len({name for setting in cell["setting"] for name in setting}),
        "published": Cell(float(first.iloc[0]), peeks=peeks) if len(first) else None,
        **best,
        "best": Cell(max(scores), peeks=peeks),
        "within_a_point": Cell(tunability(scores), peeks=peeks),
    }


def importances(rows: StudyRows) -> Table:
    """fANOVA by optuna, cell by cell."""
    lines: list[dict[str, Any]] = []
    for about, cell in _searched(rows):
        settings = cell["setting"].to_list()
        params = {name: param_of(str(about["loss"]), name) for setting in settings for name in setting}
        shares = importance(settings, cell[SCORE].astype(float).to_list(), {name: param.search for name, param in params.items() if param})
        about |= {"trials": len(cell)}
        peeks = bool(cell["peeks"].iloc[0])
        lines += [
            about | {"parameter": name.removeprefix(TRAINED), "importance": Cell(share, peeks=peeks)} for name, share in shares.items()
        ]
    shown = Column("importance", form="percent", digits=0, parts=("peeks",))
    columns = [*PLACE, Column("loss"), Column("parameter"), shown, Column("trials", form="count")]
    notes = ["Share of the variance of validation scores that a parameter explains (fANOVA); with few trials it is a hint."]
    return table("importance", "Importance of hyperparameters", columns, lines, notes=notes if lines else [])


def transferred(rows: StudyRows) -> Table:
    """Empty until an audit has scored the kept checkpoints on the test classes."""
    found = transfers(rows.trials, test=AUDITED) if AUDITED in rows.trials else transfers(pd.DataFrame(), test=AUDITED)
    forms: tuple[tuple[str, Form], ...] = (("chosen", "percent"), ("best", "percent"), ("regret", "points"))
    shares = [Column(name, form=form, digits=1, parts=("peeks",)) for name, form in forms]
    columns = [
        Column("cell"), Column("loss"), Column("protocol"), Column("way", "chosen by"), Column("trials", form="count"),
        Column("rank_correlation", form="number", digits=2), *shares,
    ]  # fmt: skip
    lines = [line | {name: Cell(line[name], peeks=True) for name in ("chosen", "best", "regret")} for line in records(found)]
    notes = ["regret: best test Recall@1 of any trial minus that of the trial which validation chooses. Nothing here ranks a loss.",
             "Validation and test scores are those of the epoch that each trial's own selection metric chose."]  # fmt: skip
    return table("transfer", "From validation to test", columns, lines, notes=notes if lines else [])
