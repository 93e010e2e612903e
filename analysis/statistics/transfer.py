"""Validation to test: do settings that validate well test well, and what does choosing by validation cost?"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Transfer:
    """Over the trials of one cell whose checkpoints were scored on both. Shares from 0 to 1."""

    trials: int
    rank_correlation: float  # Spearman; NaN where either side is constant
    chosen: float  # test score of the trial that validates best
    best: float  # highest test score of any trial
    regret: float  # best - chosen


def transfer(trials: pd.DataFrame, *, by: str, test: str) -> Transfer | None:
    """trials: one row each; by: the validation score that chooses; test: the test score that counts. None: fewer than two have both.

    Of trials that validate equally well the mean of their test scores counts: nothing else could choose between them.
    """
    both = trials.reindex(columns=[by, test]).dropna().astype(float)
    if len(both) < 2:
        return None
    varied = (both.nunique() > 1).all()
    correlation = both[by].corr(both[test], method="spearman") if varied else float("nan")
    chosen, best = float(both.loc[both[by] == both[by].max(), test].mean()), float(both[test].max())
    return Transfer(len(both), float(correlation), chosen, best, best - chosen)


def transfers(trials: pd.DataFrame, *, test: str, ways: tuple[str, ...] = ("recall_at_1", "map_at_r")) -> pd.DataFrame:
    """One row per cell and way to choose: audit/select/WAY chooses, test counts; an audit scored both at the same epoch.

    Cells that peek have none: what validates there is the test.
    """
    honest = trials[~trials["peeks"]] if len(trials) else trials
    cells = [(cell, mine) for cell, mine in honest.groupby("cell", sort=False)] if len(honest) else []
    rows = [
        {"cell": cell, "loss": mine["loss"].iloc[0], "protocol": mine["protocol"].iloc[0], "way": way, **vars(found)}
        for cell, mine in cells
        for way in ways
        if (found := transfer(mine, by=f"audit/select/{way}", test=test))
    ]
    return pd.DataFrame(rows, columns=["cell", "loss", "protocol", "way", "trials", "rank_correlation", "chosen", "best", "regret"])
