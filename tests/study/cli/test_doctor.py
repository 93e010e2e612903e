"""What the doctor says of token, server and cluster."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path

import pytest
import ray
from typer.testing import CliRunner

from study.__main__ import app
from study.cli import doctor
from study.cluster import nodes
from study.cluster.nodes import Node
from trainables.workers.versions import code


def test_a_token_that_others_can_read_is_an_illness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    assert doctor._token().startswith("none yet")
    token.write_text("secret")
    token.chmod(0o640)
    with pytest.raises(PermissionError, match=f"can be read by others; chmod 600 {token}"):
        doctor._token()
    token.chmod(0o600)
    assert doctor._token() == f"{token}, read by nobody else"
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert doctor._token() == "from RAY_AUTH_TOKEN"


def test_a_server_is_asked_and_its_password_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "health").write_text("OK")
    threading.Thread(target=server.handle_request, daemon=True).start()
    assert (
        doctor._server(f"http://me:secret@127.0.0.1:{server.server_port}")
        == f"http://…@127.0.0.1:{server.server_port} answers"
    )
    server.server_close()
    shown = CliRunner().invoke(
        app,
        ["doctor", "--studies", str(tmp_path), "--tracking-uri", "http://me:secret@127.0.0.1:9"],
    )
    assert shown.exit_code == 4
    assert (
        "FAIL  tracking server          PreflightError: The MLflow server http://127.0.0.1:9 did "
        "not answer" in shown.stdout
    )
    assert "secret" not in shown.stdout


def test_a_cluster_is_as_good_as_its_worst_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    found = [Node("a", code()), Node("b", code())]
    monkeypatch.setenv("RAY_ADDRESS", "there:6379")
    monkeypatch.setattr(ray, "init", lambda address, **how: calls.append(address))
    monkeypatch.setattr(ray, "shutdown", lambda: calls.append("shutdown"))
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 8.0, "GPU": 2.0})
    monkeypatch.setattr(nodes, "ask_nodes", lambda folder: found)
    assert doctor._cluster(tmp_path) == f"2 nodes see {tmp_path} and run this code; 8 CPUs, 2 GPUs"
    found[1] = Node("b", trouble="cannot write there: Permission denied")
    with pytest.raises(Exception, match="b cannot write there"):
        doctor._cluster(tmp_path)
    assert calls == ["there:6379", "shutdown"] * 2, "Ray is left, whatever was found"
