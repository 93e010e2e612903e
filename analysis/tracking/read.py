"""Read a study's frames back from any MLflow store, by MLflow's public client."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from analysis.record.events import CheckpointAudited, EpochDone, TrialEnded, TrialStarted, decode
from analysis.record.frames import CURVES, FINAL_CURVES, Fetch, StudyRows, make_rows
from analysis.record.state import TrialState
from analysis.tracking.earlier import stored_config
from analysis.tracking.experiment import CHOSEN
from analysis.tracking.store import (
    TrackingError,
    is_missing,
    local,
    one_line,
    open_store,
    redact,
)
from analysis.tracking.stored_studies import studies, trial_runs
from analysis.tracking.write import ENDED, SPEC, STARTED
from search_spaces import near_name

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

AT_ONCE = 8  # calls to the store
BEST, AUDIT = "select/best", "audit/"


def read_mlflow(uri: str, study: str) -> StudyRows:
    """Return a study's frames from an MLflow store. Raise TrackingError if it cannot be read."""
    try:
        if is_missing(uri):
            raise LookupError("there is no such file")
        client = open_store(uri)
        experiment = client.get_experiment_by_name(study)
        if experiment is None:
            raise LookupError(f"it has no study '{study}'.{near_name(studies(uri), study)}")
        runs = list(trial_runs(client, experiment.experiment_id))
        with ThreadPoolExecutor(AT_ONCE) as pool:
            trials = list(pool.map(lambda run: _trial(client, run), runs))
        by_trial = {trial.started.trial: run for trial, run in zip(trials, runs, strict=True)}
        fetch = _fetcher(client, by_trial)
        text = stored_config(client, runs[0]) if runs else ""
        return make_rows(
            trials,
            config={"name": study, **(yaml.safe_load(text) or {})},
            data={run.data.tags["dataset"]: run.data.tags["data"] for run in runs},
            shared=lambda started: _shared(fetch, started),
            fetch=fetch,
        )
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be read: {one_line(error)}") from error


def _trial(client: MlflowClient, run: Run) -> TrialState:
    """Return a trial as its record has it: from two tags, and the history of its curves."""
    tags = run.data.tags
    last = {k: v for k, v in run.data.metrics.items() if not k.startswith(CHOSEN)}
    if STARTED not in tags:
        raise LookupError(f"run {run.info.run_id} was written by Fair Trial 0.5 or earlier")
    started = decode(tags[STARTED].encode())
    assert isinstance(started, TrialStarted)
    trial = TrialState(started, tags.get("git", ""), tags.get("versions", ""))
    rows: dict[int, dict[str, float]] = {}
    wanted = CURVES + FINAL_CURVES * (trial.id.phase == "final")
    for name in [name for name in last if name.startswith(wanted)]:
        points = client.get_metric_history(run.info.run_id, name)
        for point in sorted(points, key=lambda point: point.timestamp):
            rows.setdefault(point.step, {})[name] = point.value
    audit = {name: last.pop(name) for name in list(last) if name.startswith(AUDIT)}
    epochs = sorted(rows)
    rest = {name: value for name, value in last.items() if not name.startswith(wanted)}
    if rest:  # what has no curve: test scores
        rows.setdefault(epochs[-1] if epochs else 0, {}).update(rest)
    trial.rows = [
        EpochDone(at=0, trial=started.trial, epoch=epoch, score=row.get(BEST, 0.0), metrics=row)
        for epoch, row in sorted(rows.items())
    ]
    if ENDED in tags:
        ended = decode(tags[ENDED].encode())
        assert isinstance(ended, TrialEnded)
        trial.ended = ended
    if audit:
        trial.audit = CheckpointAudited(trial=started.trial, metrics=audit)
    return trial


def _fetcher(client: MlflowClient, runs: dict[str, Run]) -> Fetch:
    """Return a function that finds a file of a trial.

    It reads files of a local store where they are, and downloads others once, into a folder that
    disappears with this program.
    """
    downloads: list[tempfile.TemporaryDirectory[str]] = []

    def fetch(trial: str, name: str) -> Path | None:
        info = runs[trial].info
        if folder := local(info.artifact_uri):
            return path if (path := folder / name).exists() else None
        if not downloads:
            downloads.append(tempfile.TemporaryDirectory())
        target = Path(downloads[0].name, info.run_id)
        if (target / name).exists():
            return target / name
        if name not in {file.path for file in client.list_artifacts(info.run_id)}:
            return None
        target.mkdir(exist_ok=True)
        return Path(client.download_artifacts(info.run_id, name, str(target)))

    return fetch


def _shared(fetch: Fetch, started: TrialStarted) -> Mapping[str, Any]:
    file = fetch(started.trial, SPEC)
    if file is None:
        raise LookupError(f"the run of {started.trial} has no {SPEC}; its store is not whole")
    found: dict[str, Any] = json.loads(file.read_text())
    return found
