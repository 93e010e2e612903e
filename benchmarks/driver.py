"""Measure what a study costs its driver: simulate 10,000 trials without Ray and without training.

The searcher, the early stopping, the ledger and the mirror to MLflow are those of a study; only the
epochs are simulated and take no time. So epochs per second is how fast nodes may finish epochs
before they wait for the driver. `cells`: 200 cells of 50 search trials, then a new driver rebuilds
the study from its ledger. `mirror`: MLflow on SQLite gets a smaller study. `one`: a single cell of
10,000 trials, timed at marks on the way, since HyperOpt's estimate over all ended trials grows with
their number. Core-seconds do not depend on other work of the machine, but leave out waiting for the
disk.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from analysis.record.events import AnyEvent, EpochDone, StudyFinished, TrialEnded
from analysis.record.kept_files import keep
from analysis.record.ledger import LEDGER
from analysis.record.record import Record
from analysis.record.trial_id import TrialId
from search_spaces import LOSSES
from study.config.plan import expand
from study.config.study_config import StudyConfig, make
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.resume import identity, rebuild
from study.driver.tune_callback import TuneCallback
from study.presets import SMOKE, quickstart
from study.search.cell_search import TrialAssignment
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from study.strategies.tree_parzen_search import TreeParzenSearch
from trainables.contract import ARTIFACTS
from trainables.outputs.artifacts import write_outputs

SIZES = [8, 16, 24, 32, 48, 64, 96, 128]  # times 25 losses: 200 cells
MARKS = (100, 300, 1000, 3000, 10_000)
WINDOW = 20  # suggestions that are averaged at a mark
SLOTS = 64
NAMES = (
    "seconds",
    "train/loss",
    "train/positive_similarity",
    "train/negative_similarity",
    "train/spread",
    "train/tuple_share",
)
SELECT = ("select/best", "select/recall_at_1", "select/map_at_r")


def study(folder: Path, *, trials: int, cells: int) -> StudyConfig:
    """Return a study's configuration; cells: 1, or the product of losses and embedding sizes."""
    axes: dict[str, Any] = {"losses": ["multi_similarity"], "embedding_size": [16]}
    if cells > 1:
        axes = {"losses": sorted(LOSSES)[: cells // len(SIZES)], "embedding_size": SIZES}
    values = {
        "name": "simulated",
        "studies": str(folder),
        "protocols": ["fixed_validation"],
        "baselines": False,
        "searches": 1,
    }
    budget = {"search_trials": trials // cells, "epochs": 24, "grace": 3, "reduction": 3}
    return make(
        quickstart() | SMOKE | values | axes | budget | {"batch_size": 30, "images_per_class": 5}
    )


class Clock:
    """Measure seconds and core-seconds, in total and by part."""

    def __init__(self) -> None:
        self.began = time.perf_counter(), time.process_time()
        self.parts: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])

    @contextmanager
    def on(self, part: str) -> Iterator[None]:
        began = time.perf_counter(), time.process_time()
        try:
            yield
        finally:
            self.parts[part][0] += time.perf_counter() - began[0]
            self.parts[part][1] += time.process_time() - began[1]

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self.began[0], time.process_time() - self.began[1]


class Driver:
    """Do what study_run.py, Tune and its callback do, for trials whose epochs take no time."""

    def __init__(self, config: StudyConfig, folder: Path) -> None:
        plan = expand(config)
        folder.mkdir(parents=True)
        self.clock, self.rng, self.rows = Clock(), random.Random(0), 0
        self.best: dict[TrialId, float] = defaultdict(float)
        self.record = Record(folder)
        self.stopping, self.searcher = EarlyStopping(plan), StudySearcher(plan)
        callback = TuneCallback(plan, self.record)
        self.searcher.serve(slots=lambda: SLOTS, assigned=callback.assigned)
        total = sum(sum(plan.trials(cell)) for cell in plan.cells)
        self.note(identity(plan, total=total))

    def note(self, event: AnyEvent) -> None:
        with self.clock.on("record"):
            self.record.note(event)

    def to_the_end(self) -> int:
        """Run the whole study, and return the number of its trials."""
        running: list[tuple[str, TrialAssignment, int]] = []
        trials = 0
        while True:
            while len(running) < SLOTS:
                with self.clock.on("suggestions, with their events"):
                    found = self.searcher.suggest(name := f"t{trials}")
                if not isinstance(found, dict):
                    break
                trial = self.searcher.running[TrialId.parse(found["trial"])]
                running.append((name, trial, 0))
                trials += 1
            if not running:
                self.note(StudyFinished())
                self.record.close()
                return trials
            running = [
                (name, trial, epoch + 1)
                for name, trial, epoch in running
                if not self.step(name, trial, epoch + 1)
            ]

    def step(self, name: str, assignment: TrialAssignment, epoch: int) -> bool:
        trial, spec = assignment.trial, assignment.spec
        reached = self.rng.random() * (1 - 0.9**epoch)
        score = self.best[trial] = max(reached, self.best[trial])
        metrics = {key: self.rng.random() for key in (*NAMES, *SELECT)}
        metrics[f"select/{spec.training.select_metric}"] = reached
        last = epoch == spec.training.epochs
        if last and spec.phase == "final":
            metrics |= {"test/recall_at_1": score, "test/map_at_r": score, "chosen_epoch": epoch}
        about: dict[str, Any] = {"trial": str(trial), "epoch": epoch, "score": score}
        self.note(EpochDone(**about, metrics=metrics))
        self.rows += 1
        with self.clock.on("early stopping"):
            stops = self.stopping.judge(trial, epoch, score)
        if stops or last:
            outcome = self.record.state.trials[str(trial)].outcome()
            self.note(TrialEnded(**about, metrics=metrics, outcome=outcome, nodes=["0" * 56]))
            with self.clock.on("what the searcher learns of ends"):
                result = {"score": score, "chosen_epoch": float(epoch), "done": True}
                self.searcher.on_trial_complete(name, result)
        return stops or last


def show(what: str, amount: str) -> None:
    print(f"{what:<66}{amount}", flush=True)


def rates(what: str, count: int, seconds: tuple[float, float]) -> None:
    show(f"  {what} a second, a core-second", f"{count / seconds[0]:.1f}, {count / seconds[1]:.1f}")


def spent(seconds: tuple[float, float]) -> str:
    return f"{seconds[0]:.1f} s, {seconds[1]:.1f} core-seconds"


def cells(options: argparse.Namespace, folder: Path) -> None:
    config = study(folder, trials=options.trials, cells=200)
    driver = Driver(config, folder / config.name)
    clock = driver.clock = Clock()
    trials = driver.to_the_end()
    seconds = clock.read()
    size = (folder / config.name / LEDGER).stat().st_size
    show(
        f"{len(expand(config).cells)} cells, {trials:,} trials, {driver.rows:,} epochs",
        spent(seconds),
    )
    rates("epochs", driver.rows, seconds)
    for part, (wall, core) in clock.parts.items():
        show(f"  {part}", spent((wall, core)))
    show("  ledger", f"{size / 1e6:.1f} MB, {size / driver.rows:.0f} bytes an epoch")
    replay(folder, config)


def replay(folder: Path, config: StudyConfig) -> None:
    plan = expand(config)
    clock = Clock()
    record = Record(folder / config.name)
    read = clock.read()
    rebuild(record, StudySearcher(plan), EarlyStopping(plan))
    record.close()
    show("  a new driver rebuilds it", f"{spent(clock.read())}, of which reading {spent(read)}")


def leave_outputs(folder: Path) -> None:
    """Leave what final trials of a real study leave: their files go to MLflow, too."""
    for trial in Record(folder).state.trials.values():
        if trial.id.phase == "final":
            checkpoint = folder / "checkpoint"
            checkpoint.mkdir()
            fold = {"weights": {}, "queries": {trial.started.rule: {}}, "embeddings": None}
            artifacts = {"folds": {0: fold}, "concatenated": {}}
            write_outputs(checkpoint, {"state": {"rows": []}, "artifacts": artifacts})
            keep(folder, trial.id, ARTIFACTS, outputs=checkpoint)
            shutil.rmtree(checkpoint)


def mirror(options: argparse.Namespace, folder: Path) -> None:
    """Time how fast MLflow gets a study of fewer trials that has already ended."""
    config = study(folder, trials=options.mirrored, cells=200)
    driver = Driver(config, folder / config.name)
    trials = driver.to_the_end()
    leave_outputs(folder / config.name)
    mirrored = MlflowMirror(expand(config), Record(folder / config.name))
    mirrored.wait_until_ready()
    clock = Clock()
    mirrored.close()
    seconds = clock.read()
    points = driver.rows * (len(NAMES) + len(SELECT))
    show(
        f"MLflow on SQLite: {trials:,} trials, {driver.rows:,} epochs, {points:,} points",
        spent(seconds),
    )
    for what, count in (("trials", trials), ("epochs", driver.rows), ("points", points)):
        rates(what, count, seconds)
    show("  its database", f"{(folder / 'mlflow.db').stat().st_size / 1e6:.1f} MB")


def one(options: argparse.Namespace, folder: Path) -> None:
    """Time one cell with all trials of a study: the mean over the last suggestions before a mark.

    Between the marks settings are drawn at random, which is quicker; the time of an estimate
    depends only on the number of trials.
    """
    from hyperopt import rand

    config = study(folder, trials=options.trials, cells=1)
    plan = expand(config)
    (cell,) = plan.cells
    strategy = TreeParzenSearch(
        plan.space(cell.loss),
        first=plan.published(cell.loss),
        trials=options.trials,
        seed=0,
    )
    rng, estimate = random.Random(0), strategy.search.algo
    known, total = (0, 0.0), 0.0
    for mark in (mark for mark in MARKS if mark <= options.trials):
        for number in range(known[0], mark):
            strategy.search.algo = estimate if number >= mark - WINDOW else rand.suggest
            if number == mark - WINDOW:
                clock = Clock()
            strategy.suggest(f"t{number}")
            strategy.complete(f"t{number}", rng.random())
        wall, core = (1000 * each / WINDOW for each in clock.read())
        total += (mark - known[0]) * (core + known[1]) / 2 / 1000
        known = mark, core
        show(
            f"one cell, at trial {mark:,}: a suggestion and its end",
            f"{wall:.0f} ms, {core:.0f} core-ms",
        )
    show("  all of them, which a new driver does again (trapezoids)", f"{total:.0f} core-seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--mirrored", type=int, default=1000, help="trials that MLflow gets")
    parser.add_argument(
        "--parts", nargs="+", choices=["cells", "mirror", "one"], default=["cells", "mirror", "one"]
    )
    options = parser.parse_args()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    print(f"{os.cpu_count()} CPUs, {memory:.0f} GB, load {os.getloadavg()[0]:.1f} at the start\n")
    for part in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "studies"
            {"cells": cells, "mirror": mirror, "one": one}[part](options, root)
        print(f"  (load {os.getloadavg()[0]:.1f} after it)\n")


if __name__ == "__main__":
    main()
