"""Measure the framework's overhead: studies against bare processes, warm starts against naive ones.

Cost: the study is a real one: HyperOpt proposes, ASHA stops, every epoch is checkpointed and
written to MLflow. A slot's clock runs from the end of its first trial to the end of its last. Bare
processes then train exactly what the slots trained in that time: the same settings for the same
epochs with the same Learner. They import everything and load the data before their clock starts.
Two slots of one worker are compared with two processes, one slot of two workers with two processes
that train by DDP. The ratio is of slot-seconds. Where slots have every core, the driver and Ray's
own processes take time from them, so the benchmark prints their core-seconds too.

Start: trials of one epoch run one after the other. The time from the end of a trial to the end of
the next, without the seconds of its epoch, is what it takes to get a trial to its first step and
back. Warm is what a study does; naive starts an actor for each trial, and with two workers a whole
Ray Train run inside it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
from ray.tune.experiment import Trial
from rich.console import Console

import study.driver.study_run
from study.config.plan import expand
from study.config.study_config import make
from study.driver.tune_callback import TuneCallback
from study.presets import quickstart
from study.view.live_view import LiveView
from trainables.contract import TrialSpec

Done = tuple[float, TrialSpec, int]  # when it ended, what it was, how many epochs it ran
ROW = "{:<66}{:>22}"


class Clock:
    """Record which slot ran what, when it ended, and how long its last epoch took."""

    def __init__(self) -> None:
        self.slots: dict[int, list[Done]] = {}
        self.epoch_seconds: list[float] = []
        # Core-seconds of the driver and of Ray's processes, at the end of each trial.
        self.cores: list[tuple[float, float]] = []

    def ended(self, spec: TrialSpec, result: dict[str, Any]) -> None:
        self.slots.setdefault(result["pid"], []).append(
            (time.perf_counter(), spec, result["epoch"])
        )
        self.epoch_seconds.append(result["metrics"]["seconds"])
        self.cores.append(self._core_seconds())

    def _core_seconds(self) -> tuple[float, float]:
        me = psutil.Process()
        return _used(me), sum(
            _used(each) for each in me.children(recursive=True) if each.pid not in self.slots
        )

    def starts(self) -> list[float]:
        """Return the seconds that each trial but the first took beside its epoch."""
        ends = sorted(end for done in self.slots.values() for end, _, _ in done)
        return [
            b - a - seconds
            for (a, b), seconds in zip(pairwise(ends), self.epoch_seconds[1:], strict=True)
        ]


def _used(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended
        return 0.0
    return float(times.user + times.system)


def run(**changes: Any) -> Clock:
    base = {
        "losses": ["contrastive", "multi_similarity"],
        "protocols": ["fixed_validation"],
        "searches": 1,
        "baselines": False,
    }
    with tempfile.TemporaryDirectory() as folder:
        config = make(quickstart() | base | {"studies": folder} | changes)
        clock = Clock()

        class ClockedCallback(TuneCallback):
            def on_trial_complete(self, *args: Any, trial: Trial, **info: Any) -> None:
                super().on_trial_complete(*args, trial=trial, **info)
                clock.ended(trial.config["spec"], trial.last_result)

        view = LiveView(expand(config), Console(quiet=True))
        with mock.patch.object(study.driver.study_run, "TuneCallback", ClockedCallback):
            study.driver.study_run.run_study(config, view=view)
    return clock


def bare(rank: int, work: list[list[tuple[TrialSpec, int]]], workers: int, meeting: str) -> None:
    """Train in one process: its own part of the work, or its rank in all of it."""
    import torch.distributed as dist

    from trainables.datasets.pixels import load
    from trainables.distributed.process import prepare_process
    from trainables.distributed.team import ALONE, Team
    from trainables.training.learner import Learner

    prepare_process()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method=f"file://{meeting}/ranks", rank=rank, world_size=2)
    team = Team(rank, workers) if workers > 1 else ALONE
    mine = work[0] if workers > 1 else work[rank]
    data = load(mine[0][0].dataset_ref, mine[0][0].transform.cache_size)
    Learner(mine[0][0], data, team).epoch()  # warms up
    dist.barrier()
    began = time.perf_counter()
    for spec, epochs in mine:
        learner = Learner(spec, data, team)
        for _ in range(epochs):
            learner.epoch()
        if spec.phase == "final":
            learner.read_test()
    Path(meeting, f"seconds-{rank}").write_text(str(time.perf_counter() - began))


def bare_seconds(slots: list[list[Done]], workers: int) -> float:
    """Return the slot-seconds of the same trials in two bare processes."""
    from torch.multiprocessing import start_processes

    work = [[(spec, epochs) for _, spec, epochs in done[1:]] for done in slots]
    with tempfile.TemporaryDirectory() as meeting:
        start_processes(bare, args=(work, workers, meeting), nprocs=2, start_method="spawn")
        seconds = [float(Path(meeting, f"seconds-{rank}").read_text()) for rank in range(2)]
    return max(seconds) if workers > 1 else sum(seconds)


def cost(what: str, *, workers: int, trials: int) -> float:
    clock = run(workers=workers, slots=2 // workers, search_trials=trials // 2)
    slots = [done for done in clock.slots.values() if len(done) > 1]
    in_study = sum(done[-1][0] - done[0][0] for done in slots)
    in_bare = bare_seconds(slots, workers)
    later = [each for done in slots for each in done[1:]]
    print(
        ROW.format(
            f"{what}: {len(later)} trials, {sum(n for *_, n in later)} epochs in the study",
            f"{in_study:.1f} slot-seconds",
        )
    )
    print(
        ROW.format(
            "  the same in two bare processes" + " with DDP" * (workers > 1),
            f"{in_bare:.1f} slot-seconds",
        )
    )
    print(ROW.format("  ratio", f"{in_study / in_bare:.2f}"))
    driver, ray = (
        after - before
        for before, after in zip(clock.cores[len(slots) - 1], clock.cores[-1], strict=True)
    )
    print(
        ROW.format(
            "  beside the slots" + " and workers" * (workers > 1),
            f"driver {driver:.0f}, Ray {ray:.0f} s",
        ),
        flush=True,
    )
    return in_study / in_bare


def start(what: str, *, workers: int, warm: bool, trials: int) -> float:
    real = study.driver.study_run.tune.TuneConfig
    with ExitStack() as stack:
        if not warm:
            stack.enter_context(
                mock.patch.object(
                    study.driver.study_run.tune,
                    "TuneConfig",
                    lambda **o: real(**o | {"reuse_actors": False}),
                )
            )
        clock = run(
            workers=workers,
            slots=1,
            losses=["contrastive"],
            search_trials=trials,
            epochs=1,
            grace=1,
            steps_per_epoch=1,
        )
    starts = clock.starts()
    middle = statistics.median(starts)
    print(
        ROW.format(
            f"{what}, {len(starts)} trials",
            f"{middle:.2f} s ({min(starts):.2f} to {max(starts):.2f})",
        ),
        flush=True,
    )
    return middle


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--trials", type=int, default=24, help="search trials of a study whose cost is measured"
    )
    parser.add_argument(
        "--turns",
        type=int,
        default=3,
        help="studies whose cost is measured, each followed by its bare processes",
    )
    parser.add_argument(
        "--workers", type=int, choices=[1, 2], help="only slots of so many workers; default: both"
    )
    parser.add_argument("--part", choices=["cost", "start"], help="default: both")
    chosen = parser.parse_args()
    sizes = [chosen.workers] if chosen.workers else [1, 2]
    print(f"Load of the machine before: {os.getloadavg()[0]:.1f}")
    if chosen.part != "start":
        print("Cost, after a slot's first trial")
        for workers in sizes:
            what = ("two slots of one worker", "one slot of two workers")[workers - 1]
            ratios = [
                cost(what, workers=workers, trials=chosen.trials) for _ in range(chosen.turns)
            ]
            spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
            print(ROW.format(f"{what}: median ratio, turns: {chosen.turns}", spread), flush=True)
    if chosen.part != "cost":
        print("Start of a further trial, median and range")
        for workers in sizes:
            kind, naive = (("slot", "a fresh actor"), ("group", "a fresh actor and TorchTrainer"))[
                workers - 1
            ]
            warm = start(f"workers: {workers}, warm {kind}", workers=workers, warm=True, trials=12)
            cold = start(
                f"workers: {workers}, {naive} per trial", workers=workers, warm=False, trials=4
            )
            print(ROW.format("  naive / warm", f"{cold / warm:.0f}"), flush=True)


if __name__ == "__main__":
    main()
