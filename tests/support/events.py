"""Events of a small study, as a driver notes them."""

from __future__ import annotations

from typing import Any

from analysis.record.events import (
    VERSION,
    EpochDone,
    StudyResumed,
    StudyStarted,
    TrialEnded,
    TrialStarted,
)
from analysis.record.trial_id import TrialId
from trainables.contract import Cell

CELL = Cell("sketches", "tiny", 16, "triplet", "fixed_validation")
PEEKS = Cell("sketches", "tiny", 16, "triplet", "default")


def study_started(**changes: Any) -> StudyStarted:
    about: dict[str, Any] = {"version": VERSION, "total": 3, "config": {"name": "made"}}
    about |= {"code": {"fairtrial": "x"}, "data": {"sketches": "f"}, "splits": {}, "weights": {}}
    return StudyStarted(**about | changes)


def study_resumed(**changes: Any) -> StudyResumed:
    about: dict[str, Any] = {"grows": {}, "code": {}, "total": 3}
    return StudyResumed(**about | changes)


def trial_started(trial: TrialId, **changes: Any) -> TrialStarted:
    peeks = trial.cell.protocol == "default"
    about: dict[str, Any] = {
        "trial": str(trial),
        "label": f"{trial.cell.loss}/{trial.cell.protocol}",
        "seed": trial.number,
        "setting": {"loss.margin": 0.5},
        "tuned": False,
        "epochs": 2,
        "rule": "best-on-test" if peeks else "selected-on-validation",
        "spec": "0123456789abcdef",
        "extended": False,
    }
    return TrialStarted(**about | changes)


def epoch_done(trial: TrialId, epoch: int, **changes: Any) -> EpochDone:
    score = epoch / 10
    about: dict[str, Any] = {"score": score, "metrics": {"select/recall_at_1": score}}
    return EpochDone(**{"trial": str(trial), "epoch": epoch} | about | changes)


def trial_ended(trial: TrialId, **changes: Any) -> TrialEnded:
    about: dict[str, Any] = {"outcome": "finished", "epoch": 2, "score": 0.2}
    return TrialEnded(**{"trial": str(trial)} | about | changes)
