"""Rows written in the background: one experiment per study, one parent run per cell, one child run per trial."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from analysis.tracking.store import TrackingError, open_store, redact

Status = Literal["FINISHED", "FAILED", "KILLED"]
PARENT = "mlflow.parentRunId"
RETRY_PAUSES = (0.2, 1.0, 5.0)  # seconds before a failed write is tried again


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
