"""Make the table of hyperparameter importance, by fANOVA."""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.ranking.edges import param_of
from analysis.ranking.measurement import Measurement
from analysis.record.frames import StudyRows
from analysis.statistics import importance as importance_shares
from analysis.tables.search import SCORE, searched_cells
from analysis.tables.table import COMPARISON_COLUMNS, Column, Table, table
from search_spaces.training import TRAINED

NOTE = (
    "Share of the variance of validation scores that a parameter explains (fANOVA); scores are "
    "compared within a replicate, because each has its own split. With few trials it is a hint."
)


def _centred(trials: pd.DataFrame) -> pd.Series[float]:
    """Return each score minus the mean of its replicate, whose split may be easier than others."""
    scores = trials[SCORE].astype(float)
    return scores - scores.groupby(trials["replicate"]).transform("mean")


def importance(rows: StudyRows) -> Table:
    """Return by cell the share of the variance of scores that each parameter explains."""
    lines: list[dict[str, Any]] = []
    for about, trials in searched_cells(rows):
        settings = trials["setting"].to_list()
        params = {
            name: param_of(str(about["loss"]), name) for setting in settings for name in setting
        }
        shares = importance_shares(
            settings,
            _centred(trials).to_list(),
            {name: param.search for name, param in params.items() if param},
        )
        peeks = bool(trials["peeks"].iloc[0])
        lines += [
            {
                **about,
                "trials": len(trials),
                "parameter": name.removeprefix(TRAINED),
                "importance": Measurement(share, peeks=peeks),
            }
            for name, share in shares.items()
        ]
    columns = [
        *COMPARISON_COLUMNS,
        Column("loss"),
        Column("parameter"),
        Column("importance", form="percent", digits=0, parts=("peeks",)),
        Column("trials", form="count"),
    ]
    title = "Importance of hyperparameters"
    return table("importance", title, columns, lines, notes=[NOTE] if lines else [])
