"""Write every search of a study as an Optuna study, which optuna-dashboard shows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from analysis.record.frames import UNFINISHED, StudyRows

if TYPE_CHECKING:
    import pandas as pd
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

STUDY = "fairtrial"  # attribute that marks an Optuna study as ours


def write_optuna(rows: StudyRows, url: str) -> list[str]:
    """Write the searches to an Optuna storage, and return the names of their studies.

    Those of an earlier export are replaced; other studies of the storage stay.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        storage = optuna.storages.get_storage(url)
        there = {study.study_name: study for study in storage.get_all_studies()}
    except Exception as error:
        text = " ".join(str(error).split())
        raise ValueError(
            f"--optuna takes the address of a database, as in sqlite:///optuna.db, but {url} "
            f"cannot be opened ({text})."
        ) from None
    names = []
    for name, metric, trials in _searches(rows):
        if old := there.get(name):
            if STUDY not in old.user_attrs:
                raise ValueError(
                    f"{url} already has a study '{name}' that this command did not write; choose "
                    "another database."
                )
            optuna.delete_study(study_name=name, storage=storage)
        study = optuna.create_study(study_name=name, storage=storage, direction="maximize")
        study.set_user_attr(STUDY, rows.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Optuna calls names of metrics experimental
            study.set_metric_names([metric])
        study.add_trials(_trials(rows, metric, trials))
        names.append(name)
    if not names:
        raise ValueError(f"{rows.name} has no search trials, so there is nothing for Optuna.")
    return names


def _searches(rows: StudyRows) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield each search: its name, its metric and its trials."""
    trials = rows.trials
    if trials.empty:
        return
    own = trials[(trials["role"] == "search") & (trials["status"] != UNFINISHED)]
    for (label, replicate), each in own.groupby(["label", "replicate"], sort=False):
        metric = rows.spec(str(each["run_id"].iloc[0]))["training"]["select_metric"]
        yield f"{rows.name}/{label}/replicate {replicate}", str(metric), each


def _trials(rows: StudyRows, metric: str, trials: pd.DataFrame) -> list[FrozenTrial]:
    """Return the trials of one search as Optuna has them, with the curve of each."""
    from optuna.trial import TrialState, create_trial

    spaces = _distributions([row["setting"] for _, row in trials.iterrows()])
    found = []
    for _, row in trials.sort_values("number").iterrows():
        setting = row["setting"]
        mine = rows.curves[
            (rows.curves["run_id"] == row["run_id"]) & (rows.curves["metric"] == f"select/{metric}")
        ]
        curve = {
            int(epoch): float(value)
            for epoch, value in zip(mine["epoch"], mine["value"], strict=True)
        }
        scored = bool(curve) and row["status"] == "FINISHED"
        trial = create_trial(
            state=TrialState.COMPLETE if scored else TrialState.FAIL,
            value=max(curve.values()) if scored else None,
            params=setting,
            distributions={name: spaces[name] for name in setting},
            intermediate_values=curve,
            user_attrs={"trial": row["trial"], "seed": row["seed"], "outcome": row["outcome"]},
        )
        trial.datetime_start = datetime.fromtimestamp(row["start"] / 1000)
        trial.datetime_complete = datetime.fromtimestamp(row["end"] / 1000)
        found.append(trial)
    return found


def _distributions(settings: list[dict[str, Any]]) -> dict[str, BaseDistribution]:
    """Return for each parameter the range, or the set, of the values that were tried."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    found: dict[str, BaseDistribution] = {}
    for name in dict.fromkeys(name for setting in settings for name in setting):
        values = [setting[name] for setting in settings if name in setting]
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in values):
            found[name] = FloatDistribution(min(values), max(values))
        else:
            found[name] = CategoricalDistribution(list(dict.fromkeys(values)))
    return found
