"""A driver for tests to kill: runs a study on the Ray that it finds, with workers that fail as a plan says.

python driver.py CONFIG.yaml PLAN.json MARKS [--resume]: PLAN is a list of {"trial", "epoch", "do"}; each happens once, and leaves a mark.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle

import study.run
from study.config import make
from study.sources import read_yaml
from trainables.learner import Learner
from trainables.slot import Slot
from trainables.worker import Worker


def planned_slot(plan: list[dict[str, Any]], marks: str) -> type[Slot]:
    def due(worker: Worker, moment: str) -> str:
        """What is to happen now, once."""
        reached = len(worker.learner.rows)
        for i, fault in enumerate(plan):
            mark = Path(marks, str(i))
            here = fault["trial"] in (f"{worker.spec.phase}-{worker.spec.seed}", worker.spec.phase) and fault["epoch"] == reached
            if here and fault.get("at", "step") == moment and fault.get("rank", 0) == worker.team.rank and not mark.exists():
                mark.touch()
                return str(fault["do"])
        return ""

    class Planned(Worker):
        def step(self) -> dict[str, Any]:
            what = due(self, "step")
            if what == "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "nan":
                self.learner.fits[0].train_epoch = lambda number: math.nan  # type: ignore[method-assign]
            if what == "oserror":
                raise OSError("a switch was turned off")
            return super().step()

        def save(self) -> dict[str, Any]:
            what = due(self, "save")
            if what == "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "enospc":
                Path(marks, str(next(i for i, fault in enumerate(plan) if fault["do"] == "enospc"))).unlink()  # a full disk stays full
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "state.pt")
            return super().save()

        def build(self) -> Learner:
            return super().build()

    class PlannedSlot(Slot):
        kind = Planned

    return PlannedSlot


def main() -> None:
    config, plan, marks = sys.argv[1:4]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    study.run.Slot = planned_slot(json.loads(Path(plan).read_text()), marks)  # type: ignore[misc]
    if address := os.environ.get("RAY_ADDRESS"):
        ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    done = study.run.run_study(make(read_yaml(Path(config))), resume="--resume" in sys.argv)
    sys.exit(128 + done.signal if done.signal else 4 if done.no_room else 130 if done.interrupted else 3 if done.failed else 0)


if __name__ == "__main__":
    main()
