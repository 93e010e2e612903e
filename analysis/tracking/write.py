"""A study written to MLflow: one experiment per study, one parent run per cell, one child run per trial."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from filelock import FileLock

from analysis.tracking.store import TrackingError, local, open_store, redact
from trainables.disk import link, replace_text, settle

if TYPE_CHECKING:
    from mlflow.entities import RunInfo

Status = Literal["FINISHED", "FAILED", "KILLED", "RUNNING"]
Point = tuple[str, float, int, int]  # metric, value, step, time in milliseconds
PARENT = "mlflow.parentRunId"
BATCH = 1000  # metrics that MLflow takes in one call


class Tracker:
    """Every call may be made again: a run is found by its name, and what it holds already is not written twice.

    So a driver that does not know how far it came can begin anywhere before. resumed: the study has been here before.
    """

    def __init__(self, uri: str, study: str, *, artifacts: Path | None, resumed: bool = False) -> None:
        self._study, self._artifacts = study, artifacts
        self._runs: dict[str, RunInfo] = {}  # by cell, or cell/trial
        self._tried: set[str] = set()  # runs that were asked for; if the answer was lost, they may be there
        try:
            with _alone(uri):
                self._client = open_store(uri)
                self._experiment = self._find_experiment(resumed=resumed)
        except Exception as error:
            raise TrackingError(f"MLflow at {redact(uri)} cannot be used: {told(error)}") from error

    def knows(self, keys: Iterable[str]) -> bool:
        """Whether the store has this study, and all of these runs."""
        return bool(self._runs) and self._runs.keys() >= set(keys)

    def start_cell(self, cell: str, *, params: Mapping[str, Any], tags: Mapping[str, Any], files: Mapping[str, str], at: int = 0) -> None:
        self._start(cell, name=cell, params=params, tags={**tags, "kind": "cell"}, files=files, at=at)

    def start_trial(
        self, trial: str, *, cell: str, name: str, params: Mapping[str, Any], tags: Mapping[str, Any], files: Mapping[str, str], at: int = 0
    ) -> None:
        self._start(trial, name=name, params=params, tags={**tags, "kind": "trial", PARENT: self._runs[cell].run_id}, files=files, at=at)

    def log(self, key: str, metrics: Mapping[str, float], *, step: int = 0, at: int = 0) -> None:
        self.log_points(key, [(name, value, step, at or int(time.time() * 1000)) for name, value in metrics.items()])

    def log_points(self, key: str, points: Sequence[Point], tags: Mapping[str, Any] | None = None) -> None:
        """MLflow keeps a point with the same metric, step, value and time once."""
        from mlflow.entities import Metric, RunTag

        texts = [RunTag(name, str(value)) for name, value in (tags or {}).items()]
        for first in range(0, len(points) or bool(texts), BATCH - len(texts)):
            some = [Metric(name, float(value), at, step) for name, value, step, at in points[first : first + BATCH - len(texts)]]
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
        """files: what the run is to have; in a store on this file system they take no room of their own."""
        self.log_points(key, points, tags)
        self._put(self._runs[key], files)
        self._client.set_terminated(self._runs[key].run_id, status, end_time=at or None)

    def _put(self, run: RunInfo, files: Iterable[Path] = (), texts: Mapping[str, str] | None = None) -> None:
        """A folder is written to without MLflow, which knows nothing of power losses and copies whatever it gets."""
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
        settle(folder)

    def mark(self, keys: Iterable[str], status: Status) -> None:
        """KILLED: the driver is gone. RUNNING: it is back. Runs that were never made are passed over."""
        for key in keys:
            if run := self._runs.get(key):
                if status == "RUNNING":
                    self._client.update_run(run.run_id, status)
                else:
                    self._client.set_terminated(run.run_id, status)

    def _find_experiment(self, *, resumed: bool) -> str:
        there = self._client.get_experiment_by_name(self._study)
        if there and there.lifecycle_stage == "deleted":
            raise ValueError(f"its experiment '{self._study}' was deleted there; choose another --name, or restore it in MLflow")
        if there and not resumed and self._client.search_runs([there.experiment_id], max_results=1):
            raise ValueError(f"it already has an experiment '{self._study}'; choose another --name")
        if there:  # gone on with, or made by a start that never got to its first trial
            self._runs = self._known(str(there.experiment_id))
            return str(there.experiment_id)
        location = self._artifacts.absolute().as_uri() if self._artifacts else None
        experiment: str = self._client.create_experiment(self._study, artifact_location=location)
        return experiment

    def _known(self, experiment: str) -> dict[str, RunInfo]:
        found: dict[str, RunInfo] = {}
        token: str | None = None
        while token is None or token:
            page = self._client.search_runs([experiment], max_results=5000, page_token=token)
            for run in page:
                tags = run.data.tags
                if tags["kind"] == "study":
                    continue
                found[tags["cell"] if tags["kind"] == "cell" else f"{tags['cell']}/{tags['trial']}"] = run.info
            token = page.token or ""
        return found

    def _start(self, key: str, *, name: str, params: Mapping[str, Any], tags: Mapping[str, Any], files: Mapping[str, str], at: int) -> None:
        from mlflow.entities import Param

        if key not in self._runs and key in self._tried:
            self._runs = self._known(self._experiment)
        if key not in self._runs:
            self._tried.add(key)
            texts = {tag: str(value) for tag, value in tags.items()}
            run = self._client.create_run(self._experiment, start_time=at or None, run_name=name, tags=texts)
            self._runs[key] = run.info
        self._client.log_batch(self._runs[key].run_id, params=[Param(k, str(v)) for k, v in params.items()])
        self._put(self._runs[key], texts=files)


def keep_files(uri: str, study: str, files: Sequence[Path], *, below: Path) -> None:
    """The page and its like, as artifacts of a run of the study's own; the newest stand."""
    try:
        client = open_store(uri)
        experiment = client.get_experiment_by_name(study)
        assert experiment is not None
        there = client.search_runs([experiment.experiment_id], "tags.kind = 'study'", max_results=1)
        run = there[0] if there else client.create_run(experiment.experiment_id, run_name=study, tags={"kind": "study", "study": study})
        client.set_terminated(run.info.run_id, "FINISHED")  # before the files: whoever is killed leaves no run behind that looks alive
        for file in files:
            folder = file.parent.relative_to(below).as_posix()
            client.log_artifact(run.info.run_id, str(file), None if folder == "." else folder)
    except Exception as error:
        raise TrackingError(f"MLflow at {redact(uri)} cannot keep the page: {told(error)}") from error


def _alone(uri: str) -> AbstractContextManager[Any]:
    """Of several that open a fresh SQLite store at once, one makes its tables."""
    return FileLock(f"{uri.removeprefix('sqlite:///')}.lock", timeout=120) if uri.startswith("sqlite:///") else nullcontext()


def told(error: Exception) -> str:
    """What MLflow says, in one line and without passwords."""
    return " ".join(redact(str(error)).split()) or type(error).__name__
