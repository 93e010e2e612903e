"""The runs of a study as a store has them: straight from a database's tables, or through a server in as few calls as it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    import sqlalchemy as sa
    from mlflow import MlflowClient

CURVES = ("select/", "seconds")  # metrics whose every epoch is read back, of every trial
FINAL_CURVES = ("fold", "train/loss")  # of final trials only: fold3/select/recall_at_1
AT_ONCE, POINTS = 100, 25_000  # runs of one call to a server, and points of its answer: MLflow's own limits


@dataclass(frozen=True)
class RawRun:
    """One trial's run. metrics: the last value of each."""

    run_id: str
    status: str
    start: int | None
    end: int | None
    artifacts: str
    tags: dict[str, str]
    params: dict[str, str]
    metrics: dict[str, float]


@dataclass(frozen=True)
class Raw:
    """runs: trials only; curves: run_id, metric, epoch, value, each epoch once."""

    runs: list[RawRun]
    curves: pd.DataFrame


def read_raw(client: MlflowClient, uri: str, study: str) -> Raw:
    experiment = client.get_experiment_by_name(study)
    if experiment is None:
        raise LookupError(f"it has no study '{study}'")
    if uri.startswith(("http://", "https://")):
        return _through_server(client, uri, experiment.experiment_id)
    return _from_database(uri, int(experiment.experiment_id))


def _from_database(uri: str, experiment: int) -> Raw:
    """Four queries and one for each metric, however many trials there are."""
    import sqlalchemy as sa

    engine = sa.create_engine(uri)
    try:
        with engine.connect() as connection:
            runs = _table("runs", "run_uuid", "status", "start_time", "end_time", "artifact_uri", "experiment_id", "lifecycle_stage")
            mine = sa.select(runs.c.run_uuid).where(runs.c.experiment_id == experiment, runs.c.lifecycle_stage == "active")
            texts = {name: _texts(connection, name, mine) for name in ("tags", "params")}
            last = _table("latest_metrics", "run_uuid", "key", "value", "is_nan")
            metrics: dict[str, dict[str, float]] = {}
            for run, key, value, is_nan in connection.execute(sa.select(*last.c).where(last.c.run_uuid.in_(mine))):
                metrics.setdefault(run, {})[key] = float("nan") if is_nan else value
            about = connection.execute(sa.select(*list(runs.c)[:5]).where(runs.c.run_uuid.in_(mine)))
            found = [RawRun(*row, *(part.get(row[0], {}) for part in (texts["tags"], texts["params"], metrics))) for row in about]
            trials = [run for run in found if run.tags.get("kind") == "trial"]
            return Raw(trials, _points(connection, mine, trials))
    finally:
        engine.dispose()


def _table(name: str, *columns: str) -> sa.TableClause:
    import sqlalchemy as sa

    return sa.table(name, *(sa.column(column) for column in columns))


def _texts(connection: sa.Connection, name: str, mine: sa.Select[Any]) -> dict[str, dict[str, str]]:
    import sqlalchemy as sa

    rows = _table(name, "run_uuid", "key", "value")
    found: dict[str, dict[str, str]] = {}
    for run, key, value in connection.execute(sa.select(*rows.c).where(rows.c.run_uuid.in_(mine))):
        found.setdefault(run, {})[key] = value
    return found


def _points(connection: sa.Connection, mine: sa.Select[Any], trials: list[RawRun]) -> pd.DataFrame:
    """Every metric for itself, so that no name is read more often than once, and past SQLAlchemy's row objects: there are millions."""
    import sqlalchemy as sa

    points = _table("metrics", "run_uuid", "key", "step", "value", "timestamp")
    is_nan = sa.column("is_nan", sa.Boolean())
    tags = _table("tags", "run_uuid", "key", "value")
    finals = sa.select(tags.c.run_uuid).where(tags.c.key == "phase", tags.c.value == "final", tags.c.run_uuid.in_(mine))
    everyone = [run.run_id for run in trials]
    parts = []
    for name in _names(trials):
        value = sa.case((is_nan, sa.null()), else_=points.c.value)
        whose = points.c.run_uuid.in_(finals if name.startswith(FINAL_CURVES) else mine)
        query = sa.select(points.c.run_uuid, points.c.step, value).where(points.c.key == name, whose)
        result = connection.execute(query.order_by(points.c.timestamp))
        assert result.cursor, "a select has rows"
        parts.append(_curve(name, result.cursor.fetchall(), everyone))
        result.close()
    return _together(parts)


def _names(trials: Iterable[RawRun]) -> list[str]:
    """Curves of all trials, and of final ones their train loss and those of their folds."""
    every = dict.fromkeys(name for run in trials for name in run.metrics)
    finals = {name for run in trials if run.tags.get("phase") == "final" for name in run.metrics if name.startswith(FINAL_CURVES)}
    return [name for name in every if name.startswith(CURVES) or (name in finals and "chosen_epoch" not in name)]


def _curve(name: str, rows: Sequence[tuple[str, int, float | None]], wanted: list[str]) -> pd.DataFrame:
    """rows: run, step and value in the order of their writing; of an epoch that was written twice the later counts."""
    runs, steps, values = zip(*rows, strict=True) if rows else ((), (), ())
    places = {run: place for place, run in enumerate(wanted)}
    numbers = np.fromiter((places.get(run, -1) for run in runs), dtype=int, count=len(runs))
    frame = pd.DataFrame({"run": numbers, "epoch": np.array(steps, dtype=int), "value": np.array(values, dtype=float)})
    frame = frame[frame["run"] >= 0].drop_duplicates(["run", "epoch"], keep="last").sort_values(["run", "epoch"], ignore_index=True)
    run_ids = pd.Series(wanted, dtype="str").take(frame["run"].to_numpy()).reset_index(drop=True)
    return pd.DataFrame({"run_id": run_ids, "metric": name, "epoch": frame["epoch"], "value": frame["value"]})


def _together(parts: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["run_id", "metric", "epoch", "value"])


def _through_server(client: MlflowClient, uri: str, experiment: str) -> Raw:
    runs: list[RawRun] = []
    token: str | None = None
    while token is None or token:
        page = client.search_runs([experiment], "tags.kind = 'trial'", max_results=5000, page_token=token)
        for run in page:
            info, data = run.info, run.data
            runs.append(
                RawRun(info.run_id, info.status, info.start_time, info.end_time, info.artifact_uri, data.tags, data.params, data.metrics)
            )
        token = page.token or ""
    ask = _bulk(uri)
    parts = []
    for name in _names(runs):
        wanted = [run.run_id for run in runs if name in run.metrics and (name.startswith(CURVES) or run.tags.get("phase") == "final")]
        parts.append(
            _curve(name, [point[:3] for point in sorted(_histories(client, ask, wanted, name), key=lambda point: point[3])], wanted)
        )
    return Raw(runs, _together(parts))


Point = tuple[str, int, float, int]  # run, step, value, time
Ask = Callable[[list[str], str], list[Point] | None]  # runs, metric -> their points; None: the server cannot


def _bulk(uri: str) -> Ask:
    """The call behind MLflow's own charts: many runs at a time."""
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    creds = get_default_host_creds(uri)

    def ask(runs: list[str], metric: str) -> list[Point] | None:
        params = {"run_id": runs, "metric_key": metric, "max_results": POINTS}
        answer = http_request(creds, "/ajax-api/2.0/mlflow/metrics/get-history-bulk", "GET", params=params, raise_on_status=False)
        if answer.status_code != 200:
            return None
        points = answer.json()["metrics"]
        return [(p["run_id"], int(p["step"]), float(p["value"]), int(p["timestamp"])) for p in points] if len(points) < POINTS else None

    return ask


def _histories(client: MlflowClient, ask: Ask, runs: list[str], metric: str) -> Iterator[Point]:
    """In bulk where the server can; an answer that may have been cut is asked for run by run."""
    for start in range(0, len(runs), AT_ONCE):
        some = runs[start : start + AT_ONCE]
        found = ask(some, metric)
        if found is None:
            found = [(run, p.step, p.value, p.timestamp) for run in some for p in client.get_metric_history(run, metric)]
        yield from found
