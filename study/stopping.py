"""Early stopping: one ASHA per cell behind one Tune scheduler. The published setting and final trials always run to the end."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from ray.tune.execution.tune_controller import TuneController
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, TrialScheduler

from study.budget import search_epochs
from study.config import StudyConfig
from study.search import SCORE
from trainables.contract import PUBLISHED, hold


class StopPerCell(FIFOScheduler):
    """Asks the ASHA of the trial's own cell; counts our epoch, never Tune's iterations, which shift after a crash."""

    def __init__(self, config: StudyConfig) -> None:
        super().__init__()
        self.ashas = {str(cell): _asha(config) for cell in config.cells() if config.searched(cell) and config.rungs()}
        self.added: set[str] = set()
        self.stopped: set[str] = set()

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """The newest: a warm slot takes what was drawn for it. Tune's own choice is the oldest, which another slot is starting for,
        and that slot would be thrown away and started again, for as long as trials are shorter than its start."""
        return next((trial for trial in reversed(tune_controller.get_trials()) if trial.status == Trial.PENDING), None)

    def on_trial_result(self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]) -> str:
        hold({"epoch", SCORE} <= result.keys(), f"a row has epoch and {SCORE}, or nothing is ever stopped; got {', '.join(sorted(result))}")
        return self.judge(trial.config["cell"], trial.config["trial"], result)

    def on_trial_complete(self, tune_controller: TuneController, trial: Trial, result: dict[str, Any]) -> None:
        self.judge(trial.config["cell"], trial.config["trial"], result)

    def judge(self, cell: str, name: str, result: Mapping[str, Any]) -> str:
        """CONTINUE or STOP. result: epoch and score. A trial is told of by name, the same after an interruption as before."""
        if cell not in self.ashas or not name.startswith("search-"):
            return str(TrialScheduler.CONTINUE)
        asha, trial = self.ashas[cell], SimpleNamespace(trial_id=f"{cell}/{name}")
        if trial.trial_id not in self.added:
            self.added.add(trial.trial_id)
            asha.on_trial_add(None, trial)
        decision = asha.on_trial_result(None, trial, result)
        if decision == TrialScheduler.STOP:
            self.stopped.add(trial.trial_id)
        elif trial.trial_id in self.stopped:  # its slot died before it could be stopped; a rung judges a trial once
            decision = TrialScheduler.STOP
        # Its scores set the bar at every rung, but the published setting itself is never stopped.
        return str(TrialScheduler.CONTINUE if name == PUBLISHED else decision)


def _asha(config: StudyConfig) -> ASHAScheduler:
    return ASHAScheduler(
        time_attr="epoch",
        metric=SCORE,
        mode="max",
        max_t=search_epochs(config),
        grace_period=config.grace,
        reduction_factor=config.reduction,
    )
