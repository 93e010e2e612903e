"""Write a study to MLflow: one experiment per study, one run per cell, one child run per trial."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock

from analysis.tracking.experiment import KIND, NOTE, QUESTION, DatasetInput
from analysis.tracking.store import (
    TrackingError,
    close_to_others,
    local,
    one_line,
    open_store,
    redact,
    remove,
)
from trainables.outputs.disk import link, replace_text, sync_to_disk

if TYPE_CHECKING:
    from mlflow.entities import RunInfo

Status = Literal["FINISHED", "FAILED", "KILLED", "RUNNING"]
Point = tuple[str, float, int, int]  # metric, value, step, time in milliseconds
PARENT = "mlflow.parentRunId"
# Tags of a trial's run: the events of the record, as JSON, from which read.py restores them.
STARTED, ENDED = "fairtrial.started", "fairtrial.ended"
KEY = "fairtrial.key"  # tag of every run but the study's own: its cell, or its trial's identity
SPEC = "spec.json"  # artifact of a trial's run: what it shares with others
BATCH = 1000  # metrics that MLflow takes in one call


class Tracker:
    """Write to the store; every call may be repeated.

    It finds a run by its name and writes nothing twice, so a driver that does not know how far it
    came can begin anywhere before. resumed: the study has been here before.
    """

    def __init__(
        self, uri: str, study: str, *, artifacts: Path | None, resumed: bool = False
    ) -> None:
        self._study, self._artifacts = study, artifacts
        self._runs: dict[str, RunInfo] = {}  # by cell, or cell/trial
        self._tried: set[str] = set()  # requested runs; if the answer was lost, they may exist
        try:
            with _alone(uri):
                self._client = open_store(uri)
                self._experiment = self._find_experiment(resumed=resumed)
                close_to_others(uri)
        except Exception as error:
            raise TrackingError(
                f"MLflow at {redact(uri)} cannot be used: {one_line(error)}"
            ) from error

    def knows(self, keys: Iterable[str]) -> bool:
        """Return whether the store has this study and all of these runs."""
        return bool(self._runs) and self._runs.keys() >= set(keys)

    def describe(self, question: str, *, answer: str) -> None:
        """Set the experiment's description: what the study asks, and what is known so far."""
        tags = {**KIND, QUESTION: question, NOTE: f"{question}\n\n{answer}"}
        for name, text in tags.items():
            self._client.set_experiment_tag(self._experiment, name, text)

    def discard(self) -> None:
        """Remove the experiment of a study that never began."""
        if not self._runs:
            remove(self._client, self._experiment, self._study)

    def start_cell(
        self,
        cell: str,
        *,
        name: str = "",
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        files: Mapping[str, str],
        dataset: DatasetInput | None = None,
        at: int = 0,
    ) -> None:
        """Create the parent run of a cell."""
        self._start(
            cell,
            name=name or cell,
            params=params,
            tags={**tags, "kind": "cell"},
            files=files,
            dataset=dataset,
            at=at,
        )

    def start_trial(
        self,
        trial: str,
        *,
        cell: str,
        name: str,
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        files: Mapping[str, str],
        dataset: DatasetInput | None = None,
        at: int = 0,
    ) -> None:
        """Create the run of a trial, below its cell's."""
        self._start(
            trial,
            name=name,
            params=params,
            tags={**tags, "kind": "trial", PARENT: self._runs[cell].run_id},
            files=files,
            dataset=dataset,
            at=at,
        )

    def log_points(
        self, key: str, points: Sequence[Point], tags: Mapping[str, Any] | None = None
    ) -> None:
        """Log metrics and tags; MLflow stores an equal point (metric, step, value, time) once."""
        from mlflow.entities import Metric, RunTag

        texts = [RunTag(name, str(value)) for name, value in (tags or {}).items()]
        for first in range(0, len(points) or bool(texts), BATCH - len(texts)):
            some = [
                Metric(name, float(value), at, step)
                for name, value, step, at in points[first : first + BATCH - len(texts)]
            ]
            self._client.log_batch(self._runs[key].run_id, metrics=some, tags=texts)

    def end(
        self,
        key: str,
        status: Status,
        *,
        points: Sequence[Point] = (),
        tags: Mapping[str, Any] | None = None,
        files: Sequence[Path] = (),
        at: int = 0,
    ) -> None:
        """End a run with its last points, tags and files.

        In a store on this file system the files are links, which take no space.
        """
        self.log_points(key, points, tags)
        self._put(self._runs[key], files)
        self._client.set_terminated(self._runs[key].run_id, status, end_time=at or None)

    def _put(
        self, run: RunInfo, files: Iterable[Path] = (), texts: Mapping[str, str] | None = None
    ) -> None:
        """Give files and texts to a run.

        Write to a local folder without MLflow, which does not sync to disk and copies every file.
        """
        folder = local(run.artifact_uri)
        if not folder:
            for file in files:
                self._client.log_artifact(run.run_id, str(file))
            for name, text in (texts or {}).items():
                self._client.log_text(run.run_id, text, name)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            link(file, folder / file.name)
        for name, text in (texts or {}).items():
            replace_text(folder / name, text)
        sync_to_disk(folder)

    def mark(self, keys: Iterable[str], status: Status) -> None:
        """Set the status of these runs: KILLED if the driver is gone, RUNNING if it is back.

        Skip runs that were never made.
        """
        for key in keys:
            if run := self._runs.get(key):
                if status == "RUNNING":
                    self._client.update_run(run.run_id, status)
                else:
                    self._client.set_terminated(run.run_id, status)

    def _find_experiment(self, *, resumed: bool) -> str:
        there = self._client.get_experiment_by_name(self._study)
        if there and there.lifecycle_stage == "deleted":
            raise ValueError(
                f"its experiment '{self._study}' was deleted there; choose another --name, or "
                f"restore it in MLflow"
            )
        if there and not resumed and self._client.search_runs([there.experiment_id], max_results=1):
            raise ValueError(f"it already has an experiment '{self._study}'; choose another --name")
        if there:  # resumed, or made by a start that never reached its first trial
            self._runs = self._known(str(there.experiment_id))
            return str(there.experiment_id)
        location = self._artifacts.absolute().as_uri() if self._artifacts else None
        experiment: str = self._client.create_experiment(
            self._study, artifact_location=location, tags=KIND
        )
        return experiment

    def _known(self, experiment: str) -> dict[str, RunInfo]:
        found: dict[str, RunInfo] = {}
        token: str | None = None
        while token is None or token:
            page = self._client.search_runs([experiment], max_results=5000, page_token=token)
            for run in page:
                if key := run.data.tags.get(KEY):
                    found[key] = run.info
            token = page.token or ""
        return found

    def _start(
        self,
        key: str,
        *,
        name: str,
        params: Mapping[str, Any],
        tags: Mapping[str, Any],
        files: Mapping[str, str],
        dataset: DatasetInput | None,
        at: int,
    ) -> None:
        from mlflow.entities import Param

        if key not in self._runs and key in self._tried:
            self._runs = self._known(self._experiment)
        if key not in self._runs:
            self._tried.add(key)
            texts = {KEY: key, **{tag: str(value) for tag, value in tags.items()}}
            run = self._client.create_run(
                self._experiment, start_time=at or None, run_name=name, tags=texts
            )
            self._runs[key] = run.info
        self._client.log_batch(
            self._runs[key].run_id, params=[Param(k, str(v)) for k, v in params.items()]
        )
        if dataset:
            self._client.log_inputs(self._runs[key].run_id, datasets=[dataset.entity()])
        self._put(self._runs[key], texts=files)


def _alone(uri: str) -> AbstractContextManager[Any]:
    """Return a lock on a SQLite store, so that only one process creates its tables."""
    return (
        FileLock(f"{uri.removeprefix('sqlite:///')}.lock", timeout=120)
        if uri.startswith("sqlite:///")
        else nullcontext()
    )
