"""Measure how an MLflow outage slows training: the server is healthy, killed or slow.

The server is a real `mlflow server` on SQLite. It runs at the lowest priority, so that it takes
little from the slot, as if it ran elsewhere. Killed: it is killed when the slot's first trial ends,
and started again after nine of ten epochs. Slow: from the end of the first trial on it is suspended
for eight seconds of every ten. Pace is epochs per second by the times of the ledger's rows, from
the end of the first trial to the last row; between two epochs the driver records the first and
checkpoints. All studies have the same seed, one slot and no early stopping, so they train the same.
They take turns, and a ratio is to the healthy server of the same round. In the end every run must
have every step of the ledger once.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from analysis.record.ledger import LedgerReader
from analysis.record.state import StudyState
from study.config.plan import expand
from study.config.study_config import StudyConfig, make
from study.presets import quickstart

ROW = "{:<10}{:>26}{:>26}{:>26}"
SUSPENDED, ANSWERS = 8.0, 2.0  # seconds of a slow server, in turns
LATE = 0.9  # share of the epochs after which a killed server comes back


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """Run a real `mlflow server` that can be killed and started again.

    before: the start of its command line, such as nice.
    """

    def __init__(self, store: str, folder: Path, *before: str) -> None:
        self.store, self.folder, self.before, self.port = store, folder, before, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        words = [
            "server",
            "--backend-store-uri",
            self.store,
            "--artifacts-destination",
            str(self.folder),
            "--host",
            "127.0.0.1",
        ]
        words += ["--port", str(self.port), "--workers", "1"]
        command = [*self.before, sys.executable, "-m", "mlflow", *words]
        environment = {
            **os.environ,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        nothing = subprocess.DEVNULL
        self.process = subprocess.Popen(
            command, env=environment, start_new_session=True, stdout=nothing, stderr=nothing
        )
        deadline = time.monotonic() + 240
        while True:
            with suppress(OSError):
                urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
                return
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the server did not come up"
            time.sleep(0.3)

    def send(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait()


class Pace(NamedTuple):
    """Hold the pace of a study after its first trial."""

    epochs: float  # per second
    between: float  # milliseconds from an epoch of a trial to its next, median


class Progress:
    """Read the ledger of a study while another thread runs it."""

    def __init__(self, config: StudyConfig) -> None:
        self.folder = Path(config.studies) / config.name
        self.epochs = (config.search_trials + config.reproductions) * config.epochs

    def state(self) -> StudyState:
        return StudyState(LedgerReader(self.folder).read())

    def started(self) -> bool:
        return self.state().ended > 0

    def over(self, share: float = 1.0) -> bool:
        return self.state().epochs >= share * self.epochs

    def pace(self) -> Pace:
        trials = self.state().trials.values()
        began = min(trial.ended.at for trial in trials if trial.ended)
        later = [[row for row in trial.rows if row.at > began] for trial in trials]
        between = [
            b.at - a.at - 1000 * b.metrics["seconds"] for rows in later for a, b in pairwise(rows)
        ]
        last = max(row.at for rows in later for row in rows)
        return Pace(1000 * sum(map(len, later)) / (last - began), statistics.median(between))


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.5)


def healthy(server: Server, progress: Progress) -> None:
    until(progress.over)


def killed(server: Server, progress: Progress) -> None:
    until(progress.started)
    server.kill()
    until(lambda: progress.over(LATE))
    server.start()


def slow(server: Server, progress: Progress) -> None:
    until(progress.started)
    while not progress.over():
        server.send(signal.SIGSTOP)
        time.sleep(SUSPENDED)
        server.send(signal.SIGCONT)
        time.sleep(ANSWERS)


def run(config: StudyConfig, server: Server, outage: Callable[[Server, Progress], None]) -> Pace:
    from rich.console import Console

    from study.driver.study_run import run_study
    from study.view.live_view import LiveView

    progress = Progress(config)
    thread = threading.Thread(target=outage, args=(server, progress), daemon=True)
    thread.start()
    if run_study(config, view=LiveView(expand(config), Console(quiet=True))).interrupted:
        raise SystemExit("interrupted")
    thread.join()
    return progress.pace()


def check(config: StudyConfig) -> int:
    """Check that MLflow has each step of the ledger once, and return their number."""
    from analysis.tracking import open_store

    assert config.tracking_uri
    client = open_store(config.tracking_uri)
    experiment = client.get_experiment_by_name(config.name)
    assert experiment
    trials = Progress(config).state().trials
    wanted = {key: [row.epoch for row in trial.rows] for key, trial in trials.items()}
    found = {}
    for trial in client.search_runs([experiment.experiment_id], "tags.kind = 'trial'"):
        assert trial.info.status == "FINISHED", trial.info.status
        steps = [point.step for point in client.get_metric_history(trial.info.run_id, "seconds")]
        found[f"{trial.data.tags['cell']}/{trial.data.tags['trial']}"] = sorted(steps)
    assert found == wanted, "MLflow has each step of the ledger, once"
    return sum(map(len, found.values()))


def study(folder: Path, uri: str, name: str, trials: int) -> StudyConfig:
    cell = {
        "losses": ["contrastive"],
        "protocols": ["fixed_validation"],
        "baselines": False,
        "slots": 1,
        "strategy": "random",
    }
    budget = {
        "search_trials": trials,
        "searches": 1,
        "epochs": 8,
        "grace": 8,
        "steps_per_epoch": 10,
    }
    return make(
        quickstart() | cell | budget | {"studies": str(folder), "tracking_uri": uri, "name": name}
    )


def spread(values: list[float], digits: int) -> str:
    low, middle, high = (
        f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values))
    )
    return f"{middle} ({low} to {high})"


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--trials", type=int, default=24, help="search trials of a study, of eight epochs each"
    )
    chosen = parser.parse_args()
    print(f"Load of the machine before: {os.getloadavg()[0]:.1f}", flush=True)
    paces: dict[str, list[Pace]] = {}
    steps = 0
    ray.init(
        address="local",
        num_cpus=1,
        log_to_driver=False,
        logging_level="ERROR",
        include_dashboard=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        server = Server(
            f"sqlite:///{folder}/mlflow.db", Path(folder, "artifacts"), "nice", "-n", "19"
        )
        try:
            for turn in range(chosen.rounds):
                for outage in (healthy, killed, slow):
                    config = study(
                        Path(folder), server.uri, f"{outage.__name__}-{turn}", chosen.trials
                    )
                    paces.setdefault(outage.__name__, []).append(run(config, server, outage))
                    steps += check(config)
        finally:
            server.kill()
            ray.shutdown()
    print(ROW.format("server", "epochs per second", "ratio to healthy", "ms between epochs"))
    for name, found in paces.items():
        ratios = [
            pace.epochs / usual.epochs for pace, usual in zip(found, paces["healthy"], strict=True)
        ]
        print(
            ROW.format(
                name,
                *(
                    spread(*each)
                    for each in (
                        ([p.epochs for p in found], 2),
                        (ratios, 3),
                        ([p.between for p in found], 0),
                    )
                ),
            )
        )
    print(f"median and range of {chosen.rounds} rounds; MLflow has each of {steps:,} steps, once")


if __name__ == "__main__":
    main()
