"""Start studies in processes of their own, wait for what their ledger says, and kill them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import psutil
import ray

from analysis.record.ledger import LedgerReader
from analysis.record.state import StudyState
from analysis.tracking.cursor import CURSOR
from study.config.study_config import StudyConfig, make
from study.driver.folder import config_yaml
from study.presets import SMOKE
from tests.support.studies import from_scratch
from tests.support.waiting import PATIENCE, await_that

HERE = Path(__file__).parent
StateTest = Callable[[StudyState], bool]
Plan = list[dict[str, Any]]


def small(folder: Path, name: str, **changes: Any) -> StudyConfig:
    """Return the configuration of a study with three search trials and one final trial."""
    usual = {
        "losses": ["contrastive"],
        "search_trials": 3,
        "searches": 1,
        "reproductions": 1,
        "epochs": 4,
        "grace": 1,
        "slots": 1,
        "baselines": False,
        "checkpoint_seconds": 1e-3,  # after every epoch
    }
    return make(from_scratch() | SMOKE | {"studies": str(folder), "name": name} | usual | changes)


def state_of(folder: Path) -> StudyState:
    return StudyState(LedgerReader(folder).read())


def rows(count: int) -> StateTest:
    """Return a test of a study's state: at least this many epochs are on record."""
    return lambda state: sum(len(trial.rows) for trial in state.trials.values()) >= count


def wait_for(folder: Path, holds: StateTest, unless: Callable[[], str] = lambda: "") -> None:
    """Wait until the test holds of a study's state; fail once `unless()` returns a reason."""
    await_that(lambda: holds(state_of(folder)), unless, lambda: folder)


class Driver:
    """Run the command line in a process of its own, on the shared Ray or on its own."""

    begun: ClassVar[list[Driver]] = []

    def __init__(
        self, config: StudyConfig, plan: Plan | None = None, *more: str, own_ray: bool = False
    ) -> None:
        self.folder = Path(config.studies) / config.name
        files = Path(config.studies) / f"files-{config.name}"
        (files / "marks").mkdir(parents=True, exist_ok=True)
        (files / "config.yaml").write_text(config_yaml(config))
        (files / "plan.json").write_text(json.dumps(plan or []))
        command = [
            sys.executable,
            str(HERE / "faulty_driver.py"),
            str(files / "plan.json"),
            str(files / "marks"),
        ]
        words = ["run", str(files / "config.yaml"), "--set", f"studies={config.studies}", *more]
        environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
        environment |= {"PYTHONPATH": os.pathsep.join(sys.path)}
        environment |= {} if own_ray else {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
        self.path = files / "log.txt"
        with self.path.open("a") as log:
            self.process = subprocess.Popen(
                [*command, *words], env=environment, stdout=log, stderr=log
            )
        Driver.begun.append(self)

    @property
    def log(self) -> str:
        return self.path.read_text()

    def until(self, holds: StateTest) -> Driver:
        """Wait until the test holds of its state."""
        wait_for(self.folder, holds, lambda: "" if self.process.poll() is None else self.log)
        return self

    def end(self, number: int = 0) -> int:
        """Send this signal, if any, and return the exit code."""
        if number:
            self.process.send_signal(number)
        return self.process.wait(timeout=PATIENCE)

    def end_with_its_ray(self) -> int:
        """Kill the driver and its Ray at once, as when a machine goes down."""
        family = psutil.Process(self.process.pid).children(recursive=True)
        assert {"raylet", "gcs_server"} <= {process.name() for process in family}
        code = self.end(9)
        for process in family:
            if process.is_running():
                process.kill()
        psutil.wait_procs(family, timeout=PATIENCE)
        return code

    @classmethod
    def end_all(cls) -> None:
        """End what a failed test left running, so that the next test finds the shared Ray free."""
        while cls.begun:
            if (driver := cls.begun.pop()).process.poll() is None:
                driver.end(signal.SIGKILL)


def spoil(folder: Path, keep: float) -> None:
    """Cut every state file beside the ledger to this share of its size, as a power loss may."""
    state = [
        path
        for kind in ("json", "pkl")
        for path in (folder / "ray").glob(f"*/*.{kind}")
        if path.is_file()
    ]
    for path in [*state, folder / CURSOR, folder / "config.yaml"]:
        if path.exists():
            path.write_bytes(path.read_bytes()[: int(keep * path.stat().st_size)])
