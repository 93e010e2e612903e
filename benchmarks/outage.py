"""What training notices of an MLflow that is away: the pace of the same study with a server that is well, killed, and slow.

A real `mlflow server` on SQLite, at the lowest priority so that its own work takes little from the slot: it stands for one elsewhere.
Killed: from the end of the slot's first trial until nine of ten epochs are done, then it is started again. Slow: from there on it stands
still for eight seconds of every ten. Pace is epochs per second by the times of the ledger's rows, from the end of the first trial to the
last row; between two epochs of a trial the driver hears of the first, writes it down, and has a checkpoint made. All studies have the same
seed, one slot and no early stopping, so they train the same; they take turns, and a ratio is to the well one of the same round. In the
end every run must have every step that the ledger has, once.
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

from study.config import StudyConfig, make
from study.ledger import events
from study.presets import quickstart

ROW = "{:<10}{:>26}{:>26}{:>26}"
STANDS, ANSWERS = 8.0, 2.0  # seconds of a slow server
LATE = 0.9  # share of the epochs after which a killed server comes back


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A real `mlflow server`, to be killed and brought back. before: words to start it with, such as nice."""

    def __init__(self, store: str, folder: Path, *before: str) -> None:
        self.store, self.folder, self.before, self.port = store, folder, before, free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        words = ["server", "--backend-store-uri", self.store, "--artifacts-destination", str(self.folder), "--host", "127.0.0.1"]
        words += ["--port", str(self.port), "--workers", "1"]
        command = [*self.before, sys.executable, "-m", "mlflow", *words]
        environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        nothing = subprocess.DEVNULL
        self.process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=nothing, stderr=nothing)
        deadline = time.monotonic() + 240
        while True:
            with suppress(OSError):
                urllib.request.urlopen(f"{self.uri}/health", timeout=1).close()
                return
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < deadline, "the server did not come up"
            time.sleep(0.3)

    def tell(self, number: int) -> None:
        os.killpg(self.process.pid, number)

    def kill(self) -> None:
        self.tell(signal.SIGKILL)
        self.process.wait()


class Pace(NamedTuple):
    """After the first trial."""

    epochs: float  # per second
    between: float  # milliseconds from an epoch of a trial to its next, median


class Progress:
    """What the ledger of a study tells while another thread runs it."""

    def __init__(self, config: StudyConfig) -> None:
        self.folder = Path(config.studies) / config.name
        self.epochs = (config.search_trials + config.reproductions) * config.epochs

    def started(self) -> bool:
        return any(event["event"] == "end" for event in events(self.folder))

    def over(self, share: float = 1.0) -> bool:
        return sum(event["event"] == "row" for event in events(self.folder)) >= share * self.epochs

    def pace(self) -> Pace:
        told = events(self.folder)
        began = next(event["at"] for event in told if event["event"] == "end")
        rows = [event for event in told if event["event"] == "row" and event["at"] > began]
        pairs = [(a, b) for a, b in pairwise(rows) if a["key"] == b["key"]]
        between = [b["at"] - a["at"] - 1000 * b["metrics"]["seconds"] for a, b in pairs]
        return Pace(1000 * len(rows) / (rows[-1]["at"] - began), statistics.median(between))


def until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.5)


def well(server: Server, progress: Progress) -> None:
    until(progress.over)


def killed(server: Server, progress: Progress) -> None:
    until(progress.started)
    server.kill()
    until(lambda: progress.over(LATE))
    server.start()


def slow(server: Server, progress: Progress) -> None:
    until(progress.started)
    while not progress.over():
        server.tell(signal.SIGSTOP)
        time.sleep(STANDS)
        server.tell(signal.SIGCONT)
        time.sleep(ANSWERS)


def run(config: StudyConfig, server: Server, befalls: Callable[[Server, Progress], None]) -> Pace:
    from rich.console import Console

    from study.live import View
    from study.run import run_study

    progress = Progress(config)
    thread = threading.Thread(target=befalls, args=(server, progress), daemon=True)
    thread.start()
    if run_study(config, view=View(config, Console(quiet=True))).interrupted:
        raise SystemExit("interrupted")
    thread.join()
    return progress.pace()


def check(config: StudyConfig) -> int:
    """How many steps MLflow has, each once: those of the ledger."""
    from analysis.tracking import open_store

    assert config.tracking_uri
    client = open_store(config.tracking_uri)
    experiment = client.get_experiment_by_name(config.name)
    assert experiment
    wanted: dict[str, list[int]] = {}
    for event in events(Path(config.studies) / config.name):
        if event["event"] == "row":
            wanted.setdefault(event["key"], []).append(event["epoch"])
    found = {}
    for trial in client.search_runs([experiment.experiment_id], "tags.kind = 'trial'"):
        assert trial.info.status == "FINISHED", trial.info.status
        steps = [point.step for point in client.get_metric_history(trial.info.run_id, "seconds")]
        found[f"{trial.data.tags['cell']}/{trial.data.tags['trial']}"] = sorted(steps)
    assert found == wanted, "MLflow has each step of the ledger, once"
    return sum(map(len, found.values()))


def study(folder: Path, uri: str, name: str, trials: int) -> StudyConfig:
    cell = {"losses": ["contrastive"], "protocols": ["fixed_validation"], "baselines": False, "slots": 1, "strategy": "random"}
    budget = {"search_trials": trials, "reproductions": 1, "epochs": 8, "grace": 8, "steps_per_epoch": 10}
    return make(quickstart() | cell | budget | {"studies": str(folder), "tracking_uri": uri, "name": name})


def spread(values: list[float], digits: int) -> str:
    low, middle, high = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def main() -> None:
    import ray

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=24, help="search trials of a study, of eight epochs each")
    chosen = parser.parse_args()
    print(f"Load of the machine before: {os.getloadavg()[0]:.1f}", flush=True)
    paces: dict[str, list[Pace]] = {}
    steps = 0
    ray.init(address="local", num_cpus=1, log_to_driver=False, logging_level="ERROR", include_dashboard=False)
    with tempfile.TemporaryDirectory() as place:
        server = Server(f"sqlite:///{place}/mlflow.db", Path(place, "artifacts"), "nice", "-n", "19")
        try:
            for turn in range(chosen.rounds):
                for befalls in (well, killed, slow):
                    config = study(Path(place), server.uri, f"{befalls.__name__}-{turn}", chosen.trials)
                    paces.setdefault(befalls.__name__, []).append(run(config, server, befalls))
                    steps += check(config)
        finally:
            server.kill()
            ray.shutdown()
    print(ROW.format("server", "epochs per second", "ratio to well", "ms between epochs"))
    for name, found in paces.items():
        ratios = [pace.epochs / usual.epochs for pace, usual in zip(found, paces["well"], strict=True)]
        print(ROW.format(name, *(spread(*each) for each in (([p.epochs for p in found], 2), (ratios, 3), ([p.between for p in found], 0)))))
    print(f"median and range of {chosen.rounds} rounds; MLflow has each of {steps:,} steps, once")


if __name__ == "__main__":
    main()
