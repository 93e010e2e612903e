"""What is written in the background is read back whole."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from stores import CLASSES, PER_CLASS, tags, write_study

from analysis.tracking import StudyRows, Tracker, TrackingError, open_store, read_study, redact, studies, write


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_study(tmp_path_factory.mktemp("store"), "written", lambda loss, rule, seed, label, query: (1.0, 0.25))


@pytest.fixture(scope="module")
def rows(store: str) -> StudyRows:
    return read_study(store, "written")


def test_experiment_is_the_study_and_children_hang_under_their_cell(store: str) -> None:
    client = open_store(store)
    assert "written" in studies(store)
    experiment = client.get_experiment_by_name("written")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    cells = {run.info.run_id: run.data.tags["cell"] for run in runs if run.data.tags["kind"] == "cell"}
    trials = [run for run in runs if run.data.tags["kind"] == "trial"]
    assert len(cells) == 7
    assert len(trials) == 4 * 3 + 1 + 3 + 3
    assert all(cells[run.data.tags["mlflow.parentRunId"]] == run.data.tags["cell"] for run in trials)
    assert {run.info.status for run in runs} == {"FINISHED"}


def test_the_trial_frame_has_tags_setting_and_last_metrics(rows: StudyRows) -> None:
    frame = rows.trials
    assert len(frame) == 19
    assert set(frame["setting"].map(str)) == {"{'margin': 0.1}"}
    assert set(frame["select/recall_at_1"]) == {0.6}
    assert frame.loc[frame["rule"] == "best-on-test", "peeks"].all()
    assert not frame.loc[frame["rule"] != "best-on-test", "peeks"].any()


def test_curves_have_every_epoch_once(rows: StudyRows) -> None:
    curves = rows.curves[rows.curves["metric"] == "select/recall_at_1"]
    assert len(curves) == 19 * 2
    assert curves.groupby("run_id")["epoch"].apply(list).map(tuple).unique().tolist() == [(1, 2)]


def test_queries_come_back_with_their_run(rows: StudyRows) -> None:
    assert set(rows.queries["run_id"]) == set(rows.finals["run_id"])
    assert rows.queries.groupby("run_id").size().eq(CLASSES * PER_CLASS).all()
    assert rows.queries["map_at_r"].eq(0.25).all()


def test_an_unknown_study_is_named(store: str) -> None:
    with pytest.raises(TrackingError, match="no study 'nothing'"):
        read_study(store, "nothing")


def test_the_same_study_is_never_written_twice(store: str) -> None:
    tracker = Tracker(store, "written", artifacts=None)
    with pytest.raises(TrackingError, match="already has an experiment 'written'"):
        tracker.wait_until_ready()


def test_a_run_that_nobody_ended_is_killed(store: str, tmp_path: Path) -> None:
    tracker = Tracker(store, "left", artifacts=tmp_path)
    about = tags("triplet", "default", "best-on-test")
    tracker.start_cell("cell", params={}, tags=about, files={})
    more = {"trial": "final-0", "phase": "final", "seed": 0}
    tracker.start_trial("t", cell="cell", name="t", params={}, tags=about | more, files={})
    tracker.close()
    assert read_study(store, "left").trials["status"].tolist() == ["KILLED"]


def assert_opened(gate: threading.Event) -> None:
    assert gate.wait(60)


def test_a_call_never_waits_for_the_store(store: str, tmp_path: Path) -> None:
    tracker = Tracker(store, "slow", artifacts=tmp_path)
    tracker.wait_until_ready()
    gate = threading.Event()
    tracker._jobs.put(lambda: assert_opened(gate))
    tracker.start_cell("cell", params={}, tags=tags("triplet", "default", "best-on-test"), files={})
    for step in range(200):
        tracker.log("cell", {"select/recall_at_1": step / 200}, step=step)
    assert tracker._jobs.qsize() >= 200  # nothing was written yet, and still every call returned
    gate.set()
    tracker.close()
    client = open_store(store)
    experiment = client.get_experiment_by_name("slow")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert len(client.get_metric_history(run.info.run_id, "select/recall_at_1")) == 200


def test_a_write_that_fails_for_good_is_told_at_the_end_and_takes_nothing_with_it(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "RETRY_PAUSES", (0.0,))
    tracker = Tracker(store, "fails", artifacts=tmp_path)
    tracker.log("never started", {"x": 1.0})
    about = tags("triplet", "default", "best-on-test")
    tracker.start_cell("cell", params={}, tags=about, files={})
    more = {"trial": "search-0", "phase": "search", "seed": 0}
    tracker.start_trial("t", cell="cell", name="t", params={}, tags=about | more, files={})
    tracker.end("t", "FINISHED")
    with pytest.raises(TrackingError, match="Not everything reached MLflow"):
        tracker.close()
    assert read_study(store, "fails").trials["status"].tolist() == ["FINISHED"]


def test_a_write_that_fails_once_is_tried_again(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "RETRY_PAUSES", (0.0, 0.0))
    tracker = Tracker(store, "stutters", artifacts=tmp_path)
    tracker.wait_until_ready()
    create, fails = tracker._client.create_run, iter([True, False])

    def stutter(*args: object, **more: object) -> object:
        if next(fails):
            raise OSError("database is locked")
        return create(*args, **more)

    monkeypatch.setattr(tracker._client, "create_run", stutter)
    tracker.start_cell("cell", params={}, tags=tags("triplet", "default", "best-on-test"), files={})
    tracker.close()


def test_an_unusable_store_is_one_sentence_without_its_password() -> None:
    tracker = Tracker("sqlite:////proc/nowhere/mlflow.db", "x", artifacts=None)
    with pytest.raises(TrackingError, match=r"^MLflow at sqlite:////proc/nowhere/mlflow\.db cannot be used: "):
        tracker.wait_until_ready()
    assert redact("http://me:secret@there/x") == "http://…@there/x"


def test_an_experiment_without_a_single_run_is_used(store: str, tmp_path: Path) -> None:
    open_store(store).create_experiment("started once")
    tracker = Tracker(store, "started once", artifacts=tmp_path)
    tracker.wait_until_ready()
    tracker.close()
