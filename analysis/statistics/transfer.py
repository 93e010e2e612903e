"""Measure how well validation scores predict test scores, and what choosing by them costs."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Transfer:
    """Hold the result over trials of one search that were scored on both; shares from 0 to 1."""

    trials: int
    rank_correlation: float  # Spearman; NaN where either side is constant
    chosen: float  # test score of the trial that validates best
    best: float  # highest test score of any trial
    regret: float  # best - chosen


def transfer(trials: pd.DataFrame, *, by: str, test: str) -> Transfer | None:
    """Return the transfer over trials; None if fewer than two have both scores.

    by: the validation score that chooses. test: the test score that counts; of trials that
    validate equally well their mean counts, since nothing else could choose between them.
    """
    both = trials.reindex(columns=[by, test]).dropna().astype(float)
    if len(both) < 2:
        return None
    varied = (both.nunique() > 1).all()
    correlation = both[by].corr(both[test], method="spearman") if varied else float("nan")
    chosen, best = float(both.loc[both[by] == both[by].max(), test].mean()), float(both[test].max())
    return Transfer(len(both), float(correlation), chosen, best, best - chosen)


def transfers(
    trials: pd.DataFrame, *, test: str, ways: tuple[str, ...] = ("recall_at_1", "map_at_r")
) -> pd.DataFrame:
    """Return a row per cell and way to choose: audit/select/WAY chooses, test counts.

    Trials are compared within a replicate, whose split they share; a row has the means over
    replicates. An audit scored both at the same epoch. Cells that peek have no row: what validates
    there is the test.
    """
    honest = trials[~trials["peeks"]] if len(trials) else trials
    rows = []
    for cell, mine in honest.groupby("cell", sort=False) if len(honest) else []:
        for way in ways:
            searches = (part for _, part in mine.groupby("replicate"))
            by = f"audit/select/{way}"
            if found := [each for part in searches if (each := transfer(part, by=by, test=test))]:
                about = {"cell": cell, "loss": mine["loss"].iloc[0]}
                about |= {"protocol": mine["protocol"].iloc[0], "way": way}
                rows.append(about | {"replicates": len(found)} | _means(found))
    shares = ["rank_correlation", "chosen", "best", "regret"]
    columns = ["cell", "loss", "protocol", "way", "replicates", "trials", *shares]
    return pd.DataFrame(rows, columns=columns)


def _means(found: list[Transfer]) -> dict[str, float]:
    """Return the sum of trials and the means of all else; NaN counts for nothing."""
    frame = pd.DataFrame([vars(each) for each in found])
    means = {str(name): float(value) for name, value in frame.mean().items()}
    return means | {"trials": int(frame["trials"].sum())}
