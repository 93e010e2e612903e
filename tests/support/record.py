"""Small studies, noted by hand as a driver notes them, and the laws that hold of every record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import msgspec

from analysis.record.events import (
    AnyEvent,
    EpochDone,
    StudyFinished,
    StudyStarted,
    TrialEnded,
    TrialStarted,
)
from analysis.record.ledger import LEDGER, LedgerReader
from analysis.record.record import Record
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId
from analysis.tracking import open_store
from analysis.tracking.cursor import read_cursor
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.checkpoints import RAY, keep_outputs
from study.driver.folder import CONFIG, config_of, config_yaml, tracking_uri
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.resume import identity
from study.driver.tune_callback import TuneCallback
from study.search.cell_search import TrialAssignment
from tests.support.events import epoch_done, trial_ended
from trainables.outputs.artifacts import OUTPUTS, write_outputs
from trainables.outputs.checkpoints import CheckpointPart, write_part


class WrittenStudy:
    """A study of a search trial and two final trials, noted by hand: nothing is trained."""

    def __init__(self, config: StudyConfig) -> None:
        self.plan = expand(config)
        self.folder = Path(config.studies) / config.name
        self.folder.mkdir(parents=True)
        (self.folder / CONFIG).write_text(config_yaml(config))
        self.record = Record(self.folder)
        cell, setting = self.plan.cells[1], self.plan.published("triplet")
        search = self.plan.spec(cell, "search", 0, setting)
        self.trials = [TrialAssignment(TrialId(cell, "search", 0), search)]
        for seed in (1, 2):
            spec = self.plan.spec(cell, "final", seed, setting)
            self.trials.append(TrialAssignment(TrialId(cell, "final", seed), spec))

    def begin(self) -> None:
        self.record.note(identity(self.plan, total=3))

    def reopen(self, config: StudyConfig | None = None) -> None:
        """Open the record as the next driver does. config: where the study has moved to."""
        self.record.close()
        self.plan = expand(config) if config else self.plan
        self.folder = Path(self.plan.config.studies) / self.plan.config.name
        self.record = Record(self.folder)

    def trial(self, number: int, *, epochs: int = 3, ends: bool = True) -> None:
        TuneCallback(self.plan, self.record).assigned(self.trials[number])
        for epoch in range(1, epochs + 1):
            self.epoch(number, epoch)
        if ends:
            self.end(number, epochs)

    def epoch(self, number: int, epoch: int) -> None:
        metrics = self._metrics(number, epoch)
        self.record.note(
            epoch_done(self.trials[number].trial, epoch, score=0.1 * epoch, metrics=metrics)
        )

    def end(self, number: int, epochs: int) -> None:
        """Leave what such a trial leaves, then end it."""
        trial, metrics = self.trials[number].trial, self._metrics(number, epochs)
        self._leave(self.trials[number], epochs)
        keep_outputs(self.folder, trial, self.plan.config)
        score, chosen = 0.1 * epochs, 2.0
        self.record.note(
            trial_ended(trial, epoch=epochs, score=score, metrics=metrics, chosen_epoch=chosen)
        )

    def finish(self) -> None:
        """Run every trial, one after the other."""
        for number in range(3):
            self.trial(number)
        self.record.note(StudyFinished())

    def _metrics(self, number: int, epoch: int) -> dict[str, float]:
        metrics = {"select/recall_at_1": 0.1 * epoch, "seconds": 1.0}
        final = self.trials[number].trial.phase == "final" and epoch == 3
        return metrics | ({"test/recall_at_1": 0.1 * number, "chosen_epoch": 2.0} if final else {})

    def _leave(self, assignment: TrialAssignment, epochs: int) -> None:
        spec = assignment.spec
        columns = {"image": [1], "class": [1], "recall_at_1": [1.0], "map_at_r": [0.1 * spec.seed]}
        fold = {"weights": {}, "queries": {spec.rule: columns}, "embeddings": None}
        folds = {0: fold} if spec.phase == "final" else {}
        leave_outputs(self.folder / RAY / "1" / assignment.trial.folder, epochs, folds)

    def mirror(self) -> MlflowMirror:
        mirror = MlflowMirror(self.plan, self.record)
        mirror.wait_until_ready()
        return mirror

    def check(self, *, finished: bool) -> None:
        check_mlflow(self.folder, check_record(self.folder), finished=finished)
        assert read_cursor(self.folder).byte == (self.folder / LEDGER).stat().st_size


def write_checkpoint(home: Path, number: int, epochs: int) -> Path:
    """Write a checkpoint of a running trial after so many epochs, without networks."""
    path = home / f"saved_{number:06}"
    path.mkdir(parents=True)
    part = CheckpointPart(0, 1, folds={0: {}}, weights={}, best=[(0.1, 1)], rows=[{}] * epochs)
    write_part(path, part, known={})
    return path


def leave_outputs(home: Path, epochs: int, folds: Mapping[int, Any] | None = None) -> Path:
    """Leave what a trial of so many epochs leaves. folds: a final trial's; else its state."""
    artifacts = {"folds": dict(folds or {}), "concatenated": {}}
    write_outputs(home / OUTPUTS, {"state": {"rows": [{}] * epochs}, "artifacts": artifacts})
    return home / OUTPUTS


def check_record(folder: Path) -> dict[str, list[EpochDone]]:
    """Hold the laws of a record, and return the epochs of every trial.

    Every trial starts once, its epochs are there once and in order, its score is the best so far,
    and it ends at most once.
    """
    past = LedgerReader(folder).read()
    started = [event.trial for event in past if isinstance(event, TrialStarted)]
    ended = [event.trial for event in past if isinstance(event, TrialEnded)]
    assert len(set(started)) == len(started)
    assert len(set(ended)) == len(ended)
    assert set(ended) <= set(started)
    rows: dict[str, list[EpochDone]] = {trial: [] for trial in started}
    for event in past:
        if isinstance(event, EpochDone):
            rows[event.trial].append(event)
    (first,) = (event for event in past if isinstance(event, StudyStarted))
    chosen = f"select/{first.config.get('select_metric', 'recall_at_1')}"
    for trial, mine in rows.items():
        epochs = [row.epoch for row in mine]
        assert epochs in ([0], list(range(1, len(epochs) + 1))), (trial, epochs)
        own = [chosen if chosen in row.metrics else "select/recall_at_1" for row in mine]
        scores = [row.metrics.get(name) for name, row in zip(own, mine, strict=True)]
        best = list(accumulate((score for score in scores if score is not None), max))
        assert None in scores or [row.score for row in mine] == best, trial
    return rows


def check_mlflow(folder: Path, rows: Mapping[str, Sequence[EpochDone]], *, finished: bool) -> None:
    """Hold that MLflow has one run per trial and cell, each ended, and each point once."""
    config = config_of(folder)
    client = open_store(tracking_uri(config))
    experiment = client.get_experiment_by_name(config.name)
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id], max_results=5000)
    trials = {
        f"{run.data.tags['cell']}/{run.data.tags['trial']}": run
        for run in runs
        if run.data.tags["kind"] == "trial"
    }
    cells = [run for run in runs if run.data.tags["kind"] == "cell"]
    kinds = Counter(run.data.tags["kind"] for run in runs)
    assert kinds["trial"] == len(trials), "one run per trial"
    assert kinds["study"] <= 1, "one run with the page"
    assert set(trials) == set(rows)
    assert len({run.data.tags["cell"] for run in cells}) == len(cells), "one run per cell"
    assert {run.info.status for run in cells} == {"FINISHED" if finished else "KILLED"}
    state = StudyState(LedgerReader(folder).read())
    for trial, run in trials.items():
        ended = state.trials[trial].ended
        wanted = "FINISHED" if state.trials[trial].succeeded else "FAILED" if ended else "KILLED"
        assert run.info.status == wanted, trial
        for name in {name for row in rows[trial] for name in row.metrics}:
            points = client.get_metric_history(run.info.run_id, name)
            stored = sorted((point.step, point.value) for point in points)
            measured = [
                (row.epoch, row.metrics[name]) for row in rows[trial] if name in row.metrics
            ]
            assert stored == measured, (trial, name)


def story(folder: Path) -> list[tuple[object, ...]]:
    """Return what the trials of a study did, without when, where and how fast.

    It is equal for two studies that did the same.
    """
    kinds = (TrialStarted, EpochDone, TrialEnded)  # a retry may read test classes once more
    return [_timeless(event) for event in LedgerReader(folder).read() if isinstance(event, kinds)]


def _timeless(event: AnyEvent) -> tuple[object, ...]:
    values = msgspec.structs.asdict(event) | {"at": 0, "nodes": []}
    metrics = values.get("metrics", {}).items()
    values["metrics"] = {name: value for name, value in metrics if name != "seconds"}
    return type(event).__name__, *sorted(values.items())
