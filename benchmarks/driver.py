"""What the driver of a study takes: a simulated study of 10,000 trials, without Ray, without training.

The searcher, the early stopping, the ledger and the mirror to MLflow are those of a study; only the epochs are made up, each in no time.
So rows per second is how fast nodes may finish epochs before they wait for the driver. `cells`: 200 cells of 50 search trials, then a new
driver rebuilds the study from its ledger. `mirror`: MLflow on SQLite gets a smaller study. `one`: a single cell of 10,000 trials, where
HyperOpt's estimate over all trials that have ended grows with their number; it is timed at marks on the way. Core-seconds stand beside the
clock's: they hold on a machine that has other work, too, but without the waiting for the disk.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from search_spaces import LOSSES
from study.config import StudyConfig, make
from study.ledger import LEDGER, Ledger, events
from study.mirror import Mirror
from study.presets import SMOKE, quickstart
from study.recorder import outcome_of
from study.resume import identity, rebuild
from study.search import Given, StudySearcher
from study.stopping import StopPerCell
from study.strategies import HyperOpt

CODE = {"sources": "simulated"}
SIZES = [8, 16, 24, 32, 48, 64, 96, 128]  # times 25 losses: 200 cells
MARKS = (100, 300, 1000, 3000, 10_000)
WINDOW = 20  # suggestions whose mean is told at a mark
SLOTS = 64
NAMES = ("seconds", "train/loss", "train/positive_similarity", "train/negative_similarity", "train/spread", "train/tuple_share")
SELECT = ("select/best", "select/recall_at_1", "select/map_at_r")


def study(folder: Path, *, trials: int, cells: int) -> StudyConfig:
    """cells: 1, or as many as 25 losses and 8 embedding sizes make."""
    axes: dict[str, Any] = {"losses": ["multi_similarity"], "embedding_size": [16]}
    if cells > 1:
        axes = {"losses": sorted(LOSSES)[: cells // len(SIZES)], "embedding_size": SIZES}
    values = {"name": "simulated", "studies": str(folder), "protocols": ["fixed_validation"], "baselines": False, "reproductions": 1}
    budget = {"search_trials": trials // cells, "epochs": 24, "grace": 3, "reduction": 3}
    return make(quickstart() | SMOKE | values | axes | budget | {"batch_size": 30, "images_per_class": 5})


class Clock:
    """Seconds and core-seconds, all in all and by part."""

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
    """What run.py, Tune and the recorder do between them, for trials whose epochs take no time."""

    def __init__(self, config: StudyConfig, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.clock, self.rng, self.rows = Clock(), random.Random(0), 0
        self.best: dict[str, float] = defaultdict(float)
        self.ledger = Ledger(folder / LEDGER)
        self.stopping, self.searcher = StopPerCell(config), StudySearcher(config, slots=lambda: SLOTS)
        self.searcher.note = lambda given: self.note("trial", **given.event())
        self.note("study", **identity(config, CODE), total=sum(sum(config.trials(cell)) for cell in config.cells()))

    def note(self, event: str, **values: Any) -> None:
        with self.clock.on("ledger"):
            self.ledger.note(event, **values)

    def to_the_end(self) -> int:
        """The trials."""
        running: list[tuple[str, Given, int]] = []
        trials = 0
        while True:
            while len(running) < SLOTS:
                with self.clock.on("suggestions, with their lines in the ledger"):
                    found = self.searcher.suggest(name := f"t{trials}")
                if not isinstance(found, dict):
                    break
                running.append((name, self.searcher.running[found["key"]], 0))
                trials += 1
            if not running:
                self.note("finished")
                self.ledger.close()
                return trials
            running = [(name, given, epoch + 1) for name, given, epoch in running if not self.step(name, given, epoch + 1)]

    def step(self, name: str, given: Given, epoch: int) -> bool:
        reached = self.rng.random() * (1 - 0.9**epoch)
        score = self.best[given.key] = max(reached, self.best[given.key])
        metrics = {key: self.rng.random() for key in (*NAMES, *SELECT)} | {"select/recall_at_1": reached}
        last = epoch == given.spec.training.epochs
        if last and given.spec.phase == "final":
            metrics |= {"test/recall_at_1": score, "test/map_at_r": score, "chosen_epoch": epoch}
        row: dict[str, Any] = {"epoch": epoch, "score": score, "metrics": metrics}
        self.note("row", key=given.key, **row)
        self.rows += 1
        with self.clock.on("early stopping"):
            stops = self.stopping.judge(str(given.spec.cell), given.name, row) == StopPerCell.STOP
        if stops or last:
            self.note("end", key=given.key, outcome=outcome_of(row, given.spec.training.epochs), **row, nodes=["0" * 56])
            with self.clock.on("what the searcher learns of ends"):
                self.searcher.on_trial_complete(name, row | {"chosen_epoch": float(epoch), "done": True})
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
    show(f"{len(config.cells())} cells, {trials:,} trials, {driver.rows:,} epochs", spent(seconds))
    rates("epochs", driver.rows, seconds)
    for part, (wall, core) in clock.parts.items():
        show(f"  {part}", spent((wall, core)))
    show("  ledger", f"{size / 1e6:.1f} MB, {size / driver.rows:.0f} bytes an epoch")
    replay(folder, config)


def replay(folder: Path, config: StudyConfig) -> None:
    clock = Clock()
    past = events(folder / config.name)
    read = clock.read()
    ledger = Ledger(folder / "copy.jsonl")
    rebuild(past, StudySearcher(config), StopPerCell(config), ledger)
    ledger.close()
    show("  a new driver rebuilds it", f"{spent(clock.read())}, of which reading {spent(read)}")


def mirror(options: argparse.Namespace, folder: Path) -> None:
    """MLflow gets a study of fewer trials, told at once."""
    config = study(folder, trials=options.mirrored, cells=200)
    driver = Driver(config, folder / config.name)
    trials = driver.to_the_end()
    ledger = Ledger(folder / config.name / LEDGER)
    mirrored = Mirror(config, folder / config.name, ledger, resumed=False)
    mirrored.wait_until_ready()
    clock = Clock()
    mirrored.close()
    seconds = clock.read()
    points = driver.rows * (len(NAMES) + len(SELECT))
    show(f"MLflow on SQLite: {trials:,} trials, {driver.rows:,} epochs, {points:,} points", spent(seconds))
    for what, count in (("trials", trials), ("epochs", driver.rows), ("points", points)):
        rates(what, count, seconds)
    show("  its database", f"{(folder / 'mlflow.db').stat().st_size / 1e6:.1f} MB")


def one(options: argparse.Namespace, folder: Path) -> None:
    """A cell that has as many trials as a whole study; means over the last suggestions before every mark.

    Between the marks settings are drawn at random, which is quicker; how long an estimate takes depends on how many trials there are only.
    """
    from hyperopt import rand

    config = study(folder, trials=options.trials, cells=1)
    (cell,) = config.cells()
    strategy = HyperOpt(config.space(cell.loss), first=config.published(cell.loss), trials=options.trials, seed=0)
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
        show(f"one cell, at trial {mark:,}: a suggestion and its end", f"{wall:.0f} ms, {core:.0f} core-ms")
    show("  all of them, which a new driver does again (trapezoids)", f"{total:.0f} core-seconds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--mirrored", type=int, default=1000, help="trials that MLflow gets")
    parser.add_argument("--parts", nargs="+", choices=["cells", "mirror", "one"], default=["cells", "mirror", "one"])
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
