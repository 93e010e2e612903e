"""What the driver notes, with Tune's trials played by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial
from rich.console import Console

from analysis.record import events
from analysis.record.events import AnyEvent, EpochDone, TrialEnded, TrialStarted
from analysis.record.kept_files import KEPT, kept
from analysis.record.ledger import LedgerReader
from analysis.record.record import Record
from analysis.record.state import TRIES
from analysis.record.trial_id import Role, TrialId, folder_of
from study.config.plan import StudyPlan, expand
from study.driver import tune_callback as module
from study.driver.checkpoints import RAY, checkpoints
from study.driver.folder import READINGS, write_readings
from study.driver.tune_callback import TuneCallback
from study.ends.stalls import RETRIES
from study.ends.study_end import StudyEnd
from study.search.cell_search import TrialAssignment
from study.view.live_view import LiveView
from tests.conftest import MakeConfig
from tests.support.events import study_resumed, study_started
from tests.support.record import leave_outputs, write_checkpoint
from trainables.contract import ARTIFACTS, TrialSpec
from trainables.outputs.checkpoints import newest_whole

HONEST, PEEKS = "selected-on-validation", "best-on-test"


def row(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "score": 0.1, "metrics": {"select/best": 0.1}}


@dataclass
class Driver:
    """A driver whose trials are played by hand: Tune's calls, and what the record has of them."""

    plan: StudyPlan
    record: Record
    view: LiveView

    def __post_init__(self) -> None:
        self.folder = self.record.folder
        self.callback = TuneCallback(self.plan, self.record)

    def assign(self, role: Role, number: int, *, cell: int = 1, **changes: Any) -> Any:
        """Hand out a trial. cell: 0 peeks, 1 has validation classes."""
        where = self.plan.cells[cell]
        phase, setting = ("search", "final")[role != "search"], self.plan.published("triplet")
        spec = self.plan.spec(where, phase, number, setting)  # type: ignore[arg-type]
        spec = replace(spec, **changes)
        trial = TrialId(where, role, number)
        self.callback.assigned(TrialAssignment(trial, spec))
        return tune_trial(trial, spec)

    def start(self, role: Role, number: int, *, cell: int = 1, **changes: Any) -> Any:
        trial = self.assign(role, number, cell=cell, **changes)
        self.callback.on_trial_start(0, [], trial)
        return trial

    def result(self, trial: Any, epoch: int, **more: Any) -> None:
        trial.last_result = row(epoch) | more
        self.callback.on_trial_result(0, [], trial, trial.last_result)

    def complete(self, trial: Any) -> None:
        trial.last_result = trial.last_result | {"done": True}
        self.callback.on_trial_complete(0, [], trial)

    def fail(self, trial: Any, error: str) -> None:
        trial.error_file = str(self.folder / "error.txt")
        Path(trial.error_file).write_text(error)
        self.callback.on_trial_error(0, [], trial)

    def events(self) -> list[AnyEvent]:
        """Return what is on the disk after the start of the study."""
        return LedgerReader(self.folder).read()[1:]

    def told(self) -> list[tuple[str, int]]:
        return [brief(event) for event in self.events()]

    def readings(self) -> list[tuple[str, str, str]]:
        write_readings(self.folder, self.record.state)
        if not (self.folder / READINGS).exists():
            return []
        with (self.folder / READINGS).open(newline="") as file:
            return [(line["trial"], line["epoch"], line["rule"]) for line in csv.DictReader(file)]


def brief(event: AnyEvent) -> tuple[str, int]:
    return type(event).__name__, event.epoch if isinstance(event, EpochDone | TrialEnded) else 0


def tune_trial(trial: TrialId, spec: TrialSpec) -> Any:
    config = {"trial": str(trial), "spec": spec}
    about = {"last_result": {}, "error_file": "", "run_metadata": SimpleNamespace()}
    return SimpleNamespace(trial_id=trial.name, config=config, **about)


@pytest.fixture
def driver(config: MakeConfig, tmp_path: Path) -> Driver:
    plan = expand(config(losses=["triplet"]))
    view = LiveView(plan, Console(file=io.StringIO()))
    record = Record(tmp_path, follower=view)
    view.follow(record.state)
    record.note(study_started())
    return Driver(plan, record, view)


def test_a_trial_is_on_record_before_anyone_trains_it(driver: Driver) -> None:
    trial = driver.assign("search", 0)
    (started,) = driver.events()
    assert isinstance(started, TrialStarted)
    assert started.trial == trial.config["trial"]
    assert (started.seed, started.epochs, started.rule) == (0, 2, HONEST)
    assert started.setting == driver.plan.published("triplet")
    assert (driver.folder / "specs" / f"{started.spec}.json").exists()


def test_a_trial_is_written_row_by_row_and_ended_once(driver: Driver) -> None:
    trial = driver.start("search", 0)
    for epoch in (1, 2):
        driver.result(trial, epoch)
    driver.complete(trial)
    names = [("TrialStarted", 0), ("EpochDone", 1), ("EpochDone", 2), ("TrialEnded", 2)]
    assert driver.told() == names
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert ended.metrics == {"select/best": 0.1}
    assert driver.view.state.ended == 1


def test_every_line_is_on_the_disk_before_its_effect(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Effects of a trial's end: its checkpoints go, and the view says so."""
    seen: list[tuple[str, int]] = []

    def effect(*_: Any) -> None:
        seen.append(driver.told()[-1])

    for name in ("trial_started", "epoch_done", "trial_ended"):
        monkeypatch.setattr(driver.view, name, effect)
    monkeypatch.setattr(module, "drop_checkpoints", effect)
    trial = driver.start("search", 0)
    for epoch in (1, 2):
        driver.result(trial, epoch)
    driver.complete(trial)
    ends = [("TrialEnded", 2), ("TrialEnded", 2)]
    assert seen == [("TrialStarted", 0), ("EpochDone", 1), ("EpochDone", 2), *ends]


def test_on_a_disk_that_takes_no_line_nothing_takes_effect(driver: Driver) -> None:
    trial = driver.start("search", 0)
    last = write_checkpoint(home(driver, trial), 1, 2)
    driver.result(trial, 1)
    driver.record.ledger.failure = OSError(28, "No space left on device")
    driver.result(trial, 2)
    driver.complete(trial)
    assert driver.told() == [("TrialStarted", 0), ("EpochDone", 1)]
    assert driver.view.state.ended == 0
    assert driver.record.state.trials[trial.config["trial"]].epoch == 1
    assert checkpoints(driver.folder, TrialId.parse(trial.config["trial"])) == [last]


def test_an_epoch_that_a_retry_runs_again_is_written_once(driver: Driver) -> None:
    trial = driver.start("search", 0)
    driver.result(trial, 1)
    driver.callback.on_trial_start(0, [], trial)
    driver.result(trial, 1)
    driver.result(trial, 2)
    assert driver.told()[1:] == [("EpochDone", 1), ("EpochDone", 2)]
    assert driver.view.state.cells[driver.plan.cells[1]].open == 1


def test_a_score_that_is_not_finite_is_not_written(driver: Driver) -> None:
    """JSON has no NaN: the line could not be read back, and the study could not go on."""
    trial = driver.start("search", 0)
    driver.result(trial, 1, metrics={"select/best": 0.1, "train/loss": float("nan")})
    driver.complete(trial)
    done, ended = driver.events()[-2:]
    assert isinstance(done, EpochDone)
    assert isinstance(ended, TrialEnded)
    assert done.metrics == ended.metrics == {"select/best": 0.1}


def test_a_trial_may_lose_any_number_of_nodes_as_long_as_it_makes_progress(driver: Driver) -> None:
    nowhere: Any = SimpleNamespace(trial_driver_staging_path="")
    config = driver.start("search", 0).config
    trial = Trial("slot", stub=True, config=config, max_failures=RETRIES, storage=nowhere)
    for epoch in range(1, 10):
        trial.handle_error(RayActorError())
        assert trial.should_recover()
        driver.callback.on_trial_result(0, [], trial, row(epoch))
    for again in range(RETRIES + 1):
        assert trial.should_recover()
        trial.handle_error(RayActorError())
        driver.callback.on_trial_result(0, [], trial, row(9 - again))  # the same epochs again
    assert not trial.should_recover()


def test_what_an_earlier_driver_wrote_is_not_written_again(driver: Driver) -> None:
    trial = driver.start("search", 0)
    driver.result(trial, 1)
    driver.record.close()
    later = Driver(driver.plan, Record(driver.folder), driver.view)
    later.record.note(study_resumed())
    later.callback.on_trial_start(0, [], trial)
    later.result(trial, 1)
    later.result(trial, 2)
    assert [each for each in later.told() if each[1]] == [("EpochDone", 1), ("EpochDone", 2)]


def test_a_trial_that_was_cut_off_has_no_end(driver: Driver) -> None:
    trial = driver.start("search", 0)
    driver.result(trial, 1)
    driver.callback.on_trial_complete(0, [], trial)
    assert driver.told()[1:] == [("EpochDone", 1)]


def test_a_trial_that_failed_before_it_started_still_ends(driver: Driver) -> None:
    driver.fail(driver.start("search", 0), "a  bug\nin a loss")
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert (ended.outcome, ended.error, ended.score) == ("failed", "a bug in a loss", None)


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ({"epoch": 2}, "finished"),
        ({"epoch": 1}, "stopped early"),
        ({"epoch": 1, "diverged": True}, "diverged"),
        ({"epoch": 1, "out_of_memory": True}, "out of memory"),
        ({"epoch": 1, "out_of_patience": True}, "out of patience"),
    ],
)
def test_the_outcome_is_on_record(driver: Driver, last: dict[str, Any], outcome: str) -> None:
    trial = driver.start("search", 0)
    driver.result(trial, **last)
    driver.complete(trial)
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert ended.outcome == outcome


def test_all_devices_that_a_trial_ran_on_are_on_record(driver: Driver) -> None:
    """A trial that lacked memory says on which GPU, and one that moved names both."""
    trial = driver.start("search", 0)
    driver.result(trial, 1, devices=["Tesla T4"])
    driver.result(trial, 2, devices=["NVIDIA A100"], out_of_memory=True)
    driver.complete(trial)
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert (ended.outcome, ended.devices) == ("out of memory", ["NVIDIA A100", "Tesla T4"])


def test_every_reading_of_test_classes_is_on_record(driver: Driver) -> None:
    """A final trial reads at its chosen epoch, at its last if asked, the default setup always.

    A search trial never does.
    """
    driver.result(driver.start("search", 0), 1)
    assert driver.readings() == []
    cases: list[tuple[int, Role, int, list[tuple[str, str]]]] = [
        (1, "final", 1, [("1", HONEST), ("2", "last-epoch")]),
        (1, "refit", 1, [("2", "refit")]),
        (1, "final", 2, [("1 2", HONEST)]),
        (0, "final", 3, [("1", PEEKS)]),
    ]
    for cell, role, number, reads in cases:
        trial = driver.start(role, number, cell=cell)
        leave(driver, trial)
        driver.result(trial, 1)
        driver.result(trial, 2, reads=reads)
        driver.result(trial, 2, chosen_epoch=1.5)
        driver.complete(trial)
    assert driver.readings() == [
        ("final-1", "1", HONEST),
        ("final-1", "2", "last-epoch"),
        ("refit-1", "2", "refit"),
        ("final-2", "1 2", HONEST),
        ("final-3", "1", PEEKS),
        ("final-3", "1", PEEKS),
        ("final-3", "2", PEEKS),
    ]


def test_a_reading_is_on_record_before_it_happens_and_whatever_happens_to_it(
    driver: Driver,
) -> None:
    """Its slot dies in it, comes back and reads again, and fails in the end."""
    trial = driver.start("final", 1)
    driver.result(trial, 1)
    driver.result(trial, 2, reads=[("1", HONEST)])
    assert isinstance(driver.events()[-1], events.TestRead)
    assert driver.readings() == [("final-1", "1", HONEST)]
    driver.callback.on_trial_start(0, [], trial)
    driver.result(trial, 2, reads=[("1", HONEST)])
    driver.fail(trial, "lost")
    assert driver.readings() == [("final-1", "1", HONEST)] * 2
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert ended.outcome == "failed"


def test_an_epoch_under_default_that_is_run_again_is_read_again(driver: Driver) -> None:
    training = driver.plan.spec(driver.plan.cells[0], "final", 1, {}).training
    trial = driver.start("final", 1, cell=0, training=replace(training, epochs=3))
    driver.result(trial, 1)
    # The slot died in its second epoch, and its first was not saved.
    driver.callback.on_trial_start(0, [], trial)
    driver.result(trial, 1)
    driver.result(trial, 2, again=[2])  # a group was lost on the way
    # The third epoch has begun.
    assert [epoch for _, epoch, _ in driver.readings()] == ["1", "2", "1", "2", "2", "3"]


def test_a_retry_counts_the_epoch_that_was_cut_off_as_read_and_no_epoch_beyond_the_last(
    driver: Driver,
) -> None:
    trial = driver.start("final", 1, cell=0)
    driver.result(trial, 1)
    driver.callback.on_trial_start(0, [], trial)
    read = driver.events()[-1]
    assert isinstance(read, events.TestRead)
    assert read.reads == [("2", PEEKS)]
    driver.result(trial, 2)
    driver.callback.on_trial_start(0, [], trial)
    assert driver.told()[-1] == ("EpochDone", 2), "it has no third epoch"


def test_a_default_trial_that_a_driver_left_may_have_read_one_epoch_more(driver: Driver) -> None:
    driver.result(driver.start("final", 1, cell=0), 1)
    assert driver.readings() == [("final-1", "1", PEEKS), ("final-1", "2", PEEKS)]
    driver.record.note(study_resumed())
    twice = [("final-1", "2", PEEKS)] * 2
    assert driver.readings() == [("final-1", "1", PEEKS), *twice]


def test_the_readings_are_written_again_whatever_became_of_the_file(driver: Driver) -> None:
    driver.result(driver.start("final", 1), 2, reads=[("1", HONEST)])
    whole = driver.readings()
    for damage in ("", "cell,trial,seed,epoch,rule\nsketches/tiny", whole[0][0] * 99):
        (driver.folder / READINGS).write_text(damage)
        assert driver.readings() == whole
    (driver.folder / READINGS).unlink()
    assert driver.readings() == whole


def home(driver: Driver, trial: Any) -> Path:
    return driver.folder / RAY / "1" / folder_of(trial.config["trial"])


def leave(driver: Driver, trial: Any) -> Path:
    """Write what a final trial leaves."""
    queries = {trial.config["spec"].rule: {"image": [1], "class": [1]}}
    fold = {"weights": {}, "queries": queries, "embeddings": None}
    return leave_outputs(home(driver, trial), 2, {0: fold})


def end_final(driver: Driver) -> Any:
    trial = driver.start("final", 1)
    driver.result(trial, 1)
    driver.result(trial, 2, chosen_epoch=1.0, nodes=["a", "b"])
    return trial


def test_a_final_trial_ends_when_what_it_leaves_is_kept_and_its_checkpoints_go(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial, names = end_final(driver), {"best.pt", "queries.csv"}
    leave(driver, trial)
    write_checkpoint(home(driver, trial), 1, 2)
    at_its_end: list[set[str]] = []

    def ended(state: Any) -> None:
        at_its_end.append({path.name for path in kept(driver.folder, state.id, ARTIFACTS)})

    monkeypatch.setattr(driver.view, "trial_ended", ended)
    driver.complete(trial)
    assert at_its_end == [names], "what it leaves was kept before its end was noted"
    end = driver.events()[-1]
    assert isinstance(end, TrialEnded)
    assert (end.outcome, end.chosen_epoch, end.nodes) == ("finished", 1.0, ["a", "b"])
    assert not checkpoints(driver.folder, TrialId.parse(trial.config["trial"]))


def test_a_final_trial_whose_files_are_not_whole_does_not_end(driver: Driver) -> None:
    trial = end_final(driver)
    last = leave(driver, trial)
    (last / "queries.csv").write_bytes(b"")
    driver.complete(trial)
    assert driver.told()[-1] == ("EpochDone", 2)
    obstacle = driver.callback.end
    assert obstacle is not None
    assert obstacle.kind == "lost_artifact"
    assert "has not left a whole best.pt" in obstacle.about
    assert last.exists()


def test_a_final_trial_whose_files_find_no_place_does_not_end(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = end_final(driver)
    last = leave(driver, trial)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device", "best.pt")

    monkeypatch.setattr(module, "keep_outputs", full)
    driver.complete(trial)
    assert driver.told()[-1] == ("EpochDone", 2)
    said = "[Errno 28] No space left on device: 'best.pt'"
    assert driver.callback.end == StudyEnd("disk_full", said)
    assert last.exists()


def test_a_search_trial_leaves_nothing_on_the_disk(driver: Driver) -> None:
    trial = driver.start("search", 0)
    write_checkpoint(home(driver, trial), 1, 2)
    driver.result(trial, 1)
    driver.result(trial, 2)
    driver.complete(trial)
    assert driver.told()[-1] == ("TrialEnded", 2)
    assert not checkpoints(driver.folder, TrialId.parse(trial.config["trial"]))
    assert not (driver.folder / KEPT).exists()


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (
            "OSError: [Errno 28] No space left on device: '/tmp/tmp1 on node-7'",
            "/tmp/tmp1 on node-7",
        ),
        (
            "OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on "
            "device",
            None,
        ),  # Tune's copy
    ],
)
def test_a_full_disk_is_no_fault_of_the_trial_and_is_named(
    driver: Driver, error: str, place: str | None
) -> None:
    driver.fail(driver.start("search", 0), error)
    said = f"No space left on device: {place or driver.folder}"
    assert driver.callback.end == StudyEnd("disk_full", said)
    assert driver.told() == [("TrialStarted", 0)], "the trial goes on when there is room again"


def test_a_wrong_node_is_no_fault_of_the_trial_and_is_named(driver: Driver) -> None:
    said = "All nodes must, but b has torch 1; install it there"
    error = f"Traceback ...\ntrainables.contract.WrongNode: {said}.\n"
    driver.fail(driver.start("search", 0), error)
    assert driver.callback.end == StudyEnd("wrong_node", said)
    assert driver.told() == [("TrialStarted", 0)]


def test_a_trial_that_stalled_three_times_ends_without_a_score_and_is_counted_as_failed(
    driver: Driver,
) -> None:
    trial = driver.start("search", 0)
    for _ in range(TRIES):
        driver.record.note(events.TrialStalled(trial=trial.config["trial"], seconds=1800.0))
    driver.fail(trial, "The actor is dead because it was killed by `ray.kill`.")
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert (ended.outcome, ended.score) == ("stalled", None)
    assert ended.error == "It made no progress for 1800 s, 3 times in a row."
    state = driver.record.state
    assert (state.failed, state.cells[driver.plan.cells[1]].failed) == (1, 1)
    assert not state.trials[trial.config["trial"]].succeeded


def test_a_stall_is_told_in_one_sentence(driver: Driver) -> None:
    trial = driver.start("search", 0)
    for _ in range(TRIES):
        driver.record.note(events.TrialStalled(trial=trial.config["trial"], seconds=1800.0))
    file: Any = driver.view.console.file
    said = [line for line in file.getvalue().splitlines() if "no progress" in line]
    assert len(said) == TRIES
    assert "search-0 has made no progress since " in said[0]
    assert said[0].endswith("first time: its slot is ended, and another one tries it again.")
    assert "third time: it ends as stalled" in said[-1]
    assert "set stall_minutes" in said[-1]


def test_no_folder_of_an_ended_trial_is_left_where_tune_makes_it_again(driver: Driver) -> None:
    ended, cut_off = driver.start("search", 0), driver.start("search", 1)
    for epoch in (1, 2):
        driver.result(ended, epoch)
    driver.complete(ended)
    homes = [home(driver, trial) for trial in (ended, cut_off)]
    for each in homes:
        each.mkdir(parents=True, exist_ok=True)
    driver.callback.on_experiment_end([ended, cut_off])
    assert [each.exists() for each in homes] == [False, True]


def test_tune_holds_no_spec_of_a_trial_that_has_ended(driver: Driver) -> None:
    """Else the driver grows by 0.1 MB with every trial."""
    trial = driver.start("search", 0)
    for epoch in (1, 2):
        driver.result(trial, epoch, config={"spec": trial.config["spec"]})
    driver.complete(trial)
    assert "config" not in trial.last_result
    assert list(trial.config) == ["trial"]


def test_tune_reads_no_pickle_back(driver: Driver) -> None:
    """A planted one would run code; one that a full disk cut off raises EOFError."""
    trial = driver.start("search", 0)
    trial.run_metadata.pickled_error_filename = "error.pkl"
    driver.fail(trial, "a bug")
    assert trial.run_metadata.pickled_error_filename is None
    trial.run_metadata.pickled_error_filename = "error.pkl"
    driver.callback.on_trial_recover(0, [], trial)
    assert trial.run_metadata.pickled_error_filename is None
    trial.run_metadata.pickled_error_filename = "error.pkl"
    driver.callback.on_experiment_end([trial])
    assert trial.run_metadata.pickled_error_filename is None


def test_what_tune_pickles_of_it_is_nothing(driver: Driver) -> None:
    assert driver.callback.__getstate__() == {}


def saves(trial: Any) -> bool:
    """Whether the driver asked Tune for what the trial leaves after its last result."""
    return bool(trial.last_result["should_checkpoint"])


def test_a_slot_is_asked_for_what_a_trial_leaves_at_its_end_and_for_nothing_else(
    driver: Driver,
) -> None:
    search, last = driver.start("search", 0), driver.start("final", 1)
    driver.result(search, 2, done=True)
    assert not saves(search)
    driver.result(last, 1)
    assert not saves(last)
    driver.result(last, 2, reads=[("1", HONEST)])
    assert not saves(last)
    driver.result(last, 2, chosen_epoch=1.0, done=True)
    assert saves(last)


def test_epochs_that_a_slot_repeats_from_an_old_checkpoint_are_read_again_one_by_one(
    driver: Driver,
) -> None:
    training = driver.plan.spec(driver.plan.cells[0], "final", 1, {}).training
    trial = driver.start("final", 1, cell=0, training=replace(training, epochs=5))
    for epoch in (1, 2, 3):
        driver.result(trial, epoch)
    driver.callback.on_trial_start(0, [], trial)  # it died in its fourth
    driver.result(trial, 1)
    driver.callback.on_trial_start(0, [], trial)  # and again, in its second
    for epoch in (1, 2, 3):
        driver.result(trial, epoch)
    driver.result(trial, 4, again=[2, 3, 4])  # its group came back from the first
    read = [event.reads for event in driver.events() if isinstance(event, events.TestRead)]
    again = [epoch for reads in read for epoch, _ in reads]
    assert again == ["4", "1", "2", "1", "2", "3", "2", "3", "4"]
    assert [each for each in driver.told() if each[0] == "EpochDone"] == [
        ("EpochDone", epoch) for epoch in (1, 2, 3, 4)
    ]


def test_an_epoch_that_comes_out_otherwise_when_it_runs_again_is_noted_and_the_first_counts(
    driver: Driver,
) -> None:
    """As on a GPU, whose sums have no fixed order."""
    trial = driver.start("search", 0)
    driver.result(trial, 1, metrics={"select/best": 0.1, "train/loss": 2.0, "seconds": 1.0})
    driver.callback.on_trial_start(0, [], trial)
    same = {"select/best": 0.1, "train/loss": 2.0, "seconds": 9.0}
    driver.result(trial, 1, metrics=same)
    assert [each for each, _ in driver.told()] == ["TrialStarted", "EpochDone"]
    driver.result(trial, 1, score=0.3, metrics={**same, "select/best": 0.3})
    note = driver.events()[-1]
    assert isinstance(note, events.EpochRepeated)
    assert (note.epoch, note.score, note.metrics) == (1, 0.3, {"select/best": 0.3})
    state = driver.record.state.trials[trial.config["trial"]]
    assert [(row.epoch, row.score) for row in state.rows] == [(1, 0.1)]
    # What searcher and early stopping hear of it at the end of a trial.
    assert trial.last_result["score"] == trial.last_result["metrics"]["select/best"] == 0.1
    driver.complete(trial)
    ended = driver.events()[-1]
    assert isinstance(ended, TrialEnded)
    assert (ended.score, ended.metrics["select/best"]) == (0.1, 0.1)


def test_a_trial_that_is_tried_again_continues_from_a_checkpoint_that_the_record_reaches(
    driver: Driver,
) -> None:
    trial = driver.start("search", 0)
    trial.config["saving"] = driver.callback.saving(TrialId.parse(trial.config["trial"]))
    assert (trial.config["saving"].start, trial.config["saving"].epoch) == ((), 0)
    driver.result(trial, 1)
    first, second = (write_checkpoint(home(driver, trial), epoch, epoch) for epoch in (1, 2))
    driver.callback.on_trial_recover(0, [], trial)
    saving = trial.config["saving"]
    assert (saving.start, saving.epoch) == ((str(first), str(second)), 1)
    assert newest_whole(map(Path, saving.start), epoch=saving.epoch) == first


def test_a_final_trial_continues_before_its_reading_of_test_classes(driver: Driver) -> None:
    trial = driver.start("final", 1)
    driver.result(trial, 1)
    driver.result(trial, 2, reads=[("1", HONEST)])  # its last epoch is on record when it has read
    assert driver.callback.saving(TrialId.parse(trial.config["trial"])).epoch == 2


def test_a_disk_that_is_full_ends_the_study_before_the_trial_is_tried_again(driver: Driver) -> None:
    trial = driver.start("search", 0)
    trial.error_file = str(driver.folder / "error.txt")
    Path(trial.error_file).write_text("[Errno 28] No space left on device: '/s on node-7'")
    driver.callback.on_trial_recover(0, [], trial)
    said = "No space left on device: /s on node-7"
    assert driver.callback.end == StudyEnd("disk_full", said)
