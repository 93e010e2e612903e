"""Events survive the disk; what another version wrote is refused in one sentence."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest

from analysis.record import events
from analysis.record.trial_id import TrialId
from tests.support.events import CELL, epoch_done, study_started, trial_ended, trial_started

FINAL = TrialId(CELL, "final", 1)
EXAMPLES = [
    study_started(),
    events.StudyResumed(grows={"reproductions": 5}, code={"torch": "2"}, total=9),
    trial_started(
        FINAL, setting={"loss.margin": 0.1 + 0.2, "loss.squared": True, "loss.kind": "x"}
    ),
    epoch_done(FINAL, 1, score=1 / 3, metrics={"seconds": 1e-17}, diverged=True),
    events.EpochRepeated(trial=str(FINAL), epoch=2, score=0.5, metrics={"select/best": 0.5}),
    events.TestRead(trial=str(FINAL), reads=[("2", "selected-on-validation")]),
    trial_ended(FINAL, nodes=["a"], error="no"),
    events.CheckpointAudited(trial=str(FINAL), metrics={"audit/recall_at_1": 0.1}),
    events.TrialStalled(trial=str(FINAL), seconds=300.5),
    events.StudyStopping(),
    events.StudyFinished(),
    events.LedgerRepaired(lines=3, reads=[("a/b-1/c/d", "final-1", 1, "8", "best-on-test")]),
]


def test_there_is_an_example_of_every_event() -> None:
    assert {type(example) for example in EXAMPLES} == set(get_args(events.AnyEvent))


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_is_read_back_as_it_was_to_the_last_digit(event: events.AnyEvent) -> None:
    again = events.decode(events.encode(event))
    assert again == event
    assert events.encode(again) == events.encode(event)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_an_event_cannot_be_changed(event: events.AnyEvent) -> None:
    with pytest.raises(AttributeError, match="immutable"):
        event.at = 0  # type: ignore[misc]


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            b'{"event":"study","at":1,"config":{}}',
            "Fair Trial 0.5 or earlier; install fairtrial==0.5",
        ),
        (b'{"event":"epoch_done","at":1}', "missing required field `trial`"),
        (b'{"event":"surprise","at":1}', "Invalid value 'surprise'"),
        (b"not json", "JSON"),
    ],
)
def test_a_line_that_cannot_be_read_says_why(line: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        events.decode(line)


def test_a_later_version_is_refused_with_the_version_that_reads_it() -> None:
    later = msgspec.structs.replace(study_started(), version=3, code={"fairtrial": "0.9.0"})
    with pytest.raises(ValueError, match=r"its version is 3, .* install fairtrial==0\.9\.0"):
        events.decode(events.encode(later))
