"""benchmarks/quickstart.py breaks down a run by its ledger and by the times of its output."""

from __future__ import annotations

import pytest

from analysis.record.trial_id import TrialId
from benchmarks.quickstart import break_down
from tests.support.events import CELL, epoch_done, study_started, trial_ended, trial_started


def test_a_run_is_broken_down_into_what_a_user_waits_for() -> None:
    first, second = (TrialId(CELL, "search", number) for number in (0, 1))
    events = [
        study_started(at=108_000),
        trial_started(first, at=108_500),
        epoch_done(first, 1, at=112_000),
        trial_ended(first, at=113_000),
        trial_started(second, at=113_050),
        trial_ended(second, at=114_050),
    ]
    found = break_down(100.0, [101.0, 103.0, 110.5, 112.0, 118.0], events, 120.0)
    assert (found.first_line, found.study_starts, found.first_epoch) == (1.0, 8.5, 12.0)
    assert (found.trials, found.trial_seconds) == (2, pytest.approx(2.75))
    assert found.gap == pytest.approx(0.05)
    assert found.prompt - found.last_trial == pytest.approx(5.95)
    assert (found.silence_from, found.silence) == (3.0, 7.5)
