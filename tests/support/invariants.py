"""Check what must hold of every study: its record, MLflow, its folder and Ray agree."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd
import ray
from filelock import FileLock

from analysis.record.kept_files import kept_file
from analysis.record.ledger import LEDGER, LedgerReader
from analysis.record.record import replay
from analysis.record.state import StudyState, TrialState
from analysis.tracking.cursor import read_cursor
from study.driver.checkpoints import RAY, checkpoints
from study.driver.folder import READINGS, config_of
from study.driver.lease import LEASE, REQUEST, holder
from study.driver.resume import Replay, first_plan
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from tests.support.actors import our_actors
from tests.support.record import check_mlflow, check_record
from tests.support.waiting import await_that
from trainables.contract import BEST, QUERIES


def check(folder: Path, *, finished: bool = True) -> None:
    """Check all invariants; finished: the study came to its end, else it was interrupted."""
    check_mlflow(folder, check_record(folder), finished=finished)
    assert not holder(folder)
    left = [path.name for path in folder.iterdir() if path.name.startswith((LEASE, REQUEST))]
    assert not left, "no open lease, no request left"
    assert read_cursor(folder).byte == (folder / LEDGER).stat().st_size, "MLflow has everything"
    past = LedgerReader(folder).read()
    state = StudyState(past)
    for trial in state.trials.values():
        if trial.ended:
            assert not checkpoints(folder, trial.id), "an ended trial leaves no checkpoints"
            check_artifacts(folder, trial)
            if trial.succeeded:
                assert not list((folder / RAY).glob(f"*/{trial.id.folder}*")), "nor a folder"
    plan = first_plan(state, config_of(folder))
    searcher = StudySearcher(plan)
    replay(past, Replay(searcher, EarlyStopping(plan)))
    assert searcher.over == finished == state.finished
    if finished:
        check_readings(folder, state)
    check_nothing_lives(folder)


def check_artifacts(folder: Path, trial: TrialState) -> None:
    """Check that a finished final trial has a row per test query, with the mean it reported."""
    assert trial.ended is not None
    if trial.id.phase == "search" or trial.ended.outcome != "finished":
        return
    weights, rows = (kept_file(folder, trial.started.trial, name) for name in (BEST, QUERIES))
    assert weights is not None
    assert rows is not None
    assert weights.stat().st_size
    queries = pd.read_csv(rows, dtype={"fold": str})
    own = queries[(queries["rule"] == trial.started.rule) & (queries["fold"] == "0")]
    if set(queries["fold"]) == {"0"}:
        reported = trial.metrics()["test/recall_at_1"]
        assert abs(own["recall_at_1"].mean() - reported) < 1e-6, trial.id


def check_readings(folder: Path, state: StudyState) -> None:
    """Check readings.csv: every finished final trial, and search trials only of cells that peek."""
    finals = {
        (str(trial.id.cell), trial.id.name): trial
        for trial in state.trials.values()
        if trial.id.phase == "final"
    }
    ended = {
        key for key, trial in finals.items() if trial.ended and trial.ended.outcome == "finished"
    }
    with (folder / READINGS).open() as file:
        read = {(row["cell"], row["trial"]) for row in csv.DictReader(file)}
    assert ended <= read
    assert {pair for pair in read if not pair[0].endswith("/default")} <= set(finals)


def check_nothing_lives(folder: Path) -> None:
    """Check that no slot, worker or lock is left; Ray takes a moment to end them."""
    await_that(lambda: not ray.is_initialized() or not our_actors(), about=our_actors)
    for path in folder.parent.glob("*.lock"):
        with FileLock(path, timeout=0):
            pass
