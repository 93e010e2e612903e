"""fairtrial ui: the browser opens when the server answers, and not before."""

from __future__ import annotations

import subprocess
import sys
import time
import webbrowser
from pathlib import Path

import pytest

from benchmarks.outage import free_port
from study.cli import ui

# Answers every GET after a while, as a server that is still starting does.
LATE = """
import http.server, sys, time
time.sleep(float(sys.argv[2]))
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Health).serve_forever()
"""


def test_the_browser_opens_when_the_server_answers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[tuple[str, float]] = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append((url, time.monotonic())))
    port, began = free_port(), time.monotonic()
    server = subprocess.Popen([sys.executable, "-c", LATE, str(port), "0.7"])
    try:
        ui._announce(server, f"http://127.0.0.1:{port}", browser=True)
    finally:
        server.kill()
        server.wait()
    ((url, when),) = opened
    assert url == f"http://127.0.0.1:{port}"
    assert when - began > 0.7
    assert f"MLflow answers on {url}" in capsys.readouterr().out


def test_a_server_that_ends_before_it_answers_opens_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail("nobody answers there"))
    server = subprocess.Popen([sys.executable, "-c", ""])
    ui._announce(server, f"http://127.0.0.1:{free_port()}", browser=True)
    server.wait()


def test_the_server_sends_no_telemetry_and_serves_our_app(tmp_path: Path) -> None:
    assert ui.QUIET["MLFLOW_DISABLE_TELEMETRY"] == ui.QUIET["DO_NOT_TRACK"] == "true"
    words = ui._command(f"sqlite:///{tmp_path}/mlflow.db", 5000)
    assert words[words.index("--app-name") + 1] == "fairtrial"
    assert words[words.index("--host") + 1] == "127.0.0.1"
