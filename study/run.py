"""run_study(config): Ray in, table out. The only place that says Tuner."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import ray
from ray import tune

from analysis.report import write_report
from analysis.tables import Ranking, rankings
from analysis.tracking import Tracker, read_study
from study.audit import Audit
from study.config import StudyConfig
from study.live import View
from study.preflight import PreflightError, check_place, study_folder, tracking_uri
from study.recorder import Recorder, config_yaml, start_cells, write_splits
from study.room import Room, find_room
from study.search import StudySearcher
from study.staging import stage
from study.stopping import StopPerCell
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
    stage(config)
    folder, uri = study_folder(config), tracking_uri(config)
    try:
        folder.mkdir(parents=True, mode=0o700)
    except OSError as error:
        raise PreflightError(f"The studies folder must be writable: {error}; choose another with --set studies=FOLDER.") from None
    (folder / "config.yaml").write_text(config_yaml(config))
    write_splits(config, folder / "splits")
    artifacts = None if config.tracking_uri else folder.parent / "mlartifacts" / config.name
    tracker = Tracker(uri, config.name, artifacts=artifacts)
    view = view or View(config)
    ours = not ray.is_initialized()
    try:
        room = _ready(config, tracker, folder, view)
        searcher = StudySearcher(config, room.slots)
        total = sum(sum(config.trials(cell)) for cell in config.cells()) + len(searcher.baselines)
        cells = start_cells(config, tracker)
        with view.running(total=total, slots=min(room.slots(), total)):
            recorder = Recorder(config, tracker, view, cells, Audit(folder / "readings.csv"))
            _tuner(config, searcher, recorder, room, total=total).fit()
        interrupted = recorder.ended + searcher.skipped < total
        if not interrupted:
            recorder.end_cells()
    finally:
        try:
            tracker.close()  # before Ray goes: a thread that frees a reference to Ray's objects at that moment ends the process
        finally:
            if ours:
                ray.shutdown()
    if interrupted:
        return Finished(folder, uri, total, recorder.failed, interrupted, [], None)
    (folder / "finished.json").write_text(json.dumps({"trials": total, "failed": recorder.failed}))
    rows = read_study(uri, config.name)
    found = rankings(rows)
    page = write_report(rows, found, folder=folder, config_yaml=config_yaml(config))
    return Finished(folder, uri, total, recorder.failed, interrupted, found, page)


def _ready(config: StudyConfig, tracker: Tracker, folder: Path, view: View) -> Room:
    """Ray and MLflow; a study that cannot have both leaves nothing behind."""
    try:
        room = find_room(config, view.say)
        tracker.wait_until_ready()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return room


def _tuner(config: StudyConfig, searcher: StudySearcher, recorder: Recorder, room: Room, *, total: int) -> tune.Tuner:
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(Slot, crew=room.crew), room.slot_resources()),
        tune_config=tune.TuneConfig(
            search_alg=searcher,
            scheduler=StopPerCell(config),
            num_samples=total,
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
