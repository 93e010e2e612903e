"""Audit a finished search: score its kept checkpoints on the test classes, which closes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.record.commands import resuming
from analysis.record.events import CheckpointAudited, TestRead
from analysis.record.kept_files import kept_file
from analysis.record.record import Record
from analysis.record.specs import read_shared, spec_dict
from analysis.record.state import StudyState, TrialState
from study.config.plan import StudyPlan
from study.driver.folder import write_readings
from study.driver.lease import Lease
from study.driver.mlflow_mirror import MlflowMirror
from trainables.contract import Outputs, TrialSpec
from trainables.outputs.artifacts import STATE, read_state
from trainables.workers.worker import Worker

if TYPE_CHECKING:  # torch is imported when the first trial is built
    from trainables.training.learner import Learner

Report = Callable[[int, int], None]  # done, in all


def audit_checkpoints(
    plan: StudyPlan, folder: Path, report: Report = lambda done, total: None
) -> int:
    """Score every kept checkpoint of a search on the test classes, and return how many.

    Skip those of an earlier audit. Raise ValueError if the study cannot be audited.
    """
    name = plan.config.name
    with Lease(folder):
        record = Record(folder)
        try:
            wanted = _wanted(record.state)
            if not record.state.finished:
                raise ValueError(
                    f"Only a finished study is audited: `{resuming(folder)}` resumes '{name}'."
                )
            if not wanted:
                raise ValueError(f"'{name}' has no search trials left to audit.")
            if not plan.config.keep_checkpoints:
                raise ValueError(
                    f"'{name}' kept no checkpoints of its search trials; run it with --set "
                    "keep_checkpoints=true."
                )
            return _audit(plan, record, wanted, report)
        finally:
            record.close()


def _audit(plan: StudyPlan, record: Record, wanted: list[TrialState], report: Report) -> int:
    mirror = MlflowMirror(plan, record)
    scored = 0
    try:
        for number, trial in enumerate(wanted):
            report(number, len(wanted))
            spec = _with_test_classes(plan, record.folder, trial)
            checkpoint = kept_file(record.folder, trial.started.trial, STATE)
            if checkpoint is None:  # its driver was killed before it was saved
                continue
            learner = _load(checkpoint.parent, spec)
            scored += 1
            chosen = " ".join(str(epoch) for _, epoch in learner.best)
            key = trial.started.trial
            record.note(TestRead(trial=key, reads=[(chosen, spec.rule)]))  # before it happens
            if record.failure:
                raise record.failure
            metrics = {f"audit/{name}": value for name, value in _score(learner).items()}
            record.note(CheckpointAudited(trial=key, metrics=metrics))
    finally:
        write_readings(record.folder, record.state)
        mirror.close()
    return scored


def _wanted(state: StudyState) -> list[TrialState]:
    """Return the search trials that ended well and were not audited before."""
    return [
        trial
        for trial in state.trials.values()
        if trial.id.role == "search"
        and trial.ended
        and trial.ended.outcome in ("finished", "stopped early", "out of patience")
        and not trial.audit
    ]


def _with_test_classes(plan: StudyPlan, folder: Path, trial: TrialState) -> TrialSpec:
    """Return a search trial's spec as if it were a final trial's: with test classes."""
    shared = json.loads(read_shared(folder, trial.started.spec))
    cell = trial.id.cell
    splits = plan.splits(cell.dataset, cell.protocol, replicate=trial.id.replicate)
    return replace(
        TrialSpec.from_dict(spec_dict(shared, trial.started)),
        phase="final",
        splits=splits,
        outputs=Outputs(last=False, embeddings=False),
    )


def _load(checkpoint: Path, spec: TrialSpec) -> Learner:
    """Return the trial as it was when it was saved last."""
    state = read_state(checkpoint)
    worker = Worker()
    epochs = len(state["rows"])
    worker.begin(replace(spec, training=replace(spec.training, epochs=epochs)))
    worker.load(state)
    return worker.learner


def _score(learner: Learner) -> dict[str, float]:
    """Score the test classes by the weights of the epoch that validation chose for each split.

    select/ holds the selection scores at the same epochs.
    """
    final = learner.read_test()
    chosen = [learner.rows[epoch - 1].folds[fold] for fold, epoch in enumerate(final.epochs)]
    select = {f"select/{name}": fmean(fold[name] for fold in chosen) for name in chosen[0]}
    return {**final.test, **select}
