"""A page links to its trials in MLflow where a server shows them, and nowhere else."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from analysis.tracking import Links, links_of
from analysis.tracking.write import KEY

TAG = {"key": KEY, "value": "the trial"}
RUN = {"info": {"run_id": "abc", "experiment_id": "7"}, "data": {"tags": [TAG]}}


class Server(BaseHTTPRequestHandler):
    """Answer as MLflow's server does, which knows one study of one trial."""

    def do_GET(self) -> None:
        experiment = {"experiment_id": "7", "name": "mine", "artifact_location": "x"}
        if "experiment_name=mine" in self.path:
            self.answer(200, {"experiment": experiment})
        else:
            self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST"})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer(200, {"runs": [RUN]})

    def answer(self, status: int, found: dict[str, object]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def served() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_links_name_experiment_and_runs_and_no_password(served: str) -> None:
    found = links_of(f"http://me:secret@{served}/", "mine")
    assert found == Links(f"http://{served}/#/experiments/7", {"the trial": "abc"})


def test_a_study_that_no_server_shows_has_no_links(served: str) -> None:
    assert links_of(f"http://{served}", "other") == Links()
    assert links_of("http://127.0.0.1:9", "mine") == Links(), "nobody answers"
    assert links_of("sqlite:///mlflow.db", "mine") == links_of("", "mine") == Links()
