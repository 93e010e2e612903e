"""Stop trials early: one ASHA per cell behind one Tune scheduler."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from analysis.record.trial_id import TrialId
from study.config.budget import grace, search_epochs
from study.config.plan import StudyPlan
from study.config.study_config import StudyConfig
from study.search.searcher import SCORE
from trainables.contract import hold


class EarlyStopping(FIFOScheduler):
    """Ask the ASHA of the trial's own cell and replicate.

    Final trials, finalists and the published setting run to the end. It counts our epochs, never
    Tune's iterations, which shift after a crash.
    """

    def __init__(self, plan: StudyPlan) -> None:
        super().__init__()
        searched = [cell for cell in plan.cells if plan.searched(cell) and plan.rungs]
        places = product(searched, plan.replicates)
        self.ashas = {place: _asha(plan.config) for place in places}
        self.judged: dict[TrialId, int] = {}  # the last epoch of each that a cell's ASHA has seen
        self.stopped: set[TrialId] = set()

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return the newest trial, so that a warm slot takes what was drawn for it.

        Tune's own choice is the oldest, for which another slot is starting; Tune would stop that
        slot and start it again, for as long as trials are shorter than its start.
        """
        trials = reversed(tune_controller.get_trials())
        return next((trial for trial in trials if trial.status == Trial.PENDING), None)

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> str:
        hold(
            {"epoch", SCORE} <= result.keys(),
            f"a row has epoch and {SCORE}, or nothing is ever stopped; got "
            f"{', '.join(sorted(result))}",
        )
        stops = self.judge(_identity(trial), result["epoch"], result[SCORE])
        return str(TrialScheduler.STOP if stops else TrialScheduler.CONTINUE)

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]
    ) -> None:
        self.judge(_identity(trial), result["epoch"], result[SCORE])

    def judge(self, trial: TrialId, epoch: int, score: float) -> bool:
        """Return whether the trial ends after this epoch.

        A trial is known by its identity, which survives an interruption.
        """
        asha = self.ashas.get((trial.cell, trial.replicate))
        if not asha or trial.role != "search":
            return False
        theirs = SimpleNamespace(trial_id=str(trial))
        if trial not in self.judged:
            self.judged[trial] = 0
            asha.on_trial_add(None, theirs)
        if epoch < self.judged[trial]:  # repeated since its last checkpoint, and passed before
            return False
        if epoch > self.judged[trial]:
            self.judged[trial] = epoch
            if asha.on_trial_result(None, theirs, {"epoch": epoch, SCORE: score}) == asha.STOP:
                self.stopped.add(trial)
        # A rung judges a trial once: one whose slot died before it could be stopped stops now.
        # The published setting sets the bar at every rung, but is never stopped itself.
        return trial in self.stopped and not trial.is_published_setting


def _identity(trial: Trial) -> TrialId:
    return TrialId.parse(trial.config["trial"])


def _asha(config: StudyConfig) -> ASHAScheduler:
    return ASHAScheduler(
        time_attr="epoch",
        metric=SCORE,
        mode="max",
        max_t=search_epochs(config),
        grace_period=grace(config),
        reduction_factor=config.reduction,
    )
