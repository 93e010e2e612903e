"""MLflow has what the ledger tells, once, whatever happened on the way: real stores, no Ray."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.tracking import Tracker, TrackingError, open_store, read_study
from analysis.tracking.files import fetch
from study import mirror as mirrors
from study.config import make
from study.cursor import CURSOR
from study.ledger import LEDGER, Ledger, events
from study.mirror import Mirror
from study.preflight import tracking_uri
from study.storage import KEPT, checkpoints, trial_folder
from tests.conftest import MakeConfig
from tests.support.waiting import await_that
from tests.support.written import Written, at_once, everything


@pytest.fixture
def written(config: MakeConfig) -> Written:
    return Written(config(losses=["triplet"], name="mirrored", reproductions=2))


def test_a_whole_study_is_mirrored_and_its_checkpoints_go(written: Written) -> None:
    written.begin()
    mirror = written.mirror()
    everything(written)
    mirror.close()
    written.check(finished=True)
    assert not list((written.folder / "ray").rglob("checkpoint_*"))
    rows = read_study(f"sqlite:///{written.folder.parent / 'mlflow.db'}", "mirrored")
    assert rows.trials["outcome"].tolist() == ["finished"] * 3
    assert len(rows.queries) == 2  # of the final trials
    assert rows.trials["start"].tolist() == [event["at"] for event in events(written.folder) if event["event"] == "trial"]


@pytest.mark.parametrize("lost", ["nothing", "the cursor", "the cursor's end", "the cursor's meaning"])
def test_a_study_that_was_cut_off_is_killed_and_brought_back_and_has_everything_once(written: Written, lost: str) -> None:
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    written.trial(1, epochs=2, ends=False)
    mirror.close()
    written.check(finished=False)
    path = written.folder / CURSOR
    if lost == "the cursor":
        path.unlink()
    if lost == "the cursor's end":
        path.write_text(path.read_text()[:5])
    if lost == "the cursor's meaning":
        path.write_text(json.dumps({"byte": 0}))
    again = written.mirror(resumed=True)
    given = written.trials[1]
    written.ledger.note("row", key=given.key, epoch=3, score=0.3, metrics={"select/recall_at_1": 0.3, "seconds": 1.0})
    written.end(1, 3)
    written.trial(2)
    written.ledger.note("finished")
    again.close()
    written.check(finished=True)


def table(written: Written) -> list[str]:
    """All that tables are made of, without the names that a store gives."""
    rows = read_study(tracking_uri(written.config), "mirrored")
    names = dict(zip(rows.trials["run_id"], rows.trials["cell"] + "/" + rows.trials["trial"], strict=True))
    frames = (rows.trials.drop(columns="parent", errors="ignore"), rows.curves, rows.queries)
    return [frame.assign(run_id=frame["run_id"].map(names)).sort_values(["run_id"], kind="stable").to_csv(index=False) for frame in frames]


def whole_study(written: Written) -> list[str]:
    written.begin()
    mirror = written.mirror()
    everything(written)
    mirror.close()
    return table(written)


def move(written: Written) -> Path:
    """To another place, which MLflow's connections of this process do not know; returns the old one."""
    old = written.folder.parent
    new = old.with_name("elsewhere")
    written.ledger.close()
    shutil.move(old, new)
    written.config = make({**written.config.model_dump(mode="json"), "studies": str(new)})
    written.folder = new / written.config.name
    written.ledger = Ledger(written.folder / LEDGER)
    return old


@pytest.mark.parametrize("lost", ["the store", "its last hours", "its address"])
def test_a_store_is_made_again_from_the_study_folder_and_has_the_same_table(
    written: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    written.trial(1)
    mirror.close()
    shutil.copy(written.folder.parent / "mlflow.db", tmp_path / "older.db")
    mirror = written.mirror(resumed=True)
    written.trial(2)
    written.ledger.note("finished")
    mirror.close()
    before = table(written)
    move(written)
    if lost == "the store":
        (written.folder.parent / "mlflow.db").unlink()
        shutil.rmtree(written.folder.parent / "mlartifacts")
    if lost == "its last hours":
        shutil.move(tmp_path / "older.db", written.folder.parent / "mlflow.db")
    if lost == "its address":
        written.config = make({**written.config.model_dump(mode="json"), "tracking_uri": f"sqlite:///{tmp_path / 'other.db'}"})
        monkeypatch.chdir(tmp_path)  # where such a store puts its files
    written.mirror(resumed=True).close()
    assert table(written) == before


def test_a_study_that_was_moved_reads_and_writes_where_it_is(written: Written) -> None:
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    written.trial(1)
    mirror.close()
    old = move(written)
    assert len(read_study(tracking_uri(written.config), "mirrored").queries) == 1
    mirror = written.mirror(resumed=True)
    written.trial(2)
    written.ledger.note("finished")
    mirror.close()
    written.check(finished=True)
    rows = read_study(tracking_uri(written.config), "mirrored")
    assert len(rows.queries) == 2
    assert not old.exists()
    for run in rows.finals["run_id"]:
        (there,) = fetch(tracking_uri(written.config), run, ["queries.csv"], old.with_name("fetched") / run).values()
        assert there.read_bytes()


def test_what_a_trial_left_takes_no_room_in_the_embedded_store(written: Written) -> None:
    whole_study(written)
    for path in (written.folder / KEPT).rglob("best.pt"):
        assert path.stat().st_nlink == 2
    assert not checkpoints(written.folder, written.trials[1].key)


HARMS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_final_trial_whose_queries_are_gone_is_not_taken_for_finished(written: Written, harm: str) -> None:
    written.begin()
    written.trial(0)
    written.trial(1)
    HARMS[harm](written.folder / KEPT / trial_folder(written.trials[1].key) / "queries.csv")
    with pytest.raises(TrackingError, match=r"final-1/queries.csv is not as it was sealed; put back a copy"):
        written.mirror().close()
    assert checkpoints(written.folder, written.trials[1].key), "nothing is deleted"
    runs = read_study(tracking_uri(written.config), "mirrored").trials
    assert runs.set_index("trial")["status"].to_dict() == {"search-0": "FINISHED", "final-1": "RUNNING"}


def unreachable(*args: Any, **more: Any) -> None:
    raise ConnectionError("nobody is there")


def test_a_store_that_goes_away_is_waited_for_and_nobody_waits_with_it(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.05)
    written.begin()
    mirror = written.mirror()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "log_points", unreachable)
        away.setattr(Tracker, "start_trial", unreachable)
        everything(written)  # every note returns: they go to the disk
        await_that(lambda: mirror.failure is not None)
        assert len(events(written.folder)) == 1 + 3 * 5 + 1
    mirror.close()
    written.check(finished=True)


def test_a_store_that_stays_away_loses_nothing(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.05)
    monkeypatch.setattr(mirrors, "PATIENCE", 0.2)
    written.begin()
    mirror = written.mirror()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "start_trial", unreachable)
        everything(written)
        with pytest.raises(TrackingError, match=r"nothing is lost: `fairtrial run mirrored --resume`") as error:
            mirror.close()
    assert "nobody is there" in str(error.value)
    written.mirror(resumed=True).close()
    written.check(finished=True)


def test_on_a_full_disk_nobody_waits_for_a_store_that_is_away(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    written.begin()
    mirror = written.mirror()
    monkeypatch.setattr(Tracker, "start_trial", unreachable)
    everything(written)
    monkeypatch.setattr(mirrors, "PATIENCE", 3600.0)  # who waits, waits longer than a test may
    with pytest.raises(TrackingError, match="nothing is lost"):
        mirror.close(waits=False)


def test_a_study_that_grew_by_search_trials_alone_has_its_means_once(written: Written) -> None:
    written.begin()
    mirror = written.mirror()
    for number in (1, 2):
        written.trial(number)
    written.ledger.note("finished")
    written.ledger.note("resumed", grows={"search_trials": 9}, total=4)
    written.trial(0)
    written.ledger.note("finished")
    mirror.close()
    written.check(finished=True)
    client = open_store(tracking_uri(written.config))
    cell = str(written.trials[0].spec.cell)
    (experiment,) = client.search_experiments(filter_string="name = 'mirrored'")
    (parent,) = client.search_runs([experiment.experiment_id], f"tags.kind = 'cell' AND tags.cell = '{cell}'")
    means = client.get_metric_history(parent.info.run_id, "test/recall_at_1")
    assert [(point.step, point.value) for point in means] == [(2, pytest.approx(0.15))]


def test_a_store_that_stutters_at_every_call_has_everything_once(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of call fails once after it was done and once before: as when an answer, or a request, is lost on the way."""
    monkeypatch.setattr(mirrors, "RETRY", 0.01)
    for name in ("start_cell", "start_trial", "log_points", "end"):
        real, calls = getattr(Tracker, name), iter(range(10**6))

        def stutter(*args: Any, real: Any = real, calls: Any = calls, **more: Any) -> Any:
            number = next(calls)
            if number % 3 == 0:
                raise ConnectionError("before")
            found = real(*args, **more)
            if number % 3 == 1:
                raise ConnectionError("after")
            return found

        monkeypatch.setattr(Tracker, name, stutter)
    written.begin()
    mirror = written.mirror()
    everything(written)
    mirror.close()
    written.check(finished=True)


def test_a_hiccup_after_the_start_is_no_refusal_and_a_long_one_is_told_once(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.01)
    monkeypatch.setattr(mirrors, "SILENCE", 0.05)
    said: list[str] = []
    written.begin()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "start_cell", unreachable)
        mirror = Mirror(written.config, written.folder, written.ledger, resumed=False, say=said.append)
        await_that(lambda: said)
        mirror.wait_until_ready()  # raises nothing: the store was there when it was opened
    everything(written)
    mirror.close()
    written.check(finished=True)
    assert [text.partition(" for ")[0] for text in said] == ["MLflow has taken nothing"]
    assert "nobody is there" in said[0]


def test_no_password_of_the_config_reaches_the_store(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirrors, "config_yaml", lambda config: "tracking_uri: https://me:secret@there\n")
    written.begin()
    written.mirror().close()
    texts = {path.read_text() for path in (written.folder.parent / "mlartifacts").rglob("config.yaml")}
    assert texts == {"tracking_uri: https://…@there\n"}


def test_a_study_that_mlflow_already_knows_is_not_begun(written: Written, config: MakeConfig) -> None:
    written.begin()
    mirror = written.mirror()
    everything(written)
    mirror.close()
    with pytest.raises(TrackingError, match="already has an experiment 'mirrored'"):
        written.mirror()


def test_two_studies_write_to_one_sqlite_store_at_once(config: MakeConfig) -> None:
    both = [Written(config(losses=["triplet"], name=name, reproductions=2)) for name in ("one", "other")]
    for each in both:
        each.begin()
    both[0].mirror().close()  # makes the store
    at_once(both, [both[0].mirror(resumed=True), both[1].mirror()])
