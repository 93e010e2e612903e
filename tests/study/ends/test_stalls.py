"""The watchdog on trials, with Tune's trials and its clock played by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.tune.experiment import Trial

from analysis.record.events import EpochDone, TrialStalled
from analysis.record.record import Record
from analysis.record.state import TRIES, StudyState
from analysis.record.trial_id import TrialId
from study.ends.stalls import FIRST, LEAST, LOOK, RETRIES, Stalls
from tests.support.events import CELL, epoch_done, study_resumed, study_started, trial_started
from trainables.outputs.checkpoints import WAITING, Saving

SEARCH = TrialId(CELL, "search", 1)
TRIAL = str(SEARCH)


@dataclass
class Tune:
    """One trial of Tune, a clock, and what was killed."""

    record: Record
    home: Path
    minutes: float | None = None
    clock: float = 1000.0
    killed: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stalls = Stalls(
            self.record, self.minutes, kill=self.killed.append, now=lambda: self.clock
        )
        nowhere: Any = SimpleNamespace(trial_driver_staging_path="")
        config = {"trial": TRIAL, "saving": Saving(str(self.home), 60)}
        self.trial = Trial("slot", stub=True, config=config, max_failures=RETRIES, storage=nowhere)
        self.start("slot 1")

    def start(self, slot: str) -> None:
        self.trial.temporary_state.ray_actor = slot
        self.trial.set_status(Trial.RUNNING)

    def wait(self, seconds: float) -> list[Any]:
        """Let so much time pass; return the slots that were killed in it."""
        before = len(self.killed)
        for _ in range(2):  # the last sign is seen at the first look
            self.clock += LOOK / 2 + 0.6
            self.stalls.look([self.trial])
        self.clock += seconds
        self.stalls.look([self.trial])
        return self.killed[before:]

    def result(self, epoch: int, seconds: float = 1.0) -> None:
        self.trial.run_metadata.last_result = {"training_iteration": epoch}
        self.record.note(epoch_done(SEARCH, epoch, metrics={"seconds": seconds}))

    def stalled(self) -> list[float]:
        return [stall.seconds for stall in self.record.state.trials[TRIAL].stalls]

    def retries(self) -> bool:
        """Return whether Tune tries again after the death of the slot, which it counts now."""
        self.trial.run_metadata.num_failures += 1
        return bool(self.trial.should_recover())


@pytest.fixture
def record(tmp_path: Path) -> Record:
    found = Record(tmp_path)
    found.note(study_started())
    found.note(trial_started(SEARCH, epochs=4))
    return found


@pytest.fixture
def tune(record: Record, tmp_path: Path) -> Tune:
    return Tune(record, tmp_path)


def test_a_trial_may_take_half_an_hour_to_its_first_epoch(tune: Tune) -> None:
    assert not tune.wait(FIRST - 10)
    assert not tune.stalled()
    assert tune.wait(20) == ["slot 1"]
    assert tune.stalled() == [pytest.approx(FIRST + 10, abs=5)]


def test_then_it_may_take_ten_times_its_cells_slowest_epoch_and_five_minutes_at_least(
    tune: Tune,
) -> None:
    tune.wait(0)
    tune.result(1, seconds=1)
    assert not tune.wait(LEAST - 5)
    tune.result(2, seconds=100)
    assert not tune.wait(10 * 100 - 5)
    assert tune.wait(10) == ["slot 1"]


def test_a_trial_that_continues_in_another_slot_may_take_long_again(tune: Tune) -> None:
    tune.wait(0)
    tune.result(1)
    assert tune.wait(LEAST + 5) == ["slot 1"]
    tune.start("slot 2")
    assert not tune.wait(LEAST + 5)
    assert tune.wait(FIRST) == ["slot 2"]


def test_reading_the_test_classes_is_no_epoch_like_those_before(tune: Tune) -> None:
    last = tune.record.state.trials[TRIAL].started.epochs
    tune.wait(0)
    for epoch in range(1, last + 1):
        tune.result(epoch)
    assert not tune.wait(LEAST + 5)
    assert tune.wait(FIRST)


def test_stall_minutes_is_the_users_own_word(record: Record, tmp_path: Path) -> None:
    tune = Tune(record, tmp_path, minutes=0.5)
    assert not tune.wait(25)
    assert tune.wait(10) == ["slot 1"]


def test_a_trial_is_tried_three_times_and_then_ends(tune: Tune) -> None:
    for number in range(1, TRIES + 1):
        tune.start(f"slot {number}")
        assert tune.wait(FIRST + 5) == [f"slot {number}"]
        assert tune.retries() == (number < TRIES)
    assert tune.record.state.trials[TRIAL].has_stalled


def test_deaths_of_slots_and_stalls_are_counted_apart(tune: Tune) -> None:
    assert tune.retries(), "its slot died"
    assert tune.retries(), "and another one"
    tune.start("slot 3")
    tune.wait(FIRST + 5)
    assert tune.retries()


def test_an_epoch_or_a_new_driver_ends_the_count(tune: Tune) -> None:
    tune.wait(FIRST + 5)
    assert len(tune.stalled()) == 1
    tune.result(1)
    assert not tune.stalled()
    tune.wait(FIRST + 5)
    tune.record.note(study_resumed())
    assert not tune.stalled()


def test_the_record_has_every_stall(tune: Tune) -> None:
    tune.wait(FIRST + 5)
    again = StudyState(Record(tune.record.folder).past)
    assert again.trials[TRIAL].stalls == tune.record.state.trials[TRIAL].stalls
    assert isinstance(again.trials[TRIAL].stalls[0], TrialStalled)


def test_a_group_that_waits_for_nodes_does_not_stall(tune: Tune) -> None:
    (tune.home / WAITING).touch()
    assert not tune.wait(10 * FIRST)
    (tune.home / WAITING).unlink()
    assert not tune.wait(FIRST - 10)
    assert tune.wait(20)


@pytest.mark.parametrize("status", [Trial.TERMINATED, Trial.ERROR])
def test_trials_that_have_ended_and_trials_without_a_slot_are_left_alone(
    tune: Tune, status: str
) -> None:
    tune.trial.set_status(status)
    assert not tune.wait(10 * FIRST)
    tune.trial.set_status(Trial.PENDING)
    tune.trial.temporary_state.ray_actor = None
    assert not tune.wait(10 * FIRST)
    tune.trial.temporary_state.ray_actor = "a slot that does not take its next trial"
    assert tune.wait(FIRST + 5)


def test_a_sign_of_life_need_not_be_new(tune: Tune) -> None:
    """A slot that repeats epochs since its last checkpoint moves."""
    tune.wait(0)
    for number in range(5, 9):
        tune.trial.run_metadata.last_result = {"training_iteration": number}
        assert not tune.wait(LEAST - 5)


def test_seconds_are_read_off_epochs_of_the_same_cell(tune: Tune) -> None:
    other = replace(SEARCH, cell=replace(CELL, loss="margin"))
    tune.record.note(trial_started(other))
    tune.record.note(EpochDone(trial=str(other), epoch=1, score=0.1, metrics={"seconds": 1e6}))
    state = tune.record.state
    assert tune.stalls.limit(state.trials[TRIAL], usual=True) == LEAST
    assert tune.stalls.limit(state.trials[str(other)], usual=True) == 1e7
