"""Run the command line with workers that fail as a plan says.

python faulty_driver.py PLAN.json MARKS run CONFIG.yaml ...: PLAN is a list of {"trial", "epoch",
"do"}; each fault happens once and leaves a file in the folder MARKS.
"""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from ray import cloudpickle

import study.driver.study_run
from study.__main__ import app
from trainables.outputs.checkpoints import HashingFile
from trainables.workers.slot import Slot
from trainables.workers.worker import Worker


def planned_slot(plan: list[dict[str, Any]], marks: str) -> type[Slot]:
    """Return a Slot whose workers fail as the plan says."""

    def due(worker: Worker, moment: str) -> str:
        """Return the fault that is due now, if any, and mark it as done."""
        reached = len(worker.learner.rows)
        for i, fault in enumerate(plan):
            mark = Path(marks, str(i))
            is_now = (
                fault["trial"] in (f"{worker.spec.phase}-{worker.spec.seed}", worker.spec.phase)
                and fault["epoch"] == reached
            )
            if (
                is_now
                and fault.get("at", "step") == moment
                and fault.get("rank", 0) == worker.team.rank
                and not mark.exists()
            ):
                mark.touch()
                return str(fault["do"])
        return ""

    def unmark(what: str) -> None:
        Path(marks, str([fault["do"] for fault in plan].index(what))).unlink()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    class Planned(Worker):
        def step(self) -> dict[str, Any]:
            what = due(self, "step")
            if what == "sigkill":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "sigstop":  # as a process that hangs, whatever it hangs in
                os.kill(os.getpid(), signal.SIGSTOP)
            if what == "stall":
                unmark("stall")  # it hangs again when it is tried again
                time.sleep(3600)
            if what == "nan":
                self.learner.fits[0].train_epoch = lambda number: math.nan  # type: ignore[method-assign]
            if what == "oserror":
                raise OSError("a switch was turned off")
            if what == "fail":
                unmark("fail")  # it fails again when it is tried again
                raise RuntimeError("broken on purpose")
            return super().step()

        def save(self, folder: str) -> None:
            what = due(self, "save")
            if what == "enospc":
                HashingFile._write = full  # type: ignore[method-assign]
            super().save(folder)
            if what == "sigkill":  # while the checkpoint is being written
                os.kill(os.getpid(), signal.SIGKILL)

    class PlannedSlot(Slot):
        kind = Planned

    return PlannedSlot


def main() -> None:
    plan, marks, *words = sys.argv[1:]
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    study.driver.study_run.Slot = planned_slot(json.loads(Path(plan).read_text()), marks)  # type: ignore[misc]
    app(words)


if __name__ == "__main__":
    main()
