"""The driver's notes: every trial, row and artifact handed to MLflow and to the view."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import asdict
from functools import cache
from importlib.metadata import version
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from ray.tune import Callback
from ray.tune.experiment import Trial

from analysis.tracking import Tracker, redact
from study.audit import Audit
from study.config import StudyConfig
from study.live import View
from study.splits import digest, split_file_name, splits_text
from trainables.artifacts import STATE
from trainables.contract import ARTIFACTS, PEEKING, Cell, Rule, TrialSpec
from trainables.datasets.catalogue import index


class Recorder(Callback):
    """Hands every row of every trial to MLflow and to the view."""

    def __init__(self, config: StudyConfig, tracker: Tracker, view: View, cells: Iterable[Cell], audit: Audit) -> None:
        self.config, self.tracker, self.view, self.audit = config, tracker, view, audit
        self.last: dict[str, int] = {}  # trial id -> last epoch that was written
        self.finals: dict[str, list[dict[str, float]]] = {str(cell): [] for cell in cells}
        self.ended = self.failed = 0

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks; threads and screens stay here."""
        return {"last": self.last, "ended": self.ended, "failed": self.failed}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        if trial.trial_id in self.last:  # a retry goes on with its run
            return
        self.last[trial.trial_id] = -1
        spec, name = TrialSpec.from_dict(trial.config["spec"]), trial.config["trial"]
        self.tracker.start_trial(
            trial.trial_id,
            cell=str(spec.cell),
            name=f"{self.config.label(spec.cell)} {name}",
            params={**asdict(spec.cell), **spec.setting},
            tags={**_cell_tags(self.config, spec.cell, spec.rule), "trial": name, "phase": spec.phase, "seed": spec.seed}
            | {"tuned": spec.tuned, "split": digest(spec.splits), "folds": len(spec.splits)},
            files={"trial.yaml": yaml.safe_dump(json.loads(json.dumps(spec.as_dict())), sort_keys=False)},
        )
        self.view.started(spec, name)

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        if result["epoch"] <= self.last[trial.trial_id]:  # a slot died after this epoch and before its checkpoint
            return
        self.last[trial.trial_id] = result["epoch"]
        self.tracker.log(trial.trial_id, result["metrics"], step=result["epoch"])
        spec = TrialSpec.from_dict(trial.config["spec"])
        if spec.peeks:
            self._audit(trial, spec, str(result["epoch"]), spec.rule)
        self.view.epoch(spec, result["epoch"], result["score"])

    def _audit(self, trial: Trial, spec: TrialSpec, epoch: str, rule: Rule) -> None:
        self.audit.note(cell=str(spec.cell), trial=trial.config["trial"], seed=spec.seed, epoch=epoch, rule=rule)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        spec, last = TrialSpec.from_dict(trial.config["spec"]), trial.last_result
        outcome = "diverged" if last.get("diverged") else "out of memory" if last.get("out_of_memory") else "finished"
        if outcome == "finished" and last["epoch"] < spec.training.epochs:
            outcome = "stopped early"
        if spec.phase == "final":
            if trial.config["trial"].startswith("final-"):
                self.finals[str(spec.cell)].append(last["metrics"])
            self._audit_final(trial, spec, last["metrics"])
        tags = {"outcome": outcome, "epochs": last["epoch"], "nodes": " ".join(last.get("nodes", []))}
        names = ARTIFACTS if spec.phase == "final" else (STATE,) if self.config.keep_checkpoints else ()
        files = [path for name in names if (path := Path(trial.checkpoint.path, name)).exists()]
        self.tracker.end(trial.trial_id, "FINISHED", tags=tags, files=files)
        self._count(spec, trial, outcome)

    def _audit_final(self, trial: Trial, spec: TrialSpec, metrics: dict[str, float]) -> None:
        """The chosen epoch of every fold, and the last one if it was read."""
        folds = [metrics[f"fold{i}/chosen_epoch"] for i in range(len(spec.splits))] if len(spec.splits) > 1 else [metrics["chosen_epoch"]]
        self._audit(trial, spec, " ".join(f"{epoch:g}" for epoch in folds), spec.rule)
        if spec.leaves.last:
            self._audit(trial, spec, str(trial.last_result["epoch"]), "last-epoch")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.on_trial_start(iteration, trials, trial)  # it may have failed before it started
        self.tracker.end(trial.trial_id, "FAILED", tags={"outcome": "failed", "error": trial.error_file or ""})
        self.failed += 1
        self._count(TrialSpec.from_dict(trial.config["spec"]), trial, "failed")

    def _count(self, spec: TrialSpec, trial: Trial, outcome: str) -> None:
        self.ended += 1
        self.view.ended(spec, trial.config["trial"], outcome, trial.last_result)

    def end_cells(self) -> None:
        """Each parent run gets the means of its final trials."""
        for cell, finals in self.finals.items():
            names = [name for name in finals[0] if name.startswith("test/")] if finals else []
            self.tracker.log(cell, {name: fmean(final[name] for final in finals) for name in names})
            self.tracker.end(cell, "FINISHED")


def start_cells(config: StudyConfig, tracker: Tracker) -> list[Cell]:
    """One parent run per cell, baselines too, with the resolved config and its splits."""
    specs = {cell: config.spec(cell, "final", config.seed, {}) for cell in config.cells()}
    specs |= {spec.cell: spec for spec in config.baseline_specs()}
    for cell, spec in specs.items():
        tags = {**_cell_tags(config, cell, spec.rule), "split": digest(spec.splits)}
        files = {"config.yaml": redact(config_yaml(config)), "splits.json": splits_text(cell.dataset, cell.protocol, spec.splits)}
        tracker.start_cell(str(cell), params=asdict(cell), tags=tags, files=files)
    return list(specs)


def _cell_tags(config: StudyConfig, cell: Cell, rule: str) -> dict[str, Any]:
    tags = {"study": config.name, "cell": str(cell), "label": config.label(cell), "rule": rule, "peeks": rule == PEEKING}
    return {**tags, **asdict(cell), "data": index(config.origin(cell.dataset)).fingerprint, **_code()}


@cache
def _code() -> dict[str, str]:
    """Which code ran: the commit of a checkout, and the versions of what matters."""
    commit, checkout = "unknown", Path(__file__).parent.parent
    if (checkout / ".git").exists() and (git := shutil.which("git")):
        commit = subprocess.run([git, "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=False).stdout.strip()
    packages = ("fairtrial", "torch", "ray", "pytorch-metric-learning", "hyperopt", "mlflow")
    return {"git": commit, "versions": " ".join(f"{name}={version(name)}" for name in packages)}


def config_yaml(config: StudyConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def write_splits(config: StudyConfig, folder: Path) -> None:
    """The class lists of every dataset and protocol, as they are used; with resplit also those of each final seed."""
    folder.mkdir()
    draws = [0, *(seed - config.seed for seed in config.final_seeds())] if config.resplit else [0]
    for dataset, protocol, draw in product(config.dataset, config.protocols, draws):
        splits = config.splits(dataset, protocol, draw=draw)
        name = split_file_name(dataset, protocol if not draw else f"{protocol}-seed{config.seed + draw}")
        (folder / name).write_text(splits_text(dataset, protocol, splits))
