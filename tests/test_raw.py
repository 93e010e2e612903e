"""Reading in bulk gives what MLflow's own client gives, call by call."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from analysis.tracking import Tracker, open_store, raw, read_study
from analysis.tracking.raw import Point, RawRun, read_raw
from benchmarks.outage import Server
from tests.support.made import everything, store

KEYS = ["run_id", "metric", "epoch"]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    return store(tmp_path_factory.mktemp("raw"), everything())


def by_the_client(uri: str) -> tuple[list[RawRun], pd.DataFrame]:
    """One call for the runs, and one for each curve of each of them."""
    client = open_store(uri)
    experiment = client.get_experiment_by_name("made")
    assert experiment
    found = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'", max_results=1000)
    runs = [
        RawRun(
            r.info.run_id,
            r.info.status,
            r.info.start_time,
            r.info.end_time,
            r.info.artifact_uri,
            r.data.tags,
            r.data.params,
            r.data.metrics,
        )
        for r in found
    ]
    points = [
        {"run_id": run.run_id, "metric": name, "epoch": point.step, "value": point.value}
        for run in runs
        for name in run.metrics
        if name.startswith(("select/", "seconds")) or (name == "train/loss" and run.tags["phase"] == "final")
        for point in client.get_metric_history(run.run_id, name)
    ]
    return sorted(runs, key=lambda run: run.run_id), pd.DataFrame(points).sort_values(KEYS, ignore_index=True)


def test_a_database_read_in_bulk_is_what_the_client_reads_one_by_one(uri: str) -> None:
    runs, curves = by_the_client(uri)
    found = read_raw(open_store(uri), uri, "made")
    assert sorted(found.runs, key=lambda run: run.run_id) == runs
    pd.testing.assert_frame_equal(found.curves.sort_values(KEYS, ignore_index=True), curves, check_dtype=False)


def test_the_number_of_queries_does_not_grow_with_the_number_of_trials(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy as sa

    asked = []
    create = sa.create_engine

    def counting(address: str) -> sa.Engine:
        engine = create(address)
        sa.event.listen(engine, "before_cursor_execute", lambda *words: asked.append(words[2]))
        return engine

    client = open_store(uri)
    monkeypatch.setattr(sa, "create_engine", counting)
    read_raw(client, uri, "made")
    assert len(asked) == 4 + 4  # tags, params, last values, runs; and one for each metric


def test_of_an_epoch_that_was_written_twice_the_later_counts(tmp_path: Path) -> None:
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = Tracker(uri, "twice", artifacts=tmp_path)
    about = {"dataset": "d", "backbone": "b", "embedding_size": 1, "loss": "triplet", "protocol": "default", "cell": "c", "peeks": True}
    about |= {"rule": "best-on-test", "trial": "search-0", "phase": "search", "seed": 0}
    tracker.start_cell("c", params={}, tags=about, files={})
    tracker.start_trial("t", cell="c", name="t", params={}, tags=about, files={})
    tracker.log("t", {"select/recall_at_1": 0.3}, step=1, at=1)
    tracker.log("t", {"select/recall_at_1": 0.4}, step=1, at=2)
    tracker.end("t", "FINISHED")
    assert read_study(uri, "twice").curves[["epoch", "value"]].values.tolist() == [[1, 0.4]]


class OneByOne:
    """Stands for an MLflow client: what it is asked for one run at a time."""

    class Value:
        step, value, timestamp = 7, 0.5, 1

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get_metric_history(self, run: str, metric: str) -> list[Value]:
        self.asked.append(run)
        return [self.Value()]


def test_a_server_that_cannot_answer_in_bulk_is_asked_run_by_run() -> None:
    client, runs = OneByOne(), [f"{i}" for i in range(150)]
    calls: list[int] = []

    def ask(some: list[str], metric: str) -> list[Point] | None:
        calls.append(len(some))
        return [(run, 1, 0.25, 0) for run in some] if len(calls) == 1 else None

    found = list(raw._histories(client, ask, runs, "seconds"))  # type: ignore[arg-type]
    assert calls == [100, 50]
    assert client.asked == runs[100:]
    assert [point[0] for point in found] == runs


@pytest.fixture(scope="module")
def server(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real MLflow server over the same store."""
    server = Server(uri, tmp_path_factory.mktemp("artifacts"))
    yield server.uri
    server.kill()


def test_a_server_gives_the_same_rows_in_a_few_calls(uri: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = open_store(server)
    monkeypatch.setattr(client, "get_metric_history", lambda *_: pytest.fail("asked one by one"))
    runs, curves = by_the_client(uri)
    found = read_raw(client, server, "made")
    assert sorted(found.runs, key=lambda run: run.run_id) == runs
    pd.testing.assert_frame_equal(found.curves.sort_values(KEYS, ignore_index=True), curves, check_dtype=False)
