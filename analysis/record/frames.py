"""Read a study's record as the frames from which tables, figures and the page are made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.record.events import TrialStarted
from analysis.record.kept_files import kept_file
from analysis.record.ledger import LedgerReader
from analysis.record.specs import read_shared, spec_dict, split_digest
from analysis.record.state import StudyState, TrialState
from analysis.record.trial_id import REFITS
from search_spaces import pick
from trainables.contract import QUERIES

CURVES = ("select/", "seconds")  # metrics whose every epoch is in the curves, of every trial
FINAL_CURVES = ("fold", "train/loss")  # of final trials only: fold3/select/recall_at_1
SPEC_ORDER = (
    "final",
    "search",
    "finalist",
    "published",
    "refit",
    "published_refit",
)  # whose spec comes first
UNFINISHED, FINISHED, FAILED = "UNFINISHED", "FINISHED", "FAILED"

Fetch = Callable[[str, str], Path | None]
SharedSpec = Callable[[TrialStarted], Mapping[str, Any]]


def _no_file(trial: str, name: str) -> Path | None:
    return None


@dataclass(frozen=True)
class StudyRows:
    """Hold a study as frames; `run_id` joins trials.

    trials: one row per trial (what it was, its setting, how it ended, its last metrics).
    curves: one row per trial, epoch and metric.
    queries: one row per final trial, model (fold), rule and test query.
    specs: by cell what all its trials share, as one of them has it.
    spec: returns a trial's whole spec. fetch: returns a file that a trial left, or None.
    config: the study's own, empty if it is not known.
    """

    name: str
    trials: pd.DataFrame
    curves: pd.DataFrame
    queries: pd.DataFrame
    specs: Mapping[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    fetch: Fetch = field(default=_no_file, repr=False)
    spec: Callable[[str], dict[str, Any]] = field(default=lambda run: {}, repr=False)
    config: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def finals(self) -> pd.DataFrame:
        """Return the final trials that finished.

        Of those that ran again after a search had grown, only the ones with the last setting count.
        A seed that failed the second time is missing: its score was another setting's.
        """
        if self.trials.empty:
            return self.trials
        ended = (self.trials["phase"] == "final") & (self.trials["status"] != UNFINISHED)
        found = self.trials[ended]
        tried = found["role"].replace({refit: role for role, refit in REFITS.items()})
        last = found.groupby(["cell", "replicate", tried])["round"].transform("max")
        return found[(found["round"] == last) & (found["status"] == FINISHED)]


def of_dataset(rows: StudyRows, dataset: str) -> StudyRows:
    """Return the study's rows of one dataset; a ValueError names those that it has."""
    names = dict.fromkeys(map(str, rows.trials["dataset"])) if len(rows.trials) else {}
    pick(names, dataset, "dataset of this study")
    trials = rows.trials[rows.trials["dataset"] == dataset]
    curves, queries = (
        frame[frame["run_id"].isin(trials["run_id"])] if len(frame) else frame
        for frame in (rows.curves, rows.queries)
    )
    return replace(rows, trials=trials, curves=curves, queries=queries)


def read_record(folder: Path, *, queries: bool = True) -> StudyRows:
    """Return a study's frames from its folder alone. Raise ValueError if it holds no study.

    queries: also read the test queries, which takes most of the time.
    """
    state = StudyState(LedgerReader(folder).read())
    if state.identity is None:
        raise ValueError(f"{folder} is not the folder of a study that has begun.")
    return make_rows(
        list(state.trials.values()),
        config=state.config,
        data=state.identity.data,
        shared=lambda started: json.loads(read_shared(folder, started.spec)),
        fetch=partial(kept_file, folder),
        queries=queries,
    )


def make_rows(
    trials: list[TrialState],
    *,
    config: Mapping[str, Any],
    data: Mapping[str, str],
    shared: SharedSpec,
    fetch: Fetch,
    queries: bool = True,
) -> StudyRows:
    """Build the frames from trials, from the record or from MLflow.

    config: the study's own, at least its name. data: the fingerprint of each dataset. shared:
    returns what a trial shares with others. fetch: returns a file that a trial left.
    """
    name = config["name"]
    trials = sorted(trials, key=lambda trial: (trial.started.at, trial.id.name))
    by_run = {trial.started.trial: trial for trial in trials}
    cache: dict[str, Mapping[str, Any]] = {}

    def shared_once(started: TrialStarted) -> Mapping[str, Any]:
        if started.spec not in cache:
            cache[started.spec] = shared(started)
        return cache[started.spec]

    def spec(run: str) -> dict[str, Any]:
        started = by_run[run].started
        return spec_dict(shared_once(started), started)

    splits = {trial.started.spec: shared_once(trial.started)["splits"] for trial in trials}
    columns = {
        digest: {"folds": len(each), "split": split_digest(each)} for digest, each in splits.items()
    }
    frame = pd.DataFrame(
        [
            {"study": name, **_trial_row(trial, data), **columns[trial.started.spec]}
            | {"git": trial.commit, "versions": trial.versions}
            | trial.metrics()
            for trial in trials
        ]
    )
    asked = _queries(fetch, trials if queries else [])
    specs, curves = _specs(spec, trials), make_curves(trials)
    return StudyRows(name, frame, curves, asked, specs, fetch=fetch, spec=spec, config=config)


def _trial_row(trial: TrialState, data: Mapping[str, str]) -> dict[str, Any]:
    started, ended = trial.started, trial.ended
    return {
        "run_id": started.trial,
        "cell": str(trial.id.cell),
        **asdict(trial.id.cell),
        "label": started.label,
        "trial": trial.id.name,
        "role": trial.id.role,
        "number": trial.id.number,
        "replicate": trial.id.replicate,
        "round": trial.id.round,
        "phase": trial.id.phase,
        "rule": started.rule,
        "peeks": trial.peeks,
        "seed": started.seed,
        "tuned": started.tuned,
        # Leave out the usual prefix `loss.`.
        "setting": {key.removeprefix("loss."): value for key, value in started.setting.items()},
        "data": data[trial.id.cell.dataset],
        "extended": "after-test" if started.extended else None,
        "status": UNFINISHED if ended is None else FINISHED if trial.succeeded else FAILED,
        "start": started.at,
        "end": ended.at if ended else None,
        "outcome": ended.outcome if ended else None,
        "epochs": ended.epoch if ended else None,
        "nodes": " ".join(ended.nodes) if ended else None,
        "devices": ", ".join(sorted(ended.devices)) if ended else None,
        "error": (ended.error or None) if ended else None,
    }


def make_curves(trials: Sequence[TrialState]) -> pd.DataFrame:
    """Return one row per metric, trial and epoch."""
    numbers: dict[str, list[int]] = {}
    epochs: dict[str, list[int]] = {}
    values: dict[str, list[float]] = {}
    for number, trial in enumerate(trials):
        wanted = CURVES + FINAL_CURVES * (trial.id.phase == "final")
        # A few: nearly all rows of a trial have the same metrics.
        kinds = dict.fromkeys(tuple(row.metrics) for row in trial.rows)
        names = dict.fromkeys(name for kind in kinds for name in kind)
        for name in names:
            if not name.startswith(wanted) or "chosen_epoch" in name:
                continue
            mine = [row for row in trial.rows if name in row.metrics]
            numbers.setdefault(name, []).extend([number] * len(mine))
            epochs.setdefault(name, []).extend([row.epoch for row in mine])
            values.setdefault(name, []).extend([row.metrics[name] for row in mine])
    runs = pd.Series([trial.started.trial for trial in trials], dtype="str")
    parts = [
        pd.DataFrame(
            {
                "run_id": runs.take(np.array(numbers[name])).reset_index(drop=True),
                "metric": name,
                "epoch": np.array(epochs[name], dtype=int),
                "value": np.array(values[name], dtype=float),
            }
        )
        for name in values
    ]
    if not parts:
        return pd.DataFrame(columns=["run_id", "metric", "epoch", "value"])
    return pd.concat(parts, ignore_index=True)


def _queries(fetch: Fetch, trials: Iterable[TrialState]) -> pd.DataFrame:
    parts = []
    for trial in trials:
        if trial.id.phase == "final" and trial.succeeded:
            file = fetch(trial.started.trial, QUERIES)
            if file is None:
                raise ValueError(
                    f"A finished final trial leaves {QUERIES}, but {trial.started.trial} has none; "
                    "put back a copy of the study's folder."
                )
            found = pd.read_csv(file, dtype={"fold": str})
            parts.append(found.assign(run_id=trial.started.trial))
    if not parts:
        return pd.DataFrame(columns=["run_id", "fold", "rule", "class"])
    return pd.concat(parts, ignore_index=True)


def _specs(
    spec: Callable[[str], dict[str, Any]], trials: Iterable[TrialState]
) -> dict[str, dict[str, Any]]:
    """Return one spec for each cell: of a final trial of the loss's own number if it has one."""
    found: dict[str, dict[str, Any]] = {}
    for trial in sorted(trials, key=lambda trial: SPEC_ORDER.index(trial.id.role)):
        cell = str(trial.id.cell)
        if cell not in found:
            found[cell] = spec(trial.started.trial)
    return found
