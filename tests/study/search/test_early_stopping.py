"""One ASHA per cell; the published setting and final trials are never stopped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from analysis.record.trial_id import Role, TrialId
from study.config.plan import expand
from study.search.early_stopping import EarlyStopping
from tests.conftest import MakeConfig
from trainables.contract import Cell, LawError


class Played:
    """Play trials against the scheduler without Tune."""

    def __init__(self, scheduler: EarlyStopping) -> None:
        self.scheduler = scheduler
        self.count = 0

    def trial(
        self,
        cell: Cell,
        scores: list[float],
        *,
        number: int | None = None,
        role: Role = "search",
    ) -> int:
        """Return the epoch at which it was stopped, or its last."""
        self.count += 1
        played = tune_trial(TrialId(cell, role, self.count if number is None else number))
        for epoch, score in enumerate(scores, start=1):
            row = {"epoch": epoch, "score": score, "training_iteration": 100 + epoch}
            if self.scheduler.on_trial_result(None, played, row) == "STOP":
                return epoch
        return len(scores)


def tune_trial(trial: TrialId) -> Any:
    """Return what the scheduler sees of a trial of Tune's."""
    return SimpleNamespace(config={"trial": str(trial)})


@pytest.fixture
def played(config: MakeConfig) -> Played:
    return Played(EarlyStopping(expand(config(epochs=8, grace=2, reduction=2))))


CELL = Cell("sketches", "tiny", 16, "triplet", "fixed_validation")
OTHER = Cell("sketches", "tiny", 16, "contrastive", "fixed_validation")
FINALS: list[Role] = ["final", "published", "refit", "published_refit"]
GOOD, BAD, MIDDLING = [0.5] * 7, [0.1] * 7, [0.5, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2]


def test_a_hopeless_trial_ends_at_the_first_rung_and_a_middling_one_at_the_second(
    played: Played,
) -> None:
    assert played.trial(CELL, GOOD) == 7
    assert played.trial(CELL, BAD) == 2
    assert played.trial(CELL, MIDDLING) == 4


def test_cells_do_not_compete(played: Played) -> None:
    assert played.trial(CELL, GOOD) == 7
    assert played.trial(OTHER, BAD) == 7


def test_the_published_setting_sets_the_bar_but_is_never_stopped(played: Played) -> None:
    assert played.trial(CELL, GOOD) == 7
    assert played.trial(CELL, BAD, number=0) == 7
    assert played.trial(CELL, [0.05] * 7) == 2


def test_final_trials_are_neither_stopped_nor_counted(played: Played) -> None:
    assert played.trial(CELL, [0.9] * 7, role="final") == 7
    assert played.trial(CELL, BAD) == 7
    for role in FINALS:
        assert played.trial(CELL, [0.01] * 7, role=role) == 7


def test_cells_that_are_not_searched_have_no_asha(config: MakeConfig) -> None:
    assert EarlyStopping(expand(config(epochs=8))).ashas.keys() == {
        (Cell("sketches", "tiny", 16, loss, "fixed_validation"), 1) for loss in config().losses
    }


def test_a_warm_slot_takes_the_newest_trial_and_leaves_the_older_to_the_slot_that_starts_for_it(
    played: Played,
) -> None:
    trials = [
        SimpleNamespace(status=status) for status in ("TERMINATED", "PENDING", "RUNNING", "PENDING")
    ]
    tune: Any = SimpleNamespace(get_trials=lambda: trials)
    assert played.scheduler.choose_trial_to_run(tune) is trials[-1]
    trials[1].status = trials[-1].status = "RUNNING"
    assert played.scheduler.choose_trial_to_run(tune) is None


@pytest.mark.parametrize("missing", ["epoch", "score"])
@pytest.mark.parametrize("role", ["search", "final"])
def test_a_row_without_what_early_stopping_counts_by_is_an_error(
    played: Played, role: Role, missing: str
) -> None:
    """Tune's own ASHA lets such a trial go on without a word."""
    row = {"epoch": 1, "score": 0.5, "training_iteration": 1}
    del row[missing]
    with pytest.raises(LawError, match="a row has epoch and score"):
        played.scheduler.on_trial_result(None, tune_trial(TrialId(CELL, role, 1)), row)


def test_a_trial_that_diverges_at_a_rung_counts_there(played: Played) -> None:
    """Tune does not ask about a row that says done, it only tells that the trial is complete."""
    lost = TrialId(CELL, "search", 7)
    played.scheduler.on_trial_complete(None, tune_trial(lost), {"epoch": 2, "score": 0.0})
    recorded = [scores for _, scores in played.scheduler.ashas[CELL, 1]._brackets[0]._rungs]
    assert recorded[-1] == {str(lost): 0.0}


def test_a_trial_whose_slot_died_before_it_was_stopped_stops_at_its_next_epoch(
    played: Played,
) -> None:
    assert played.trial(CELL, GOOD) == 7
    trial = TrialId(CELL, "search", 7)
    assert not played.scheduler.judge(trial, 1, 0.1)
    assert played.scheduler.judge(trial, 2, 0.1)
    assert played.scheduler.judge(trial, 2, 0.1)
    assert played.scheduler.judge(trial, 3, 0.9)


def test_epochs_that_are_repeated_after_a_crash_are_judged_once(played: Played) -> None:
    assert played.trial(CELL, GOOD) == 7
    trial, judge = TrialId(CELL, "search", 5), played.scheduler.judge
    assert [judge(trial, epoch, 0.5) for epoch in (1, 2, 3)] == [False] * 3
    assert judge(trial, 4, 0.2)
    # Its slot died before it could be stopped, and its last checkpoint was that of the first epoch.
    assert [judge(trial, epoch, 0.9) for epoch in (2, 3)] == [False] * 2
    assert judge(trial, 4, 0.9)
    rungs = played.scheduler.ashas[CELL, trial.replicate]._brackets[0]._rungs
    assert {milestone: seen[str(trial)] for milestone, seen in rungs if str(trial) in seen} == {
        2: 0.5,
        4: 0.2,
    }
