"""What must hold of a study after whatever happened to it: read from its ledger, from MLflow and from its folder."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

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


def check_mlflow(folder: Path, rows: dict[str, list[dict[str, Any]]], *, finished: bool) -> None:
    """One run per trial and cell, each ended, each metric of each row at its step once."""
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


def check(folder: Path, *, finished: bool = True) -> None:
    """All of it; finished: the study has come to its end, else it was interrupted in good order."""
    rows = check_ledger(folder)
    check_mlflow(folder, rows, finished=finished)
    assert not holder(folder)
    assert not [path.name for path in folder.iterdir() if path.name.startswith((LEASE, REQUEST))], "no open lease, no request left"
    assert cursor(folder) == (folder / LEDGER).stat().st_size, "MLflow has all of the ledger"
    told = events(folder)
    for key in (event["key"] for event in told if event["event"] == "end"):
        assert not checkpoints(folder, key), "a trial that has ended leaves no checkpoints"
    searcher = StudySearcher(began_with(told, config_of(folder)))
    nothing: Any = SimpleNamespace(note=lambda event, **values: {"event": event, **values})
    standing = rebuild(told, searcher, StopPerCell(searcher.config), nothing)
    assert searcher.over == finished == standing.finished
    assert len(standing.ended) >= sum(event["event"] == "end" for event in told)


def story(folder: Path) -> list[Any]:
    """What was done, without when: equal for two studies that did the same."""
    kept = ("event", "key", "setting", "epoch", "outcome")
    timeless = [event for event in events(folder) if event["event"] in ("trial", "row", "end")]
    return [
        tuple(str(event.get(name)) for name in kept)
        + (sorted((name, value) for name, value in event.get("metrics", {}).items() if name != "seconds"),)
        for event in timeless
    ]
