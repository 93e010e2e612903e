"""One ASHA per cell; the published setting and final trials are never stopped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from study.stopping import StopPerCell
from tests.conftest import MakeConfig
from trainables.contract import LawError


class Played:
    """Plays trials against the scheduler without Tune."""

    def __init__(self, scheduler: StopPerCell) -> None:
        self.scheduler = scheduler
        self.count = 0

    def trial(self, cell: str, scores: list[float], *, name: str = "", phase: str = "search") -> int:
        """The epoch at which it was stopped, or its last."""
        self.count += 1
        config = {"cell": cell, "trial": name or f"{phase}-{self.count}", "spec": {"phase": phase}}
        trial: Any = SimpleNamespace(trial_id=f"t{self.count}", config=config, is_finished=lambda: False)
        for epoch, score in enumerate(scores, start=1):
            if self.scheduler.on_trial_result(None, trial, {"epoch": epoch, "score": score, "training_iteration": 100 + epoch}) == "STOP":
                return epoch
        return len(scores)


@pytest.fixture
def played(config: MakeConfig) -> Played:
    return Played(StopPerCell(config(epochs=8, grace=2, reduction=2)))


CELL = "sketches/tiny-16/triplet/fixed_validation"
OTHER = "sketches/tiny-16/contrastive/fixed_validation"
GOOD, BAD, MIDDLING = [0.5] * 7, [0.1] * 7, [0.5, 0.5, 0.5, 0.2, 0.2, 0.2, 0.2]


def test_a_hopeless_trial_ends_at_the_first_rung_and_a_middling_one_at_the_second(played: Played) -> None:
    assert played.trial(CELL, GOOD) == 7
    assert played.trial(CELL, BAD) == 2
    assert played.trial(CELL, MIDDLING) == 4


def test_cells_do_not_compete(played: Played) -> None:
    assert played.trial(CELL, GOOD) == 7
    assert played.trial(OTHER, BAD) == 7


def test_the_published_setting_sets_the_bar_but_is_never_stopped(played: Played) -> None:
    assert played.trial(CELL, GOOD) == 7
    assert played.trial(CELL, BAD, name="search-0") == 7
    assert played.trial(CELL, [0.05] * 7) == 2


def test_final_trials_are_neither_stopped_nor_counted(played: Played) -> None:
    assert played.trial(CELL, [0.9] * 7, phase="final") == 7
    assert played.trial(CELL, BAD) == 7
    assert played.trial(CELL, [0.01] * 7, phase="final") == 7


def test_cells_that_are_not_searched_have_no_asha(config: MakeConfig) -> None:
    assert StopPerCell(config(epochs=8)).ashas.keys() == {f"sketches/tiny-16/{loss}/fixed_validation" for loss in config().losses}


def test_a_warm_slot_takes_the_newest_trial_and_leaves_the_older_to_the_slot_that_starts_for_it(played: Played) -> None:
    trials = [SimpleNamespace(status=status) for status in ("TERMINATED", "PENDING", "RUNNING", "PENDING")]
    tune: Any = SimpleNamespace(get_trials=lambda: trials)
    assert played.scheduler.choose_trial_to_run(tune) is trials[-1]
    trials[1].status = trials[-1].status = "RUNNING"
    assert played.scheduler.choose_trial_to_run(tune) is None


@pytest.mark.parametrize("missing", ["epoch", "score"])
@pytest.mark.parametrize("phase", ["search", "final"])
def test_a_row_without_what_early_stopping_counts_by_is_an_error(played: Played, phase: str, missing: str) -> None:
    """Tune's own ASHA lets such a trial go on without a word."""
    trial: Any = SimpleNamespace(config={"cell": CELL, "trial": f"{phase}-1"})
    row = {"epoch": 1, "score": 0.5, "training_iteration": 1}
    with pytest.raises(LawError, match="a row has epoch and score"):
        played.scheduler.on_trial_result(None, trial, {name: value for name, value in row.items() if name != missing})


def test_a_trial_that_diverges_at_a_rung_counts_there(played: Played) -> None:
    """Tune does not ask about a row that says done, it only tells that the trial is complete."""
    lost: Any = SimpleNamespace(config={"cell": CELL, "trial": "search-7"})
    played.scheduler.on_trial_complete(None, lost, {"epoch": 2, "score": 0.0})
    recorded = [scores for _, scores in played.scheduler.ashas[CELL]._brackets[0]._rungs]
    assert recorded[-1] == {f"{CELL}/search-7": 0.0}
