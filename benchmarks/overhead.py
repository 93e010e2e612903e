"""What the framework costs: a study of short search trials on two warm slots against the same epochs in two bare processes.

The study is a real one: HyperOpt proposes, ASHA stops, every epoch is checkpointed and written to MLflow. A slot's clock runs from
the end of its first trial to the end of its last. Each bare process then trains exactly what one slot trained in that time, the same
settings for the same epochs with the same Learner, having imported everything and loaded the data before its clock starts. The ratio is
of slot-seconds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from typing import Any

from rich.console import Console

from study.config import StudyConfig, make
from study.live import View
from study.presets import quickstart
from trainables.contract import TrialSpec

SLOTS = 2
Done = tuple[float, TrialSpec, int]  # when it ended, what it was, how many epochs it ran


class Clock(View):
    """A silent view that notes which slot ran what, and when it ended."""

    def __init__(self, config: StudyConfig) -> None:
        super().__init__(config, Console(quiet=True))
        self.slots: dict[int, list[Done]] = {}

    def ended(self, spec: TrialSpec, name: str, outcome: str, result: dict[str, Any]) -> None:
        super().ended(spec, name, outcome, result)
        self.slots.setdefault(result["pid"], []).append((time.perf_counter(), spec, result["epoch"]))


def study(folder: str, trials: int) -> Clock:
    from study.run import run_study

    changes = {"losses": ["contrastive", "multi_similarity"], "protocols": ["fixed_validation"], "search_trials": trials // 2, "seeds": 1}
    config = make(quickstart() | changes | {"baselines": False, "slots": SLOTS, "studies": folder})
    clock = Clock(config)
    run_study(config, view=clock)
    return clock


def bare(work: list[tuple[TrialSpec, int]], barrier: Barrier, answers: Queue[float]) -> None:
    from trainables.datasets.pixels import load
    from trainables.learner import Learner
    from trainables.process import settle

    settle()
    data = load(work[0][0].origin, work[0][0].look.cache_size)
    Learner(work[0][0], data).epoch()  # warms up
    barrier.wait()
    began = time.perf_counter()
    for spec, epochs in work:
        learner = Learner(spec, data)
        for _ in range(epochs):
            learner.epoch()
        if spec.phase == "final":
            learner.read_test()
    answers.put(time.perf_counter() - began)


def bare_seconds(slots: list[list[Done]]) -> float:
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(len(slots)), context.Queue()
    work = [[(spec, epochs) for _, spec, epochs in done[1:]] for done in slots]
    workers = [context.Process(target=bare, args=(part, barrier, answers)) for part in work]
    for worker in workers:
        worker.start()
    seconds = sum(answers.get() for _ in workers)
    for worker in workers:
        worker.join()
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=24, help="search trials")
    trials = parser.parse_args().trials
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        clock = study(folder, trials)
    slots = [done for done in clock.slots.values() if len(done) > 1]
    in_study = sum(done[-1][0] - done[0][0] for done in slots)
    in_bare = bare_seconds(slots)
    later = [each for done in slots for each in done[1:]]
    rows = {
        "until both slots had ended their first trial": f"{max(done[0][0] for done in slots) - began:.1f} s",
        f"then {len(later)} trials, {sum(epochs for _, _, epochs in later)} epochs in the study": f"{in_study:.1f} slot-seconds",
        f"the same in {len(slots)} bare processes": f"{in_bare:.1f} slot-seconds",
        "ratio": f"{in_study / in_bare:.2f}",
    }
    for what, value in rows.items():
        print(f"{what:<48}{value:>22}")


if __name__ == "__main__":
    main()
