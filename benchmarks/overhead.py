"""What the framework costs: a study of short search trials on two slots against the same epochs in two bare processes.

Both sides train the same specs with the same Learner. The bare side has imported everything and loaded the data before its clock
starts. The study's clock starts when the last slot has finished its first trial, so that start-up is not counted; it is printed on its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from rich.console import Console

from study.config import StudyConfig, make
from study.live import View
from study.presets import quickstart
from trainables.contract import TrialSpec

SLOTS = 2


class Clock(View):
    """A silent view that notes what ran when."""

    def __init__(self, config: StudyConfig) -> None:
        super().__init__(config, Console(quiet=True))
        self.specs: list[TrialSpec] = []
        self.ends: list[tuple[float, int]] = []  # when a trial ended, and how many epochs it ran

    def ended(self, spec: TrialSpec, name: str, outcome: str, result: dict[str, Any]) -> None:
        super().ended(spec, name, outcome, result)
        self.specs.append(spec)
        self.ends.append((time.perf_counter(), result["epoch"]))


def study(folder: str, trials: int) -> tuple[Clock, float]:
    from study.run import run_study

    changes = {"losses": ["contrastive", "multi_similarity"], "protocols": ["fixed_validation"], "search_trials": trials // 2}
    # Every trial runs all its epochs, so that both sides do exactly the same work.
    changes |= {"grace": 8, "seeds": 1, "baselines": False, "slots": SLOTS, "studies": folder, "strategy": "random"}
    config = make(quickstart() | changes)
    clock = Clock(config)
    began = time.perf_counter()
    run_study(config, view=clock)
    return clock, began


def bare(specs: list[TrialSpec], barrier: Barrier) -> None:
    import torch

    from trainables import datasets
    from trainables.learner import Learner

    torch.set_num_threads(1)
    data = datasets.load("sketches")
    warm = Learner(specs[0], data)
    warm.epoch()
    barrier.wait()
    for spec in specs:
        learner = Learner(spec, data)
        while not learner.done:
            learner.epoch()
        if spec.phase == "final":
            learner.read_test()
    barrier.wait()


def bare_seconds(specs: list[TrialSpec]) -> float:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(SLOTS + 1)
    workers = [context.Process(target=bare, args=(specs[i::SLOTS], barrier)) for i in range(SLOTS)]
    for worker in workers:
        worker.start()
    barrier.wait()
    began = time.perf_counter()
    barrier.wait()
    seconds = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=24)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as folder:
        clock, began = study(str(Path(folder)), trials)
    first = clock.ends[SLOTS - 1][0]
    timed = clock.specs[SLOTS:]
    in_study = clock.ends[-1][0] - first
    in_bare = bare_seconds(timed)
    epochs = sum(count for _, count in clock.ends[SLOTS:])
    rows = {
        "start-up and each slot's first trial": f"{first - began:.1f} s",
        f"then {len(timed)} trials, {epochs} epochs, in the study": f"{in_study:.1f} s",
        f"the same in {SLOTS} bare processes": f"{in_bare:.1f} s",
        "ratio": f"{in_study / in_bare:.2f}",
    }
    for what, value in rows.items():
        print(f"{what:<48}{value:>8}")


if __name__ == "__main__":
    main()
