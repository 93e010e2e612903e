"""Log networks to MLflow in a process that is warm by then, while the study itself shuts down."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from analysis.record.commands import resuming
from analysis.record.frames import read_record
from analysis.record.trial_id import TrialId
from analysis.report.page_process import PageProcess
from analysis.tracking import TrackingError
from analysis.tracking.models import Which, log_models, networks

# What logging a network needs and takes seconds to import; the driver does without torch.
LIBRARIES = ("torch.onnx", "mlflow.onnx", "onnx", "trainables.outputs.exporting")


class ModelProcess(PageProcess):
    """Start a process that imports what it needs, and ask it for the networks of one study."""

    module = __name__

    def offer(self, uri: str, folder: Path, losses: Collection[str]) -> None:
        """Ask for the best networks of these losses while the study runs; without an answer."""
        if self._process and self._pipe and self._process.poll() is None:
            with suppress(OSError):
                self._pipe.send((Path.cwd(), uri, folder, "best", sorted(losses)))

    def ask_models(self, uri: str, folder: Path, which: Which) -> None:
        """Ask for the networks of a study that MLflow has in full; without waiting."""
        self._send((Path.cwd(), uri, folder, which, None))

    def missing(self, uri: str, folder: Path, which: Which) -> str:
        """Wait for the networks, and return what MLflow lacks. Log them here if nobody else has."""
        if self._asked and self._pipe:
            with suppress(Exception):  # it failed or died
                return str(self._pipe.recv())
        return log_here(uri, folder, which)


def log_here(uri: str, folder: Path, which: Which, losses: Collection[str] | None = None) -> str:
    """Log the networks of a study, or of some losses; return what MLflow lacks and why."""
    if which == "none":
        return ""
    try:
        rows = read_record(folder, queries=False)
        runs = networks(rows, which)
        if losses is not None:
            runs = [run for run in runs if TrialId.parse(run).cell.loss in losses]
        log_models(uri, rows, runs)
    except TrackingError as error:
        return f"{error}; `{resuming(folder)}` makes them"
    return ""


def serve(driver: Connection) -> None:
    """Log the networks that the driver asks for, until it asks for all. Nobody asks: end with it.

    A network whose run MLflow does not have yet is logged the next time.
    """
    os.nice(10)  # trials go first
    for name in LIBRARIES:
        import_module(name)
    losses: Collection[str] | None = ()
    while losses is not None:
        try:
            here, uri, folder, which, losses = driver.recv()
        except EOFError:
            return
        os.chdir(here)
        missing = log_here(uri, folder, which, losses)
    driver.send(missing)


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
