"""What is written in the background is read back whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis import read_study
from analysis.record.events import encode
from analysis.record.trial_id import TrialId
from analysis.tracking import (
    Tracker,
    TrackingError,
    delete_study,
    left_running,
    open_store,
    redact,
    studies,
)
from analysis.tracking.write import ENDED, SPEC, STARTED
from tests.support.events import PEEKS as CELL
from tests.support.events import trial_ended, trial_started
from tests.support.specs import SPLIT, final
from tests.support.synthetic_study import everything, write_mlflow, write_study
from trainables.contract import Outputs
from trainables.metrics.retrieval import LOSS_VALUE, METRICS, POOLED_PREFIX
from trainables.workers.worker import Worker

TRIAL = TrialId(CELL, "final", 0)
KEY = str(TRIAL)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("store"), everything(), "written")


@pytest.fixture(scope="module")
def store(home: Path) -> str:
    return write_mlflow(home)


def test_experiment_is_the_study_and_children_hang_under_their_cell(home: Path, store: str) -> None:
    client = open_store(store)
    assert "written" in studies(store)
    experiment = client.get_experiment_by_name("written")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    cells = {
        run.info.run_id: run.data.tags["cell"] for run in runs if run.data.tags["kind"] == "cell"
    }
    trials = [run for run in runs if run.data.tags["kind"] == "trial"]
    assert len(cells) == 2 * 3
    assert len(trials) == len(everything())
    assert all(
        cells[run.data.tags["mlflow.parentRunId"]] == run.data.tags["cell"] for run in trials
    )


def test_an_unknown_study_is_named(store: str) -> None:
    with pytest.raises(TrackingError, match="no study 'nothing'"):
        read_study(store, "nothing")


def test_the_same_study_is_never_begun_twice(store: str) -> None:
    with pytest.raises(TrackingError, match="already has an experiment 'written'"):
        Tracker(store, "written", artifacts=None)


def test_a_deleted_experiment_is_named(store: str) -> None:
    client = open_store(store)
    client.delete_experiment(client.create_experiment("gone"))
    with pytest.raises(TrackingError, match="its experiment 'gone' was deleted there"):
        Tracker(store, "gone", artifacts=None)


def test_a_deleted_study_gives_its_name_free(store: str, tmp_path: Path) -> None:
    write_one(Tracker(store, "to delete", artifacts=tmp_path))
    delete_study(store, "to delete")
    assert "to delete" not in studies(store)
    Tracker(store, "to delete", artifacts=tmp_path)
    delete_study(store, "never there")


def statuses(uri: str, study: str) -> list[str]:
    """The states of a study's trials, as MLflow has them."""
    client = open_store(uri)
    experiment = client.get_experiment_by_name(study)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'")
    return [run.info.status for run in runs]


def write_one(tracker: Tracker) -> None:
    cell = str(CELL)
    tracker.start_cell(
        cell, params={"loss": "triplet"}, tags={"cell": cell}, files={"config.yaml": "x: 1"}, at=1
    )
    about = {"cell": cell, "trial": TRIAL.name, "dataset": CELL.dataset, "data": "f"}
    about |= {STARTED: encode(trial_started(TRIAL, at=2)).decode()}
    spec = json.dumps({"splits": [], "training": {}})
    tracker.start_trial(
        KEY, cell=cell, name="t", params={"loss.margin": 0.1}, tags=about, files={SPEC: spec}, at=2
    )
    tracker.log_points(
        KEY, [("select/recall_at_1", 0.1 * epoch, epoch, 10 + epoch) for epoch in (1, 2, 3)]
    )
    ended = trial_ended(TRIAL, outcome="failed", at=20)
    tracker.end(KEY, "FAILED", tags={ENDED: encode(ended).decode()}, at=20)


def test_everything_may_be_written_again_and_stands_once(store: str, tmp_path: Path) -> None:
    """As after a crash: another driver that begins too early, with a client of its own."""
    for resumed in (False, True):
        write_one(Tracker(store, "again", artifacts=tmp_path, resumed=resumed))
    rows = read_study(store, "again")
    assert rows.trials["status"].tolist() == ["FAILED"]
    assert rows.curves["epoch"].tolist() == [1, 2, 3]
    assert rows.trials[["start", "end"]].to_numpy().tolist() == [[2, 20]]
    client = open_store(store)
    experiment = client.get_experiment_by_name("again")
    assert experiment is not None
    assert len(client.search_runs([experiment.experiment_id])) == 2


def test_runs_are_killed_and_brought_back_and_those_that_never_were_are_passed_over(
    store: str, tmp_path: Path
) -> None:
    tracker = Tracker(store, "marked", artifacts=tmp_path)
    write_one(tracker)
    for status in ("RUNNING", "KILLED", "RUNNING"):
        tracker.mark([KEY, "never/made"], status)  # type: ignore[arg-type]
        assert statuses(store, "marked") == [status]


def test_more_metrics_than_mlflow_takes_at_once_are_all_written(store: str, tmp_path: Path) -> None:
    tracker = Tracker(store, "many", artifacts=tmp_path)
    write_one(tracker)
    tracker.log_points(KEY, [("select/map_at_r", 0.5, epoch, epoch) for epoch in range(1, 2501)])
    curves = read_study(store, "many").curves
    assert (curves["metric"] == "select/map_at_r").sum() == 2500


def test_mlflow_takes_every_metric_that_a_trial_can_have(store: str, tmp_path: Path) -> None:
    names = [name.replace("_at_K", "_at_10") for name in METRICS]
    spec = final(
        "margin",
        epochs=1,
        metrics=(*names, *(f"{POOLED_PREFIX}{name}" for name in names if name != LOSS_VALUE)),
        select_metric="map_at_r",
    )
    halves = (SPLIT, replace(SPLIT, train=SPLIT.train[::2]))
    worker = Worker()
    worker.begin(replace(spec, splits=halves, outputs=Outputs(last=True, embeddings=False)))
    told: dict[str, float] = {}
    while "chosen_epoch" not in told:
        told = worker.step()["metrics"]
    tracker = Tracker(store, "all-metrics", artifacts=tmp_path)
    write_one(tracker)
    tracker.log_points(KEY, [(name, value, 4, 30) for name, value in told.items()])
    (read,) = read_study(store, "all-metrics").trials.to_dict("records")
    assert {
        "test/recall_at_10",
        "last/nmi",
        "concatenated/f1",
        "fold1/select/pooled_map_at_r",
        "train/tuple_share",
    } <= told.keys()
    assert {name: read[name] for name in told} == told


def test_an_unusable_store_is_one_sentence_without_its_password() -> None:
    with pytest.raises(
        TrackingError, match=r"^MLflow at sqlite:////proc/nowhere/mlflow\.db cannot be used: "
    ):
        Tracker("sqlite:////proc/nowhere/mlflow.db", "x", artifacts=None)
    assert redact("http://me:secret@there/x") == "http://…@there/x"
    assert redact("mysql://there/x?passwd=secret") == "mysql://there/x?passwd=…"
    assert redact("postgresql://me:s/ec@ret@there/x and more") == "postgresql://…@there/x and more"
    assert (
        redact("postgresql://there/x?user=me&password=secret&sslmode=require")
        == "postgresql://there/x?user=…&password=…&sslmode=require"
    )


def test_an_experiment_without_a_single_run_is_used(store: str, tmp_path: Path) -> None:
    open_store(store).create_experiment("started once")
    Tracker(store, "started once", artifacts=tmp_path)


def test_a_run_whose_making_was_answered_by_nobody_is_found_again(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = Tracker(store, "lost answer", artifacts=tmp_path)
    create = tracker._client.create_run

    def lost(*args: object, **more: object) -> object:
        create(*args, **more)
        raise TimeoutError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(tracker._client, "create_run", lost)
        with pytest.raises(TimeoutError):
            write_one(tracker)
    write_one(tracker)
    experiment = tracker._client.get_experiment_by_name("lost answer")
    assert experiment is not None
    assert len(tracker._client.search_runs([experiment.experiment_id])) == 2


def test_a_run_that_nobody_ended_is_left_running(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    tracker = Tracker(store, "left", artifacts=tmp_path)
    tracker.start_cell(str(CELL), params={}, tags={"cell": str(CELL)}, files={})
    assert left_running(store, "left")
    tracker.mark([str(CELL)], "KILLED")
    assert not left_running(store, "left")
    assert left_running(store, "a study that the store lacks")
    with pytest.raises(TrackingError, match=r"^MLflow at \S+ cannot be used: "):
        left_running("sqlite:////proc/nowhere/mlflow.db", "left")
