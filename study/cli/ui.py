"""fairtrial ui: open MLflow's own pages on this machine's store."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

import typer

from study.cli.terminal import FAIRTRIAL, Studies, one_sentence
from study.driver.folder import embedded_uri

HOST = "127.0.0.1"
APP = "fairtrial"  # MLflow's app with our choices: analysis/tracking/mlflow_app.py
# Of the server. It would also start six processes for jobs that no study has.
QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
}
ASKING = 0.2  # seconds between two questions whether the server answers


def ui(
    studies: Studies = "studies",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
    browser: Annotated[
        bool, typer.Option(help="open a browser window as soon as MLflow answers")
    ] = True,
) -> None:
    """Open MLflow's UI on 127.0.0.1: every study, cell and trial. Ctrl-C ends it."""
    with one_sentence():
        if not (Path(studies) / "mlflow.db").exists():
            raise ValueError(
                f"{studies} holds no MLflow store yet; `fairtrial run quickstart` makes one."
            )
        if _taken(port):
            raise ValueError(f"Port {port} is in use; choose another with --port.")
    uri, address = embedded_uri(Path(studies)), f"http://{HOST}:{port}"
    print(f"Starting MLflow on {address} (Ctrl-C ends it)", flush=True)
    # MLflow starts helpers of its own: a group, so that ending this ends them all.
    server = subprocess.Popen(
        _command(uri, port), env={**QUIET, **os.environ}, start_new_session=True
    )
    threading.Thread(
        target=_announce, args=(server, address), kwargs={"browser": browser}, daemon=True
    ).start()
    # SIGHUP: the terminal is gone, as when ssh drops. Not SIGINT's own handler, which background
    # jobs of a script ignore.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        _say_what_has_moved(uri)
        code = server.wait()
    except KeyboardInterrupt:
        code = 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
    raise typer.Exit(code)


def _command(uri: str, port: int) -> list[str]:
    """Return the command that serves a store to one user."""
    known = entry_points(group="mlflow.app", name=APP)
    return [
        *(sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri),
        *("--host", HOST, "--port", str(port), "--workers", "1"),
        *("--uvicorn-opts", "--log-level=warning"),
        *(["--app-name", APP] if known else []),  # a copy that was never installed lacks it
    ]


def _announce(server: subprocess.Popen[bytes], address: str, *, browser: bool) -> None:
    """Wait until the server answers, then say so and open the browser."""
    while server.poll() is None:
        with suppress(OSError), urllib.request.urlopen(f"{address}/health", timeout=5):
            print(f"MLflow answers on {address}", flush=True)
            if browser:
                webbrowser.open(address)
            return
        time.sleep(ASKING)


def _say_what_has_moved(uri: str) -> None:
    from analysis.tracking import TrackingError, moved_studies

    with suppress(TrackingError):  # the server says so itself
        if moved := moved_studies(uri):
            print(
                f"The studies folder has moved, so MLflow does not find the files of "
                f"{', '.join(moved)}; `{FAIRTRIAL} reap` writes them again.",
                flush=True,
            )


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
