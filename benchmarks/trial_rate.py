"""Measure how many trials a second go through two slots when a trial's own work is 0.1 s.

The study is a real one on local Ray: its searcher, early stopping, ledger, checkpoints and mirror
to MLflow are those of every study. Only the worker pretends: it sleeps where others train, so the
study's own time is what is measured. The start of a further trial is the time from a trial's end
to the end of its slot's next trial, without the pretended work of that one. `--profile` lists
where the driver's main thread and a slot spend their time.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import psutil
from ray import cloudpickle, tune
from ray.tune.experiment import Trial
from rich.console import Console

import study.driver.study_run
from study.config.plan import expand
from study.config.study_config import make
from study.driver.tune_callback import TuneCallback
from study.presets import quickstart
from study.view.live_view import LiveView
from trainables.contract import EpochRow, TrialSpec
from trainables.workers.slot import Slot
from trainables.workers.worker import Worker, as_result

EPOCHS = 4
ROW = "{:<66}{:>22}"


class Pretender(Worker):
    """Sleep for a trial's work, and return results as a worker that trains does."""

    seconds = 0.1  # of a whole trial

    def begin(self, spec: TrialSpec) -> None:
        super().begin(spec)
        self.rows: list[EpochRow] = []

    def step(self) -> dict[str, Any]:
        spec, number = self.spec, len(self.rows) + 1
        each = self.seconds / spec.training.epochs
        time.sleep(each)
        score = 0.5 + 0.01 * number
        row = EpochRow(
            epoch=number,
            loss=1 / number,
            select={spec.training.select_metric: score},
            folds=({spec.training.select_metric: score},),
            best=score,
            best_epochs=(number,),
            seconds=each,
            done=number == spec.training.epochs,
        )
        self.rows.append(row)
        return as_result(row)


class PretendedSlot(Slot):
    kind = Pretender


class ProfiledSlot(PretendedSlot):
    """Write a profile of everything that a slot does between two calls of Tune."""

    folder = ""

    def setup(self, config: dict[str, Any], **more: Any) -> None:
        self.profile = cProfile.Profile()
        super().setup(config, **more)

    def _profiled(self, call: Any, *words: Any) -> Any:
        self.profile.enable()
        try:
            return call(*words)
        finally:
            self.profile.disable()
            self.profile.dump_stats(f"{self.folder}/slot-{os.getpid()}.prof")

    def train(self) -> Any:
        return self._profiled(super().train)

    def save(self, checkpoint_dir: str | None = None) -> Any:
        return self._profiled(super().save, checkpoint_dir)

    def reset(self, new_config: Any, *words: Any, **more: Any) -> Any:
        return self._profiled(lambda: super(ProfiledSlot, self).reset(new_config, *words, **more))


class Clock(TuneCallback):
    """Note when each slot ended a trial, and what the study's processes had used by then."""

    ends: dict[int, list[float]]
    used: list[tuple[float, float, float]]  # driver, slots, the rest of Ray: core-seconds

    def on_trial_complete(self, *words: Any, trial: Trial, **info: Any) -> None:
        super().on_trial_complete(*words, trial=trial, **info)
        self.ends.setdefault(trial.last_result["pid"], []).append(time.perf_counter())
        if sum(map(len, self.ends.values())) in (self.first, self.last):
            self.used.append(self._core_seconds())

    def _core_seconds(self) -> tuple[float, float, float]:
        me = psutil.Process()
        family = me.children(recursive=True)
        slots = sum(_used(each) for each in family if each.pid in self.ends)
        return _used(me), slots, sum(_used(each) for each in family) - slots

    first = last = 0


def _used(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.Error:  # it has ended
        return 0.0
    return float(times.user + times.system)


def run(folder: Path, *, trials: int, seconds: float, slots: int, profile: bool) -> Clock:
    """Run the study, and return what its clock noted from the fifth trial of a search on."""
    config = make(
        quickstart()
        | {
            "studies": str(folder),
            "losses": ["contrastive", "multi_similarity"],
            "protocols": ["fixed_validation"],
            "strategy": "random",
            "searches": 1,
            "search_trials": trials // 2,
            "reproductions": 1,
            "epochs": EPOCHS,
            "grace": EPOCHS,
            "baselines": False,
            "slots": slots,
        }
    )
    clocks: list[Clock] = []

    class Study(Clock):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.ends, self.used = {}, []
            self.first, self.last = 2 * slots, trials
            clocks.append(self)

        @property
        def over(self) -> bool:
            return sum(map(len, self.ends.values())) >= trials

    class Ends(study.driver.study_run._Ends):
        """End the study before its final trials: the pretender has no artifacts."""

        def stop_all(self) -> bool:
            return clocks[0].over or super().stop_all()

    class Pace(ProfiledSlot if profile else PretendedSlot):  # type: ignore[misc]
        pass

    Pace.kind = type("Pace", (Pretender,), {"seconds": seconds})
    Pace.folder = str(folder)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    view = LiveView(expand(config), Console(quiet=True))
    driver = cProfile.Profile()
    real = tune.Tuner.fit

    def fit(tuner: tune.Tuner) -> Any:
        with driver if profile else nullcontext():
            return real(tuner)

    with (
        mock.patch.multiple(study.driver.study_run, TuneCallback=Study, Slot=Pace, _Ends=Ends),
        mock.patch.object(tune.Tuner, "fit", fit),
    ):
        study.driver.study_run.run_study(config, view=view)
    if profile:
        driver.dump_stats(folder / "driver.prof")
    return clocks[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=0.1, help="of a trial's own work")
    parser.add_argument("--slots", type=int, default=2)
    parser.add_argument("--profile", action="store_true", help="slows the study down")
    chosen = parser.parse_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start", flush=True)
    with tempfile.TemporaryDirectory() as place:
        clock = run(
            Path(place),
            trials=chosen.trials,
            seconds=chosen.seconds,
            slots=chosen.slots,
            profile=chosen.profile,
        )
        ends = sorted(end for mine in clock.ends.values() for end in mine)[2 * chosen.slots - 1 :]
        wall, count = ends[-1] - ends[0], len(ends) - 1
        starts = [b - a - chosen.seconds for e in clock.ends.values() for a, b in pairwise(e[2:])]
        print(
            ROW.format(
                f"{count} trials of {chosen.seconds:g} s, {chosen.slots} slots: trials a second",
                f"{count / wall:.1f}",
            )
        )
        print(
            ROW.format(
                "  a further trial starts in: median (quartiles)",
                "{1:.3f} ({0:.3f} to {2:.3f}) s".format(*statistics.quantiles(starts, n=4)),
            )
        )
        for name, before, after in zip(
            ("driver", "slots", "rest of Ray"), *clock.used, strict=True
        ):
            each = 1000 * (after - before) / count
            print(ROW.format(f"  core-milliseconds of a trial, {name}", f"{each:.0f}"))
        print(f"load {os.getloadavg()[0]:.1f} at the end", flush=True)
        for path in sorted(Path(place).glob("*.prof")):
            print(f"\n{path.stem}")
            pstats.Stats(str(path)).sort_stats("cumulative").print_stats(45)


if __name__ == "__main__":
    main()
