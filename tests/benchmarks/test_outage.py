"""benchmarks/outage.py computes the pace of a study from its ledger."""

from __future__ import annotations

from pathlib import Path

from analysis.record.events import AnyEvent
from analysis.record.ledger import Ledger
from analysis.record.trial_id import TrialId
from benchmarks.outage import Progress, study
from tests.support.events import CELL, epoch_done, study_started, trial_ended, trial_started


def test_the_pace_is_that_after_the_first_trial_and_waiting_is_what_no_epoch_took(
    tmp_path: Path,
) -> None:
    progress = Progress(study(tmp_path, "http://127.0.0.1:1", "healthy", trials=1))
    first, second = (TrialId(CELL, "search", number) for number in (0, 1))
    events: list[AnyEvent] = [study_started(at=0)]
    for trial, began, each in ((first, 0, 2500), (second, 20_000, 500)):
        events.append(trial_started(trial, at=began))
        events += [
            epoch_done(trial, i, at=began + each * i, metrics={"seconds": 0.3}) for i in range(1, 9)
        ]
        events.append(trial_ended(trial, at=began + each * 8))
    progress.folder.mkdir()
    ledger = Ledger(progress.folder)
    for event in events[:14]:
        ledger.append(event)
    assert progress.started()
    assert progress.over(0.5)
    assert not progress.over()
    for event in events[14:]:
        ledger.append(event)
    assert progress.over()
    assert progress.pace() == (2.0, 200.0)
