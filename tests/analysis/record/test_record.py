"""An event is on the disk before it takes effect, and a replay says everything again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analysis.record.events import AnyEvent, StudyFinished
from analysis.record.ledger import LedgerReader
from analysis.record.record import Record, replay
from analysis.record.state import Follower, StudyState, TrialState
from analysis.record.trial_id import TrialId
from tests.support.events import (
    CELL,
    epoch_done,
    study_resumed,
    study_started,
    trial_ended,
    trial_started,
)

SEARCH = TrialId(CELL, "search", 0)
STORY: list[AnyEvent] = [
    study_started(),
    trial_started(SEARCH),
    epoch_done(SEARCH, 1),
    study_resumed(),
    epoch_done(SEARCH, 2),
    trial_ended(SEARCH),
    StudyFinished(),
]
HEARD = ["started", "trial 0", "epoch 1", "resumed", "epoch 2", "ended finished", "finished"]


class Listener(Follower):
    """Write down what it hears, and how many lines were on the disk by then."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.heard, self.lines = folder, list[str](), list[int]()

    def hear(self, what: str) -> None:
        self.heard.append(what)
        self.lines.append(len(LedgerReader(self.folder).read()))

    def study_started(self, event: object) -> None:
        self.hear("started")

    def study_resumed(self, event: object) -> None:
        self.hear("resumed")

    def trial_started(self, trial: TrialState) -> None:
        self.hear(f"trial {trial.epoch}")

    def epoch_done(self, trial: TrialState) -> None:
        self.hear(f"epoch {trial.epoch}")

    def trial_ended(self, trial: TrialState) -> None:
        assert trial.ended is not None
        self.hear(f"ended {trial.ended.outcome}")

    def study_finished(self, event: object) -> None:
        self.hear("finished")


def test_an_event_is_on_the_disk_before_state_and_follower_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, on_disk = Listener(tmp_path), list[int]()
    record, apply = Record(tmp_path, listener), StudyState.apply

    def seen(state: StudyState, event: AnyEvent, follower: Follower | None = None) -> None:
        on_disk.append(len(LedgerReader(tmp_path).read()))
        apply(state, event, follower)

    monkeypatch.setattr(StudyState, "apply", seen)
    for event in STORY:
        assert record.note(event) is event
    assert listener.heard == HEARD
    assert on_disk == listener.lines == list(range(1, len(STORY) + 1))


def test_after_a_failed_write_nothing_takes_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener = Listener(tmp_path)
    record = Record(tmp_path, listener)
    for event in STORY[:3]:
        record.note(event)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        record.note(STORY[4])
    record.note(STORY[5])  # there is room again
    assert "No space left" in str(record.failure)
    assert listener.heard == HEARD[:3]
    assert (record.state.epochs, record.state.ended) == (1, 0)
    assert LedgerReader(tmp_path).read() == STORY[:3]


def test_the_next_driver_has_the_past_and_its_state_and_tells_nobody(tmp_path: Path) -> None:
    first = Record(tmp_path)
    assert (first.past, first.failure) == ([], None)
    for event in STORY[:3]:
        first.note(event)
    first.close()
    listener = Listener(tmp_path)
    record = Record(tmp_path, listener)
    assert record.past == STORY[:3]
    assert [trial.id for trial in record.state.open_trials()] == [SEARCH]
    assert listener.heard == []
    record.note(STORY[3])
    assert listener.heard == ["resumed"]
    assert LedgerReader(tmp_path).read() == STORY[:4]


@pytest.mark.parametrize("count", range(len(STORY) + 1))
def test_a_replay_says_what_was_said_the_first_time(tmp_path: Path, count: int) -> None:
    record, listener = Record(tmp_path), Listener(tmp_path)
    for event in STORY[:count]:
        record.note(event)
    record.close()
    again = Record(tmp_path)
    replay(again.past, listener)
    assert listener.heard == HEARD[:count]
    for name in ("outcomes", "epochs", "drivers", "finished", "total", "trials", "cells"):
        assert getattr(again.state, name) == getattr(record.state, name)
