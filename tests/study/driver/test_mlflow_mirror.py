"""MLflow has what the record says, once, whatever happened on the way: real stores, no Ray."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.record.events import StudyFinished, TrialStarted
from analysis.record.frames import StudyRows, read_record
from analysis.record.kept_files import KEPT
from analysis.record.ledger import LedgerReader
from analysis.tracking import (
    Tracker,
    TrackingError,
    has_moved,
    moved_studies,
    open_store,
)
from analysis.tracking.cursor import CURSOR, read_cursor
from analysis.tracking.read import read_mlflow
from study.config.study_config import make
from study.driver import mlflow_mirror as mirrors
from study.driver.checkpoints import RAY, checkpoints
from study.driver.folder import tracking_uri
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.preflight import prepare
from tests.conftest import MakeConfig
from tests.support.events import study_resumed
from tests.support.record import WrittenStudy
from tests.support.waiting import await_that
from trainables.outputs.artifacts import OUTPUTS


@pytest.fixture
def written(config: MakeConfig) -> WrittenStudy:
    return WrittenStudy(config(losses=["triplet"], name="mirrored", reproductions=2))


def exported(written: WrittenStudy) -> StudyRows:
    return read_mlflow(tracking_uri(written.plan.config), "mirrored")


def test_a_whole_study_is_mirrored_and_its_checkpoints_go(written: WrittenStudy) -> None:
    written.begin()
    mirror = written.mirror()
    written.finish()
    mirror.close()
    written.check(finished=True)
    assert not list((written.folder / RAY).rglob("checkpoint_*"))
    rows = exported(written)
    assert rows.trials["outcome"].tolist() == ["finished"] * 3
    assert len(rows.queries) == 2  # of the final trials
    past = LedgerReader(written.folder).read()
    started = [event.at for event in past if isinstance(event, TrialStarted)]
    assert rows.trials["start"].tolist() == started


def test_the_store_gives_the_frames_of_the_record(written: WrittenStudy) -> None:
    whole_study(written)
    theirs, ours = exported(written), read_record(written.folder)
    for one, other in zip(frames(theirs), frames(ours), strict=True):
        pd.testing.assert_frame_equal(one, other, check_like=True)
    assert theirs.specs == ours.specs


@pytest.mark.parametrize(
    "lost", ["nothing", "the cursor", "the cursor's end", "the cursor's meaning"]
)
def test_a_study_that_was_cut_off_is_killed_and_brought_back_and_has_everything_once(
    written: WrittenStudy, lost: str
) -> None:
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
    written.reopen()
    again = written.mirror()
    written.epoch(1, 3)
    written.end(1, 3)
    written.trial(2)
    written.record.note(StudyFinished())
    again.close()
    written.check(finished=True)


class Killed(BaseException):
    """What no part of the mirror catches: it ends its thread as a kill ends a process."""


ACTIONS = ("describe", "start_cell", "start_trial", "log_points", "end", "mark", "save_cursor")


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, bool], None]]:
    """killed_at(number, after): kill the mirror before or after this call of all that write."""
    monkeypatch.setattr("threading.excepthook", lambda about: None)
    with monkeypatch.context() as patch:

        def plan(number: int, after: bool) -> None:
            patch.undo()
            patch.setattr("threading.excepthook", lambda about: None)
            calls = iter(range(10**6))
            for name in ACTIONS:
                where: Any = mirrors if name == "save_cursor" else Tracker
                real = getattr(where, name)

                def call(*args: Any, real: Any = real, **more: Any) -> None:
                    mine = next(calls) == number
                    if mine and not after:
                        raise Killed
                    real(*args, **more)
                    if mine:
                        raise Killed

                patch.setattr(where, name, call)

        yield plan


@pytest.mark.parametrize("after", [False, True])
def test_mlflow_has_every_point_once_wherever_its_driver_was_killed(
    config: MakeConfig, killed_at: Callable[[int, bool], None], after: bool
) -> None:
    for number in range(0, 40, 3):
        about = config(losses=["triplet"], name=f"killed-{number}", reproductions=2)
        written = WrittenStudy(about)
        written.begin()
        killed_at(number, after)
        mirror = MlflowMirror(written.plan, written.record)
        written.finish()
        try:
            mirror.close()
        except TrackingError:
            assert not mirror.complete
        else:
            break
        killed_at(-1, after)
        written.reopen()
        written.mirror().close()
        written.check(finished=True)
    assert number > 10, "it was killed at many moments, and in the end at none"


def frames(rows: StudyRows) -> Iterator[pd.DataFrame]:
    """Yield all that tables are made of, in one order."""
    yield rows.trials.sort_values("run_id").reset_index(drop=True)
    for frame in (rows.curves, rows.queries):
        yield frame.sort_values([*frame], ignore_index=True)


def table(written: WrittenStudy) -> list[str]:
    return [frame.to_csv(index=False) for frame in frames(exported(written))]


def whole_study(written: WrittenStudy) -> list[str]:
    written.begin()
    mirror = written.mirror()
    written.finish()
    mirror.close()
    return table(written)


def move(written: WrittenStudy) -> Path:
    """Move it to another place, which MLflow's connections of this process do not know.

    Return the old one.
    """
    old = written.folder.parent
    new = old.with_name("elsewhere")
    written.record.close()
    shutil.move(old, new)
    written.reopen(make({**written.plan.config.model_dump(mode="json"), "studies": str(new)}))
    return old


@pytest.mark.parametrize("lost", ["the store", "its last hours", "its address"])
def test_a_store_is_made_again_from_the_study_folder_and_has_the_same_table(
    written: WrittenStudy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    written.trial(1)
    mirror.close()
    shutil.copy(written.folder.parent / "mlflow.db", tmp_path / "older.db")
    written.reopen()
    mirror = written.mirror()
    written.trial(2)
    written.record.note(StudyFinished())
    mirror.close()
    before = table(written)
    move(written)
    if lost == "the store":
        (written.folder.parent / "mlflow.db").unlink()
        shutil.rmtree(written.folder.parent / "mlartifacts")
    if lost == "its last hours":
        shutil.move(tmp_path / "older.db", written.folder.parent / "mlflow.db")
    if lost == "its address":
        other = {"tracking_uri": f"sqlite:///{tmp_path / 'other.db'}"}
        written.reopen(make({**written.plan.config.model_dump(mode="json"), **other}))
        monkeypatch.chdir(tmp_path)  # where such a store puts its files
    assert read_cursor(written.folder).byte, "the cursor speaks of the store that is lost"
    written.mirror().close()
    assert table(written) == before


def test_a_study_that_was_moved_is_written_again_where_it_is(written: WrittenStudy) -> None:
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    written.trial(1)
    mirror.close()
    uri = tracking_uri(written.plan.config)
    assert (moved_studies(uri), has_moved(uri, "mirrored")) == ([], False)
    old = move(written)
    uri = tracking_uri(written.plan.config)
    assert (moved_studies(uri), has_moved(uri, "mirrored")) == (["mirrored"], True)
    with pytest.raises(TrackingError, match="its store is not whole"):
        exported(written)
    prepare(written.plan.config, resume=True)
    mirror = written.mirror()
    mirror.wait_until_ready()
    assert moved_studies(uri) == []
    written.trial(2)
    written.record.note(StudyFinished())
    mirror.close()
    written.check(finished=True)
    rows = exported(written)
    assert len(rows.queries) == 2
    assert not old.exists()
    for run in rows.finals["run_id"]:
        file = rows.fetch(run, "queries.csv")
        assert file is not None
        assert file.read_bytes()


def test_what_a_trial_left_takes_no_room_in_the_embedded_store(written: WrittenStudy) -> None:
    whole_study(written)
    found = list((written.folder / KEPT).rglob("best.pt"))
    assert len(found) == 2
    for path in found:
        assert path.stat().st_nlink == 2
    assert not checkpoints(written.folder, written.trials[1].trial)


HARMS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_final_trial_whose_queries_are_gone_is_not_taken_for_finished(
    written: WrittenStudy, harm: str
) -> None:
    written.begin()
    written.trial(0)
    written.trial(1)
    trial = written.trials[1].trial
    HARMS[harm](written.folder / KEPT / trial.folder / "queries.csv")
    with pytest.raises(
        TrackingError, match=r"final-1/queries.csv is not as it was sealed; put back a copy"
    ):
        written.mirror().close()
    home = written.folder / RAY / "1" / trial.folder
    assert (home / OUTPUTS).is_dir(), "what its slot wrote is still there"
    statuses = {run.data.tags["trial"]: run.info.status for run in trial_runs(written)}
    assert statuses == {"search-0": "FINISHED", "final-1": "RUNNING"}


def trial_runs(written: WrittenStudy, kind: str = "trial") -> list[Any]:
    client = open_store(tracking_uri(written.plan.config))
    experiment = client.get_experiment_by_name("mirrored")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], f"tags.kind = '{kind}'"))


def unreachable(*args: Any, **more: Any) -> None:
    raise ConnectionError("nobody is there")


def test_a_store_that_goes_away_is_waited_for_and_nobody_waits_with_it(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.05)
    written.begin()
    mirror = written.mirror()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "log_points", unreachable)
        away.setattr(Tracker, "start_trial", unreachable)
        written.finish()  # every note returns: they go to the disk
        await_that(lambda: mirror.failure is not None)
        assert len(LedgerReader(written.folder).read()) == 1 + 3 * 5 + 1
    mirror.close()
    written.check(finished=True)


def test_a_store_that_stays_away_loses_nothing(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.05)
    monkeypatch.setattr(mirrors, "LAST_WAIT", 0.2)
    written.begin()
    mirror = written.mirror()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "start_trial", unreachable)
        written.finish()
        with pytest.raises(
            TrackingError,
            match=r"nothing is lost: `fairtrial run mirrored --resume --set studies=\S+`",
        ) as error:
            mirror.close()
    assert "nobody is there" in str(error.value)
    written.reopen()
    written.mirror().close()
    written.check(finished=True)


def test_on_a_full_disk_nobody_waits_for_a_store_that_is_away(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    written.begin()
    mirror = written.mirror()
    monkeypatch.setattr(Tracker, "start_trial", unreachable)
    written.finish()
    monkeypatch.setattr(mirrors, "LAST_WAIT", 3600.0)  # who waits, waits longer than a test may
    with pytest.raises(TrackingError, match="nothing is lost"):
        mirror.close(patient=False)


def test_a_study_that_grew_by_search_trials_alone_has_its_means_once(
    written: WrittenStudy,
) -> None:
    written.begin()
    mirror = written.mirror()
    for number in (1, 2):
        written.trial(number)
    written.record.note(StudyFinished())
    written.record.note(study_resumed(grows={"search_trials": 9}, total=4))
    written.trial(0)
    written.record.note(StudyFinished())
    mirror.close()
    written.check(finished=True)
    client = open_store(tracking_uri(written.plan.config))
    cell = str(written.trials[0].trial.cell)
    (parent,) = [run for run in trial_runs(written, "cell") if run.data.tags["cell"] == cell]
    means = client.get_metric_history(parent.info.run_id, "test/recall_at_1")
    assert [(point.step, point.value) for point in means] == [(2, pytest.approx(0.15))]


def test_a_store_that_stutters_at_every_call_has_everything_once(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each kind of call fails once after it was done and once before.

    So it is when an answer, or a request, is lost on the way.
    """
    monkeypatch.setattr(mirrors, "RETRY", 0.01)
    for name in ("describe", "start_cell", "start_trial", "log_points", "end"):
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
    written.finish()
    mirror.close()
    written.check(finished=True)


def test_a_hiccup_after_the_start_is_no_refusal_and_a_long_one_is_reported_once(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.01)
    monkeypatch.setattr(mirrors, "SILENCE", 0.05)
    said: list[str] = []
    written.begin()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "describe", unreachable)
        mirror = MlflowMirror(written.plan, written.record, say=said.append)
        await_that(lambda: said)
        mirror.wait_until_ready()  # raises nothing: the store was there when it was opened
    written.finish()
    mirror.close()
    written.check(finished=True)
    assert [text.partition(" for ")[0] for text in said] == ["MLflow has taken nothing"]
    assert "nobody is there" in said[0]


def test_a_study_that_is_resumed_does_not_wait_for_a_store_that_does_not_answer(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirrors, "RETRY", 0.01)
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    mirror.close()
    written.reopen()
    with monkeypatch.context() as away:
        away.setattr(Tracker, "_find_experiment", unreachable)
        mirror = written.mirror()
        mirror.wait_until_ready()  # raises nothing
        written.trial(1)
        await_that(lambda: mirror.failure is not None)
    written.trial(2)
    written.record.note(StudyFinished())
    mirror.close()
    written.check(finished=True)


def test_a_store_that_will_never_take_a_resumed_study_says_so_at_once(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deleted(*_: Any, **__: Any) -> Any:
        raise ValueError("its experiment was deleted there")

    whole_study(written)
    written.reopen()
    monkeypatch.setattr(Tracker, "_find_experiment", deleted)
    with pytest.raises(TrackingError, match="was deleted there"):
        written.mirror().wait_until_ready()


def test_no_password_of_the_config_reaches_the_store(
    written: WrittenStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        mirrors, "config_yaml", lambda config: "tracking_uri: https://me:secret@there\n"
    )
    written.begin()
    written.trial(0)
    written.mirror().close()
    files = (written.folder.parent / "mlartifacts").rglob("config.yaml")
    assert {path.read_text() for path in files} == {"tracking_uri: https://…@there\n"}


def test_a_study_that_mlflow_already_knows_is_not_begun(written: WrittenStudy) -> None:
    whole_study(written)
    with pytest.raises(TrackingError, match="already has an experiment 'mirrored'"):
        written.mirror()


def test_two_studies_write_to_one_sqlite_store_at_once(config: MakeConfig) -> None:
    both = [
        WrittenStudy(config(losses=["triplet"], name=name, reproductions=2))
        for name in ("one", "other")
    ]
    for each in both:
        each.begin()
    both[0].mirror().close()  # makes the store
    both[0].reopen()
    mirrors_of_both = [each.mirror() for each in both]
    with ThreadPoolExecutor() as pool:
        list(pool.map(WrittenStudy.finish, both))
    for mirror in mirrors_of_both:
        mirror.close()
    for each in both:
        each.check(finished=True)
