"""Early stopping: one ASHA per cell behind one Tune scheduler. The published setting and final trials always run to the end."""

from __future__ import annotations

from typing import Any

from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from study.budget import search_epochs
from study.config import StudyConfig
from study.search import SCORE
from trainables.contract import PUBLISHED


class StopPerCell(FIFOScheduler):
    """Asks the ASHA of the trial's own cell; counts our epoch, never Tune's iterations, which shift after a crash."""

    def __init__(self, config: StudyConfig) -> None:
        super().__init__()
        self.ashas = {str(cell): _asha(config) for cell in config.cells() if config.searched(cell) and config.rungs()}

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        if asha := self._asha_of(trial):
            asha.on_trial_add(tune_controller, trial)

    def on_trial_result(self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]) -> str:
        asha = self._asha_of(trial)
        if asha is None:
            return str(TrialScheduler.CONTINUE)
        decision = asha.on_trial_result(tune_controller, trial, result)
        # Its scores set the bar at every rung, but the published setting itself is never stopped.
        return TrialScheduler.CONTINUE if trial.config["trial"] == PUBLISHED else str(decision)

    def on_trial_complete(self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]) -> None:
        if asha := self._asha_of(trial):
            asha.on_trial_complete(tune_controller, trial, result)

    def _asha_of(self, trial: Trial) -> ASHAScheduler | None:
        return self.ashas.get(trial.config["cell"]) if trial.config["spec"]["phase"] == "search" else None


def _asha(config: StudyConfig) -> ASHAScheduler:
    return ASHAScheduler(
        time_attr="epoch",
        metric=SCORE,
        mode="max",
        max_t=search_epochs(config),
        grace_period=config.grace,
        reduction_factor=config.reduction,
    )
