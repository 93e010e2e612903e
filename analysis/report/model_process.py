"""Log networks to MLflow in a process that is warm by then, while the study itself shuts down."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from analysis.record.frames import read_record
from analysis.report.page_process import PageProcess
from analysis.tracking import TrackingError
from analysis.tracking.models import Which, log_models, networks

# What logging a network needs and takes seconds to import; the driver does without torch.
LIBRARIES = ("torch.onnx", "mlflow.onnx", "onnx", "trainables.outputs.exporting")


class ModelProcess(PageProcess):
    """Start a process that imports what it needs, and ask it for the networks of one study."""

    module = __name__

    def ask_models(self, uri: str, folder: Path, which: Which) -> None:
        """Ask for the networks of a study that MLflow has in full; without waiting."""
        self._send((Path.cwd(), uri, folder, which))

    def missing(self, uri: str, folder: Path, which: Which) -> str:
        """Wait for the networks, and return what MLflow lacks. Log them here if nobody else has."""
        if self._asked and self._pipe:
            with suppress(Exception):  # it failed or died
                return str(self._pipe.recv())
        return log_here(uri, folder, which)


def log_here(uri: str, folder: Path, which: Which) -> str:
    """Log the networks of a study, and return what MLflow lacks and why."""
    if which == "none":
        return ""
    try:
        rows = read_record(folder)
        log_models(uri, rows, networks(rows, which))
    except TrackingError as error:
        return str(error)
    return ""


def serve(driver: Connection) -> None:
    """Log the networks of one study. Nobody asks: end with the driver."""
    os.nice(10)  # trials go first
    for name in LIBRARIES:
        import_module(name)
    try:
        here, uri, folder, which = driver.recv()
    except EOFError:
        return
    os.chdir(here)
    driver.send(log_here(uri, folder, which))


if __name__ == "__main__":
    serve(Connection(int(sys.argv[1])))
