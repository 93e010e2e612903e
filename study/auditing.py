"""fairtrial audit, its work: the kept checkpoints of a finished search scored on the test classes, after which that search is closed."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from analysis.tracking import read_study
from analysis.tracking.files import fetch
from study.audit import write_readings
from study.config import StudyConfig
from study.lease import Lease
from study.ledger import LEDGER, Event, Ledger, events
from study.mirror import Mirror
from study.preflight import tracking_uri
from study.status import status_of
from trainables.artifacts import STATE, read
from trainables.contract import Leaves, TrialSpec
from trainables.worker import Worker

if TYPE_CHECKING:  # torch is imported when the first trial is built
    from trainables.learner import Learner

Progress = Callable[[int, int], None]


def audit(config: StudyConfig, folder: Path, progress: Progress = lambda done, total: None) -> int:
    """How many search trials were scored; those of an earlier audit are not scored again, and those that left no state cannot be.

    A ValueError says what stands in the way.
    """
    with Lease(folder):
        told = events(folder)
        if status_of(folder).state == "interrupted" or not any(event["event"] == "finished" for event in told):
            raise ValueError(f"Only a finished study is audited: `fairtrial run {config.name} --resume` goes on with '{config.name}'.")
        wanted = list(_wanted(told))
        if not wanted:
            raise ValueError(f"'{config.name}' has no search trials that could be audited, or all of them were.")
        if not config.keep_checkpoints:
            raise ValueError(f"'{config.name}' kept no checkpoints of its search trials; run it with --set keep_checkpoints=true.")
        ledger = Ledger(folder / LEDGER)
        mirror = Mirror(config, folder, ledger, resumed=True)
        try:
            mirror.wait_until_ready()
            trials = read_study(tracking_uri(config), config.name).trials
            runs = dict(zip(trials["cell"] + "/" + trials["trial"], trials["run_id"], strict=True))
            scored = 0
            for number, given in enumerate(wanted):
                progress(number, len(wanted))
                spec = _opened(config, given)
                learner = _loaded(tracking_uri(config), runs[given["key"]], spec)
                if not learner:
                    continue
                scored += 1
                chosen = " ".join(str(epoch) for _, epoch in learner.best)
                ledger.note("reading", key=given["key"], reads=[(chosen, spec.rule)])  # before it happens
                ledger.note("audit", key=given["key"], metrics={f"audit/{name}": value for name, value in _score(learner).items()})
        finally:
            mirror.close()
            ledger.close()
            write_readings(folder)
    return scored


def _wanted(told: list[Event]) -> Iterator[Event]:
    """Search trials that ended well."""
    ends = {event["key"]: event for event in told if event["event"] == "end"}
    done = {event["key"] for event in told if event["event"] == "audit"}
    for given in (event for event in told if event["event"] == "trial" and event["name"].startswith("search-")):
        if ends[given["key"]]["outcome"] in ("finished", "stopped early") and given["key"] not in done:
            yield given


def _opened(config: StudyConfig, given: Event) -> TrialSpec:
    """The search trial as if it were a final one: with its test classes."""
    spec = config.spec_again(given)
    splits = config.splits(spec.cell.dataset, spec.cell.protocol)
    return replace(spec, phase="final", splits=splits, leaves=Leaves(last=False, embeddings=False))


def _loaded(uri: str, run: str, spec: TrialSpec) -> Learner | None:
    """Where the trial was saved last; None: its driver was killed before it was saved."""
    with tempfile.TemporaryDirectory() as here:
        found = fetch(uri, run, [STATE], Path(here))
        if STATE not in found:
            return None
        state = read(found[STATE].parent)
    worker = Worker()
    worker.begin(replace(spec, training=replace(spec.training, epochs=len(state["rows"]))))
    worker.load(state)
    return worker.learner


def _score(learner: Learner) -> dict[str, float]:
    """The test classes, by the weights of the epoch that validation chose for each split; select/: what chose, at the same epochs."""
    final = learner.read_test()
    chosen = [learner.rows[epoch - 1].folds[fold] for fold, epoch in enumerate(final.epochs)]
    return {**final.test, **{f"select/{name}": fmean(fold[name] for fold in chosen) for name in chosen[0]}}
