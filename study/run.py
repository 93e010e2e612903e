"""run_study(config): Ray in, table out. The only place that says Tuner."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import ray
import yaml
from ray import tune
from ray.tune import Callback
from ray.tune.experiment import Trial

from analysis.report import write_report
from analysis.tables import Ranking, rankings
from analysis.tracking import Tracker, read_study
from study.config import StudyConfig
from study.live import View
from study.preflight import check_place, study_folder, tracking_uri
from study.search import StudySearcher
from study.stopping import StopPerCell
from trainables.contract import Cell, TrialSpec
from trainables.learner import ARTIFACTS
from trainables.slot import Slot

RETRIES = 2  # of a trial whose process died


@dataclass(frozen=True)
class Finished:
    """How a study ended; all its numbers are in MLflow. An interrupted one has no ranking and no page."""

    folder: Path
    tracking_uri: str
    trials: int
    failed: int
    interrupted: bool
    rankings: list[Ranking]
    page: Path | None


def run_study(config: StudyConfig, *, view: View | None = None) -> Finished:
    """Run every trial of the study on local Ray, or on the cluster that RAY_ADDRESS names."""
    check_place(config)
    folder, uri = study_folder(config), tracking_uri(config)
    folder.mkdir(parents=True, mode=0o700)
    (folder / "config.yaml").write_text(config_yaml(config))
    (folder / "splits.json").write_text(splits_json(config))
    artifacts = None if config.tracking_uri else folder.parent / "mlartifacts" / config.name
    tracker = Tracker(uri, config.name, artifacts=artifacts)
    view = view or View(config)
    ours = not ray.is_initialized()
    try:
        slots, resources = _connect(config)
        tracker.wait_until_ready()
        searcher = StudySearcher(config)
        total = sum(sum(config.trials(cell)) for cell in config.cells()) + len(searcher.baselines)
        _start_cells(config, tracker)
        with view.running(total=total, slots=slots):
            recorder = Recorder(config, tracker, view)
            _tuner(config, searcher, recorder, slots=slots, resources=resources, total=total).fit()
    finally:
        if ours:
            ray.shutdown()
        tracker.close()
    interrupted = recorder.ended < total
    if interrupted:
        return Finished(folder, uri, total, recorder.failed, interrupted, [], None)
    (folder / "finished.json").write_text(json.dumps({"trials": total, "failed": recorder.failed}))
    rows = read_study(uri, config.name)
    found = rankings(rows)
    page = write_report(rows, found, folder=folder, config_yaml=config_yaml(config))
    return Finished(folder, uri, total, recorder.failed, interrupted, found, page)


class Recorder(Callback):
    """Hands every row of every trial to MLflow and to the view."""

    def __init__(self, config: StudyConfig, tracker: Tracker, view: View) -> None:
        self.config, self.tracker, self.view = config, tracker, view
        self.known: set[str] = set()
        self.ended = self.failed = 0

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles its callbacks; threads and screens stay here."""
        return {"known": self.known, "ended": self.ended, "failed": self.failed}

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        if trial.trial_id in self.known:  # a retry goes on with its run
            return
        self.known.add(trial.trial_id)
        spec, name = TrialSpec.from_dict(trial.config["spec"]), trial.config["trial"]
        self.tracker.start_trial(
            trial.trial_id,
            cell=str(spec.cell),
            name=f"{self.config.label(spec.cell)} {name}",
            params={**asdict(spec.cell), **spec.setting},
            tags={**_cell_tags(self.config, spec.cell, spec.rule), "trial": name, "phase": spec.phase, "seed": spec.seed},
            files={"trial.yaml": yaml.safe_dump(json.loads(json.dumps(spec.as_dict())), sort_keys=False)},
        )
        self.view.started(spec, name)

    def on_trial_result(self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any) -> None:
        self.tracker.log(trial.trial_id, result["metrics"], step=result["epoch"])
        self.view.epoch(TrialSpec.from_dict(trial.config["spec"]), result["epoch"], result["score"])

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        spec, last = TrialSpec.from_dict(trial.config["spec"]), trial.last_result
        outcome = "diverged" if last.get("diverged") else "finished"
        if outcome == "finished" and last["epoch"] < spec.training.epochs:
            outcome = "stopped early"
        files = [Path(trial.checkpoint.path, name) for name in ARTIFACTS] if spec.phase == "final" else []
        self.tracker.end(trial.trial_id, "FINISHED", tags={"outcome": outcome, "epochs": last["epoch"]}, files=files)
        self._count(spec, trial, outcome)

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        self.tracker.end(trial.trial_id, "FAILED", tags={"outcome": "failed", "error": trial.error_file or ""})
        self.failed += 1
        self._count(TrialSpec.from_dict(trial.config["spec"]), trial, "failed")

    def _count(self, spec: TrialSpec, trial: Trial, outcome: str) -> None:
        self.ended += 1
        self.view.ended(spec, trial.config["trial"], outcome, trial.last_result)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        for cell in self.config.cells():
            self.tracker.end(str(cell), "FINISHED")


def _connect(config: StudyConfig) -> tuple[int, dict[str, float]]:
    """Slots, and what one of them needs. Local unless RAY_ADDRESS is set: a developer's own cluster is never joined by accident."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    if not ray.is_initialized():
        address = os.environ.get("RAY_ADDRESS", "local")
        cpus = (config.slots or os.cpu_count()) if address == "local" else None
        ray.init(address=address, num_cpus=cpus, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    there = ray.cluster_resources()
    needs = {"CPU": 1.0, "GPU": 1.0} if there.get("GPU") else {"CPU": 1.0}
    fit = min(int(there.get(kind, 0) / amount) for kind, amount in needs.items())
    return min(config.slots or fit, fit), needs


def _tuner(
    config: StudyConfig, searcher: StudySearcher, recorder: Recorder, *, slots: int, resources: dict[str, float], total: int
) -> tune.Tuner:
    return tune.Tuner(
        tune.with_resources(Slot, resources),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=StopPerCell(config),
            num_samples=total,
            max_concurrent_trials=slots,
            reuse_actors=True,
            trial_name_creator=lambda trial: trial.trial_id,
            trial_dirname_creator=lambda trial: trial.trial_id,
        ),
        run_config=tune.RunConfig(
            name="ray",
            storage_path=str((Path(config.studies) / config.name).absolute()),
            verbose=0,
            callbacks=[recorder],
            failure_config=tune.FailureConfig(max_failures=RETRIES),
            checkpoint_config=tune.CheckpointConfig(num_to_keep=1, checkpoint_frequency=1, checkpoint_at_end=True),
        ),
    )


def _start_cells(config: StudyConfig, tracker: Tracker) -> None:
    """One parent run per cell, with the resolved config and its splits."""
    specs = {cell: config.spec(cell, "final", config.seed, {}) for cell in config.cells()}
    specs |= {spec.cell: spec for spec in config.baseline_specs()}
    for cell, spec in specs.items():
        splits = json.dumps([asdict(split) for split in spec.splits])
        tags = _cell_tags(config, cell, spec.rule)
        files = {"config.yaml": config_yaml(config), "splits.json": splits}
        tracker.start_cell(str(cell), params=asdict(cell), tags=tags, files=files)


def _cell_tags(config: StudyConfig, cell: Cell, rule: str) -> dict[str, Any]:
    tags = {"study": config.name, "cell": str(cell), "label": config.label(cell), "rule": rule, "peeks": rule == "best-on-test"}
    return {**tags, **asdict(cell), **_origin()}


def _origin() -> dict[str, str]:
    """Which code ran: the commit of a checkout, and the versions of what matters."""
    here = Path(__file__).parent
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    packages = ("fairtrial", "torch", "ray", "pytorch-metric-learning", "hyperopt", "mlflow")
    return {"git": found.stdout.strip() or "unknown", "versions": " ".join(f"{name}={version(name)}" for name in packages)}


def config_yaml(config: StudyConfig) -> str:
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False)


def splits_json(config: StudyConfig) -> str:
    """The class lists of every dataset and protocol, as they were used."""
    lists = {f"{data}/{name}": [asdict(s) for s in config.splits(data, name)] for data in config.dataset for name in config.protocols}
    return json.dumps(lists, indent=1)
