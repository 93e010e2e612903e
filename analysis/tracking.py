"""MLflow: rows written in the background, and read back as frames. The only door to mlflow."""

from __future__ import annotations

import os
import queue
import re
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from search_spaces import Value
from search_spaces.training import TRAINED

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

Status = Literal["FINISHED", "FAILED", "KILLED"]
PARENT = "mlflow.parentRunId"
QUERIES = "queries.csv"
CURVES = ("select/", "seconds")  # metrics whose every epoch is read back
RETRY_PAUSES = (0.2, 1.0, 5.0)  # seconds before a failed write is tried again
SETTINGS = ("loss.", TRAINED)  # params with these prefixes are the trial's setting; loss. goes without saying


def open_store(uri: str) -> MlflowClient:
    """A client; a fresh SQLite store is made here, which takes some seconds."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    import logging

    from mlflow import MlflowClient

    logging.getLogger("mlflow").setLevel(logging.WARNING)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    return MlflowClient(uri)


@dataclass(frozen=True)
class StudyRows:
    """A study as frames. trials: one row per trial (what it was, its setting, how it ended, its last metrics);
    curves: one row per trial, epoch and metric; queries: one row per final trial, model (fold), rule and test query.
    A trial's role is search, final, published or refit.
    """

    name: str
    trials: pd.DataFrame
    curves: pd.DataFrame
    queries: pd.DataFrame

    @property
    def finals(self) -> pd.DataFrame:
        """Final trials that finished."""
        if self.trials.empty:
            return self.trials
        return self.trials[(self.trials["phase"] == "final") & (self.trials["status"] == "FINISHED")]


class TrackingError(ConnectionError):
    """MLflow cannot be used, or lost something: one sentence for people."""


def redact(text: str) -> str:
    """Without the user and password that an address may carry."""
    return re.sub(r"://[^/@\s]+@", "://…@", text)


class Tracker:
    """Writes one study from the driver. Every call returns at once; a thread does the writing in order.

    A job that fails is tried again; if it fails for good the others still run, and close() says so.

    Experiment = study, one parent run per cell, one child run per trial.
    """

    def __init__(self, uri: str, study: str, *, artifacts: Path | None) -> None:
        self._uri, self._study, self._artifacts = uri, study, artifacts
        self._jobs: queue.Queue[Callable[[], None] | None] = queue.Queue()
        self._runs: dict[str, str] = {}  # cell or trial id -> run id
        self._open: set[str] = set()
        self._failure: Exception | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._work, name="tracker", daemon=True)
        self._thread.start()

    def wait_until_ready(self) -> None:
        """Until the experiment exists; raises a TrackingError with what stood in the way."""
        self._ready.wait()
        self._raise(f"MLflow at {redact(self._uri)} cannot be used")

    def start_cell(self, cell: str, *, params: Mapping[str, Any], tags: Mapping[str, Any], files: Mapping[str, str]) -> None:
        def job() -> None:
            self._create(cell, run_name=cell, params=params, tags={**tags, "kind": "cell"})
            for name, text in files.items():
                self._client.log_text(self._runs[cell], text, name)

        self._jobs.put(job)

    def start_trial(
        self, trial: str, *, cell: str, name: str, params: Mapping[str, Any], tags: Mapping[str, Any], files: Mapping[str, str]
    ) -> None:
        def job() -> None:
            self._create(trial, run_name=name, params=params, tags={**tags, "kind": "trial", PARENT: self._runs[cell]})
            for file, text in files.items():
                self._client.log_text(self._runs[trial], text, file)

        self._jobs.put(job)

    def log(self, key: str, metrics: Mapping[str, float], *, step: int = 0) -> None:
        now, points = int(time.time() * 1000), dict(metrics)

        def job() -> None:
            from mlflow.entities import Metric

            self._client.log_batch(self._runs[key], metrics=[Metric(name, float(value), now, step) for name, value in points.items()])

        self._jobs.put(job)

    def end(self, key: str, status: Status, *, tags: Mapping[str, Any] | None = None, files: Sequence[Path] = ()) -> None:
        """files: copied to the run."""

        def job() -> None:
            for name, value in (tags or {}).items():
                self._client.set_tag(self._runs[key], name, str(value))
            for file in files:
                self._client.log_artifact(self._runs[key], str(file))
            self._client.set_terminated(self._runs[key], status)
            self._open.discard(key)

        self._jobs.put(job)

    def close(self) -> None:
        """Write what is left; runs that nobody ended are KILLED. Raises a TrackingError if something was lost."""
        self._jobs.put(self._kill_open)
        self._jobs.put(None)
        self._thread.join()
        self._raise("Not everything reached MLflow")

    def _work(self) -> None:
        try:
            self._client = open_store(self._uri)
            self._experiment = self._create_experiment()
        except Exception as error:
            self._failure = error
            self._ready.set()
            return
        self._ready.set()
        while (job := self._jobs.get()) is not None:
            self._try(job)

    def _try(self, job: Callable[[], None]) -> None:
        for pause in (*RETRY_PAUSES, None):
            try:
                job()
                return
            except Exception as error:
                if pause is None:
                    self._failure = self._failure or error
                else:
                    time.sleep(pause)

    def _create_experiment(self) -> str:
        there = self._client.get_experiment_by_name(self._study)
        if there and self._client.search_runs([there.experiment_id], max_results=1):
            raise ValueError(f"it already has an experiment '{self._study}'; choose another --name")
        if there:  # made by a start that never got to its first trial
            return str(there.experiment_id)
        location = self._artifacts.absolute().as_uri() if self._artifacts else None
        experiment: str = self._client.create_experiment(self._study, artifact_location=location)
        return experiment

    def _create(self, key: str, *, run_name: str, params: Mapping[str, Any], tags: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        if key not in self._runs:  # a second try does not make a second run
            run = self._client.create_run(self._experiment, run_name=run_name, tags={k: str(v) for k, v in tags.items()})
            self._runs[key] = run.info.run_id
            self._open.add(key)
        self._client.log_batch(self._runs[key], params=[Param(k, str(v)) for k, v in params.items()])

    def _kill_open(self) -> None:
        for key in sorted(self._open):
            self._client.set_terminated(self._runs[key], "KILLED")

    def _raise(self, what: str) -> None:
        failure, self._failure = self._failure, None  # each is told once
        if failure:
            reason = " ".join(redact(str(failure)).split()) or type(failure).__name__
            raise TrackingError(f"{what}: {reason}") from failure


def studies(uri: str) -> list[str]:
    """Names of the studies in a store, newest first."""
    found = open_store(uri).search_experiments(order_by=["creation_time DESC"])
    return [experiment.name for experiment in found if experiment.name != "Default"]


def read_study(uri: str, study: str) -> StudyRows:
    """Everything that tables, figures and the page are made of."""
    try:
        client = open_store(uri)
        runs = _runs(client, study)
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot be read: {' '.join(redact(str(error)).split())}") from error
    trials = pd.DataFrame([_trial_row(run) for run in runs])
    if len(trials):
        trials = trials.sort_values(["start", "trial"], ignore_index=True)
    return StudyRows(study, trials, _curves(client, runs), _queries(client, runs))


def _curves(client: MlflowClient, runs: list[Run]) -> pd.DataFrame:
    rows = [
        {"run_id": run.info.run_id, "metric": name, "epoch": point.step, "value": point.value}
        for run in runs
        for name in run.data.metrics
        if name.startswith(CURVES)
        for point in client.get_metric_history(run.info.run_id, name)
    ]
    return pd.DataFrame(rows, columns=["run_id", "metric", "epoch", "value"])


def _queries(client: MlflowClient, runs: list[Run]) -> pd.DataFrame:
    parts = []
    with tempfile.TemporaryDirectory() as folder:
        for run in runs:
            if run.data.tags["phase"] == "final" and run.info.status == "FINISHED":
                (target := Path(folder, run.info.run_id)).mkdir()
                file = client.download_artifacts(run.info.run_id, QUERIES, str(target))
                parts.append(_with_rule(pd.read_csv(file, dtype={"fold": str}), run.data.tags["rule"]).assign(run_id=run.info.run_id))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["run_id", "fold", "rule", "class"])


def _with_rule(queries: pd.DataFrame, rule: str) -> pd.DataFrame:
    """Studies from before 0.4 had one model and one rule, and did not say so in every row."""
    return queries.assign(fold=queries.get("fold", "0"), rule=queries.get("rule", rule))


def _runs(client: MlflowClient, study: str) -> list[Run]:
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        raise LookupError(f"it has no study '{study}'")
    runs: list[Run] = []
    token: str | None = None
    while token is None or token:
        page = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'", max_results=5000, page_token=token)
        runs += page
        token = page.token or ""
    return runs


def _trial_row(run: Run) -> dict[str, Any]:
    tags = {k: v for k, v in run.data.tags.items() if not k.startswith("mlflow.")}
    info = {"run_id": run.info.run_id, "status": run.info.status, "start": run.info.start_time, "end": run.info.end_time}
    setting = {k.removeprefix(SETTINGS[0]): _value(v) for k, v in run.data.params.items() if k.startswith(SETTINGS)}
    row = {**tags, **info, "setting": setting, **run.data.metrics}
    row |= {"seed": int(tags["seed"]), "peeks": tags["peeks"] == "True", "embedding_size": int(tags["embedding_size"])}
    row |= {"tuned": tags["tuned"] == "True"} if "tuned" in tags else {}
    return row | {"role": tags["trial"].partition("-")[0], "folds": int(tags.get("folds", 1))}


def _value(text: str) -> Value:
    """A param as it was before MLflow made it a text."""
    if text in ("True", "False"):
        return text == "True"
    try:
        return float(text)
    except ValueError:
        return text
