"""What events add up to."""

from __future__ import annotations

import pytest

from analysis.record import events
from analysis.record.events import (
    AnyEvent,
    CheckpointAudited,
    StudyFinished,
    StudyStopping,
)
from analysis.record.state import Follower, StudyState, TrialState
from analysis.record.trial_id import TrialId
from tests.support.events import (
    CELL,
    PEEKS,
    epoch_done,
    study_resumed,
    study_started,
    trial_ended,
    trial_started,
)

SEARCH, FINAL = TrialId(CELL, "search", 0), TrialId(CELL, "final", 1)
PEEKING = TrialId(PEEKS, "final", 1)


def test_a_trial_is_open_until_it_ends() -> None:
    state = StudyState([study_started(), trial_started(SEARCH)])
    assert [trial.id for trial in state.open_trials()] == [SEARCH]
    state.apply(trial_ended(SEARCH))
    assert state.open_trials() == []
    assert (state.ended, state.total, state.cells[CELL].ended) == (1, 3, 1)


def test_finished_is_what_came_last() -> None:
    state = StudyState([study_started(), StudyFinished()])
    assert state.finished
    state.apply(study_resumed(grows={"reproductions": 5}))
    assert not state.finished
    assert state.config == {"name": "made", "reproductions": 5}
    state.apply(StudyFinished())
    assert state.finished
    state.apply(trial_started(SEARCH))
    assert not state.finished


def test_stopping_ends_with_the_driver_that_was_asked_to() -> None:
    state = StudyState([study_started(), StudyStopping()])
    assert state.stopping
    state.apply(study_resumed())
    assert not state.stopping
    assert state.drivers == 2


def test_a_cell_counts_its_trials_and_keeps_its_best_score() -> None:
    state = StudyState([study_started()])
    for number, outcome in enumerate(["diverged", "failed", "diverged", "diverged"]):
        trial = TrialId(CELL, "search", number)
        state.apply(trial_started(trial))
        state.apply(epoch_done(trial, 1, score=0.4 - number / 10))
        state.apply(trial_ended(trial, outcome=outcome))
    cell = state.cells[CELL]
    assert (cell.started, cell.ended, cell.failed, cell.open) == (4, 4, 1, 0)
    assert (cell.best, cell.diverged_in_a_row) == (0.4, 2)
    assert state.outcomes == {"diverged": 3, "failed": 1}


def test_the_pace_is_of_the_last_ten_minutes_of_the_last_driver() -> None:
    state = StudyState([study_started(at=0), trial_started(SEARCH, at=0)])
    assert state.epochs_per_minute() == 0
    for second in range(0, 1200, 10):
        state.apply(epoch_done(SEARCH, 1, at=second * 1000))
    assert state.epochs_per_minute() == pytest.approx(6)
    assert state.epochs == 120
    state.apply(study_resumed())
    assert state.epochs_per_minute() == 0


def test_a_final_trial_reads_when_it_says_so_and_one_that_peeks_with_every_epoch() -> None:
    state = StudyState([study_started(), trial_started(FINAL), trial_started(PEEKING)])
    state.apply(epoch_done(FINAL, 1))
    state.apply(epoch_done(PEEKING, 1))
    # The epoch that it is in now may have been read already.
    assert _lines(state) == [("final-1", "1", "best-on-test"), ("final-1", "2", "best-on-test")]
    state.apply(events.TestRead(trial=str(FINAL), reads=[("2", "selected-on-validation")]))
    state.apply(epoch_done(PEEKING, 2))
    state.apply(trial_ended(PEEKING))
    assert [epoch for _, epoch, _ in _lines(state)] == ["1", "2", "2"]


def test_an_epoch_that_a_crash_cut_off_counts_as_read_once_for_each_driver() -> None:
    state = StudyState([study_started(), trial_started(PEEKING), epoch_done(PEEKING, 1)])
    state.apply(study_resumed())
    state.apply(epoch_done(PEEKING, 2))
    state.apply(trial_ended(PEEKING))
    assert [epoch for _, epoch, _ in _lines(state)] == ["1", "2", "2"]


def test_no_epoch_is_read_after_patience_has_ended_a_trial() -> None:
    state = StudyState([study_started(), trial_started(PEEKING)])
    state.apply(epoch_done(PEEKING, 1, out_of_patience=True))
    assert [epoch for _, epoch, _ in _lines(state)] == ["1"]


def _lines(state: StudyState) -> list[tuple[str, str, str]]:
    return [(line.trial, line.epoch, line.rule) for line in state.test_readings()]


def test_the_last_value_of_every_metric_counts_and_an_audit_adds_its_own() -> None:
    state = StudyState([study_started(), trial_started(SEARCH)])
    state.apply(epoch_done(SEARCH, 1, metrics={"a": 1.0, "b": 1.0}))
    state.apply(epoch_done(SEARCH, 2, metrics={"b": 2.0}))
    state.apply(CheckpointAudited(trial=str(SEARCH), metrics={"audit/a": 3.0}))
    assert state.trials[str(SEARCH)].metrics() == {"a": 1.0, "b": 2.0, "audit/a": 3.0}
    assert state.audited


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"epoch": 2}, "finished"),
        ({"epoch": 1}, "stopped early"),
        ({"epoch": 2, "diverged": True}, "diverged"),
        ({"epoch": 1, "out_of_memory": True}, "out of memory"),
        ({"epoch": 1, "out_of_patience": True}, "out of patience"),
    ],
)
def test_the_last_epoch_says_how_a_trial_ended(changes: dict[str, object], outcome: str) -> None:
    trial = TrialState(trial_started(SEARCH))
    trial.rows.append(epoch_done(SEARCH, **{"epoch": 1} | changes))
    assert trial.outcome() == outcome


def test_a_follower_hears_of_each_event_after_it_has_been_applied() -> None:
    heard: list[tuple[str, int]] = []

    class Listener(Follower):
        def trial_started(self, trial: TrialState) -> None:
            heard.append(("started", state.cells[trial.id.cell].started))

        def epoch_done(self, trial: TrialState) -> None:
            heard.append(("epoch", trial.epoch))

        def trial_ended(self, trial: TrialState) -> None:
            heard.append(("ended", state.ended))

        def study_finished(self, event: StudyFinished) -> None:
            heard.append(("finished", state.finished))

    state, listener = StudyState(), Listener()
    story: list[AnyEvent] = [study_started(), trial_started(SEARCH), epoch_done(SEARCH, 1)]
    for event in [*story, trial_ended(SEARCH), StudyFinished()]:
        state.apply(event, listener)
    assert heard == [("started", 1), ("epoch", 1), ("ended", 1), ("finished", True)]
