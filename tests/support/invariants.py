"""What must hold of a study after whatever happened to it: read from its ledger, from MLflow, from its folder and from Ray."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pandas as pd
import ray
from filelock import FileLock

from analysis.tracking import open_store
from study.config import StudyConfig, make
from study.cursor import cursor
from study.lease import LEASE, REQUEST, holder
from study.ledger import LEDGER, events
from study.preflight import tracking_uri
from study.resume import began_with, rebuild
from study.search import StudySearcher
from study.sources import read_yaml
from study.stopping import StopPerCell
from study.storage import checkpoints
from tests.support.actors import our_actors
from tests.support.waiting import await_that
from trainables.contract import Cell


def config_of(folder: Path) -> StudyConfig:
    return make({**read_yaml(folder / "config.yaml"), "studies": str(folder.parent)})


def check_ledger(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Every trial once, its rows 1..N once and in order, its score the best so far, at most one end. Returns the rows by trial."""
    told = events(folder)
    given = [event["key"] for event in told if event["event"] == "trial"]
    ends = [event["key"] for event in told if event["event"] == "end"]
    assert max(Counter(given).values()) == 1
    assert max(Counter(ends).values(), default=1) == 1
    assert set(ends) <= set(given)
    rows: dict[str, list[dict[str, Any]]] = {key: [] for key in given}
    for event in told:
        if event["event"] == "row":
            rows[event["key"]].append(event)
    for key, mine in rows.items():
        epochs = [row["epoch"] for row in mine]
        assert epochs in ([0], list(range(1, len(epochs) + 1))), (key, epochs)
        scores = [row["metrics"].get("select/recall_at_1") for row in mine]
        if None not in scores:
            assert [row["score"] for row in mine] == [max(scores[: i + 1]) for i in range(len(scores))], key
    return rows


def check_mlflow(folder: Path, rows: dict[str, list[dict[str, Any]]], *, finished: bool) -> dict[str, Any]:
    """One run per trial and cell, each ended, each metric of each row at its step once. Returns the runs by trial."""
    config = config_of(folder)
    client = open_store(tracking_uri(config))
    experiment = client.get_experiment_by_name(config.name)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=5000)
    trials = {f"{run.data.tags['cell']}/{run.data.tags['trial']}": run for run in runs if run.data.tags["kind"] == "trial"}
    assert len(trials) == sum(run.data.tags["kind"] == "trial" for run in runs), "one run per trial"
    assert set(trials) == set(rows)
    cells = Counter(run.data.tags["cell"] for run in runs if run.data.tags["kind"] == "cell")
    assert set(cells.values()) == {1}
    outcomes = {event["key"]: event["outcome"] for event in events(folder) if event["event"] == "end"}
    for key, run in trials.items():
        wanted = "KILLED" if key not in outcomes else "FAILED" if outcomes[key] == "failed" else "FINISHED"
        assert run.info.status == wanted, (key, run.info.status, wanted)
        for name in {name for row in rows[key] for name in row["metrics"]}:
            stored = [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]
            assert sorted(stored) == [(row["epoch"], row["metrics"][name]) for row in rows[key] if name in row["metrics"]], (key, name)
    assert {run.info.status for run in runs if run.data.tags["kind"] == "cell"} == {"FINISHED" if finished else "KILLED"}
    return trials


def check_artifacts(client: Any, run: Any, outcome: str) -> None:
    """A final trial that has finished left a row per test query, which give the mean that was reported."""
    if run.data.tags["phase"] == "final" and outcome == "finished":
        with TemporaryDirectory() as place:
            queries = pd.read_csv(client.download_artifacts(run.info.run_id, "queries.csv", place))
            assert (Path(client.download_artifacts(run.info.run_id, "best.pt", place))).stat().st_size
        told = queries[(queries["rule"] == run.data.tags["rule"]) & (queries["fold"].astype(str) == "0")]["recall_at_1"].mean()
        if run.data.tags["folds"] == "1":
            assert abs(told - run.data.metrics["test/recall_at_1"]) < 1e-6, run.data.tags["trial"]


def check_readings(folder: Path, told: list[dict[str, Any]]) -> None:
    """Whoever read test classes stands there: every final trial that has finished, and no search trial unless its cell peeks."""
    finals = {(str(Cell(**event["cell"])), event["name"]) for event in told if event["event"] == "trial" and "search-" not in event["name"]}
    ended = {tuple(event["key"].rsplit("/", 1)) for event in told if event["event"] == "end" and event["outcome"] == "finished"}
    with (folder / "readings.csv").open() as file:
        read = {(row["cell"], row["trial"]) for row in csv.DictReader(file)}
    assert finals & ended <= read
    assert {pair for pair in read if not pair[0].endswith("/default")} <= finals


def check_nothing_lives(folder: Path) -> None:
    """No slot, no worker, no lock; Ray takes a moment to bury them."""
    await_that(lambda: not ray.is_initialized() or not our_actors(), about=our_actors)
    for path in folder.parent.glob("*.lock"):
        with FileLock(path, timeout=0):
            pass


def check(folder: Path, *, finished: bool = True) -> None:
    """All of it; finished: the study has come to its end, else it was interrupted in good order."""
    rows = check_ledger(folder)
    runs = check_mlflow(folder, rows, finished=finished)
    assert not holder(folder)
    assert not [path.name for path in folder.iterdir() if path.name.startswith((LEASE, REQUEST))], "no open lease, no request left"
    assert cursor(folder) == (folder / LEDGER).stat().st_size, "MLflow has all of the ledger"
    told = events(folder)
    client = open_store(tracking_uri(config_of(folder)))
    for event in (event for event in told if event["event"] == "end"):
        assert not checkpoints(folder, event["key"]), "a trial that has ended leaves no checkpoints"
        check_artifacts(client, runs[event["key"]], event["outcome"])
    searcher = StudySearcher(began_with(told, config_of(folder)))
    nothing: Any = SimpleNamespace(note=lambda event, **values: {"event": event, **values})
    standing = rebuild(told, searcher, StopPerCell(searcher.config), nothing)
    assert searcher.over == finished == standing.finished
    if finished:  # an interrupted one may have a trial that was decided and not ended: the next driver ends it
        assert len(standing.ended) == sum(event["event"] == "end" for event in told)
        check_readings(folder, told)
    check_nothing_lives(folder)


def story(folder: Path) -> list[Any]:
    """What was done, without when: equal for two studies that did the same."""
    kept = ("event", "key", "setting", "epoch", "outcome")
    timeless = [event for event in events(folder) if event["event"] in ("trial", "row", "end")]
    return [
        tuple(str(event.get(name)) for name in kept)
        + (sorted((name, value) for name, value in event.get("metrics", {}).items() if name != "seconds"),)
        for event in timeless
    ]
