"""fairtrial ui: open MLflow's own pages on this machine's store."""

import os
import signal
import socket
import subprocess
import sys
import threading
import webbrowser
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from study.cli.terminal import FAIRTRIAL, Studies, one_sentence
from study.driver.folder import embedded_uri

HOST = "127.0.0.1"


def ui(
    studies: Studies = "studies",
    port: Annotated[int, typer.Option(min=1, max=65535)] = 5000,
    browser: Annotated[bool, typer.Option(help="open a browser window")] = True,
) -> None:
    """Open MLflow's UI on 127.0.0.1: every study, cell and trial. Ctrl-C ends it."""
    with one_sentence():
        if not (Path(studies) / "mlflow.db").exists():
            raise ValueError(
                f"{studies} holds no MLflow store yet; `fairtrial run quickstart` makes one."
            )
        if _taken(port):
            raise ValueError(f"Port {port} is in use; choose another with --port.")
        from analysis.tracking import moved_studies

        moved = moved_studies(embedded_uri(Path(studies)))
    if moved:
        print(
            f"The studies folder has moved, so MLflow does not find the files of "
            f"{', '.join(moved)}; `{FAIRTRIAL} reap` writes them again."
        )
    address = f"http://{HOST}:{port}"
    print(f"MLflow on {address} (Ctrl-C ends it)", flush=True)
    if browser:
        opener = threading.Timer(6, webbrowser.open, args=[address])
        opener.daemon = True
        opener.start()
    command = [
        sys.executable,
        "-m",
        "mlflow",
        "ui",
        "--backend-store-uri",
        embedded_uri(Path(studies)),
        "--host",
        HOST,
        "--port",
        str(port),
        "--workers",
        "1",  # one user
    ]
    # MLflow starts helpers of its own: a group, so that ending this ends them all.
    server = subprocess.Popen(
        command, env={"MLFLOW_DISABLE_TELEMETRY": "true", **os.environ}, start_new_session=True
    )
    # SIGHUP: the terminal is gone, as when ssh drops. Not SIGINT's own handler, which background
    # jobs of a script ignore.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    try:
        code = server.wait()
    except KeyboardInterrupt:
        code = 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGTERM)
    raise typer.Exit(code)


def _taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
