"""The README's paragraph on who can harm you, sentence by sentence."""

from __future__ import annotations

import ast
import json
import os
import pickle
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import psutil
import pytest
import torch
from typer.testing import CliRunner

from study.__main__ import app
from study.cluster.ray_token import close_token
from study.config.sources import read_yaml
from study.config.study_config import make
from study.driver import mlflow_mirror as mirror
from tests.conftest import MakeConfig
from tests.support.record import WrittenStudy
from tests.support.waiting import PATIENCE, await_that
from trainables.outputs.artifacts import STATE, read_state

ROOT = Path(__file__).parent.parent
FILES = [
    path
    for layer in ("search_spaces", "trainables", "analysis", "study")
    for path in (ROOT / layer).rglob("*.py")
]
LISTENS = """
import json, os, psutil
import study.__main__
from study.presets import SMOKE
from tests.support.studies import from_scratch
from study.config.study_config import make
from study.cluster.slot_pool import open_slot_pool
open_slot_pool(make(from_scratch() | SMOKE | {"workers": 2}), print)
me = psutil.Process()
family = (me, *me.children(recursive=True))
open_ports = [each for process in family for each in process.net_connections("inet")]
found = [each.laddr.ip for each in open_ports if each.status == "LISTEN"]
print("LISTENS", json.dumps(found))
import urllib.error, urllib.request
from ray._private.worker import get_dashboard_url
try:
    urllib.request.urlopen(f"http://{get_dashboard_url()}/api/jobs/", timeout=30)
    print("OPEN")
except urllib.error.HTTPError as error:
    print("CLOSED", error.code)
"""


@pytest.mark.ray
@pytest.mark.timeout(600)
def test_a_local_ray_and_its_dashboard_listen_on_the_loopback_alone_behind_their_token(
    tmp_path: Path,
) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | {
        "PYTHONPATH": str(ROOT)
    }
    done = subprocess.run(
        [sys.executable, "-c", LISTENS],
        cwd=tmp_path,
        env=clean,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.split("LISTENS ")[1].splitlines()[0])
    assert "CLOSED 401" in done.stdout, (
        "the job API takes nothing from those who do not have the token"
    )
    assert len(found) > 3, "Ray has several ports, and the dashboard"
    assert {address.removeprefix("::ffff:") for address in found} == {"127.0.0.1"}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_ui_listens_on_the_loopback_alone_and_goes_with_its_terminal(tmp_path: Path) -> None:
    """A dropped ssh is a SIGHUP: a server that stayed would keep the port, also one in the
    background of a script, without Ctrl-C.
    """
    (tmp_path / "mlflow.db").touch()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["ui", "--no-browser", "--port", str(port), "--studies", str(tmp_path)]
    log = (tmp_path / "log.txt").open("w")
    handler = signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the child begins with what is ignored here
    shown = subprocess.Popen(
        [sys.executable, "-m", "study", *words], cwd=ROOT, stdout=log, stderr=log
    )
    signal.signal(signal.SIGINT, handler)
    family: list[psutil.Process] = []

    def listening() -> list[str]:
        family[:] = psutil.Process(shown.pid).children(recursive=True)
        return listens(family)

    try:
        await_that(
            listening, lambda: "" if shown.poll() is None else (tmp_path / "log.txt").read_text()
        )
        assert set(listening()) == {"127.0.0.1"}
        shown.send_signal(signal.SIGHUP)
        assert shown.wait(PATIENCE) == 0
        assert not psutil.wait_procs(family, timeout=PATIENCE)[1], "nothing of it is left"
    finally:
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shown.kill()
        log.close()


def listens(family: list[psutil.Process]) -> list[str]:
    found = []
    for process in family:
        with suppress(psutil.Error):
            found += [
                at.laddr.ip for at in process.net_connections("inet") if at.status == "LISTEN"
            ]
    return found


def test_the_token_is_closed_to_other_users(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    close_token()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def calls(path: Path) -> set[str]:
    return {
        ast.unparse(node.func)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    }


RUNS = (
    "load",
    "loads",
    "read_pickle",
    "Unpickler",
    "eval",
    "exec",
    "restore",
    "open_shelve",
)  # what runs what it reads, by the last name
SAFE = {
    "json.load",
    "json.loads",
    "np.load",
    "yaml.load",
    "torch.load",
}  # the last three are looked at below, and in test_architecture.py


def runs(source: str) -> list[str]:
    """Calls in this source that may run what they read."""
    found = {
        ast.unparse(node.func) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)
    }
    imported = {
        name.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
        for name in node.names
    }
    serious = (
        "pickle",
        "cloudpickle",
        "joblib",
        "dill",
        "marshal",
        "shelve",
        "pd",
        "pandas",
        "Tuner",
        "tune.Tuner",
        "torch",
        "builtins",
    )
    named = [
        call
        for call in found - SAFE
        if "." in call
        and call.rsplit(".", 1)[1] in RUNS
        and call.rsplit(".", 1)[0].endswith(serious)
    ]
    bare = [
        call
        for call in found
        if call in ("eval", "exec")
        or (call in ("read_pickle", "Unpickler", "loads") and call in imported)
    ]
    return [*named, *bare]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_that_runs_what_it_reads_is_called(path: Path) -> None:
    assert not runs(path.read_text())
    assert "weights_only=False" not in path.read_text()


@pytest.mark.parametrize(
    "call",
    [
        "pickle.load(f)",
        "cloudpickle.loads(b)",
        "ray.cloudpickle.load(f)",
        "joblib.load(f)",
        "pickle.Unpickler(f).load()",
        "pd.read_pickle(p)",
    ]
    + [
        "from pickle import loads\nloads(b)",
        "eval(x)",
        "exec(x)",
        "tune.Tuner.restore(p)",
        "marshal.loads(b)",
        "dill.load(f)",
    ],
)
def test_such_a_call_would_be_found(call: str) -> None:
    assert runs(call)


def test_yaml_is_read_by_safe_loaders_only() -> None:
    for path in (path for path in FILES if "yaml.load" in calls(path)):
        assert "SafeLoader" in path.read_text(), path


def test_numpy_never_unpickles() -> None:
    for path in FILES:
        assert "allow_pickle=True" not in path.read_text(), path


class Evil:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.mark),)


def test_a_checkpoint_with_code_in_it_is_refused_and_its_code_not_run(tmp_path: Path) -> None:
    torch.save({"rows": Evil(tmp_path / "harm")}, tmp_path / STATE)
    with pytest.raises(pickle.UnpicklingError):
        read_state(tmp_path)
    assert not (tmp_path / "harm").exists()


def test_a_config_with_code_in_it_is_refused_and_its_code_not_run(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(
        f"name: !!python/object/apply:os.mkdir ['{tmp_path / 'harm'}']"
    )
    with pytest.raises(ValueError, match="cannot be read as YAML"):
        read_yaml(tmp_path / "evil.yaml")
    assert not (tmp_path / "harm").exists()


def test_a_name_does_not_lead_out_of_the_studies_folder() -> None:
    from tests.support.studies import from_scratch

    for name in ("../evil", "/etc", "a/b", "..", ""):
        with pytest.raises(ValueError):  # noqa: PT011
            make(from_scratch() | {"name": name})


class Noted:
    """A tracker that keeps what it is told."""

    told: ClassVar[list[object]] = []
    knows_runs = True

    def __init__(self, uri: str, *words: object, **large_study: object) -> None:
        self.told.append((words, large_study))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *words, **large_study: self.told.append((name, words, large_study))


@pytest.mark.parametrize(
    "uri",
    [
        "http://me:hunter2@127.0.0.1:9",
        "postgresql://me:pass/hunter2@127.0.0.1:9/db",
        "postgresql://127.0.0.1:9/db?user=me&password=hunter2",
    ],
)
def test_a_password_stays_in_the_config_of_the_closed_folder(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch, uri: str
) -> None:
    """Neither MLflow nor the ledger nor a message has it."""
    written = WrittenStudy(
        config(losses=["triplet"], name="secrets", reproductions=2, tracking_uri=uri)
    )
    monkeypatch.setattr(mirror, "Tracker", Noted)
    Noted.told.clear()
    written.begin()
    following = written.mirror()
    written.finish()
    following.close()
    assert len(Noted.told) > 10
    assert "127.0.0.1:9" in repr(Noted.told), "the config is told"
    assert "hunter2" not in repr(Noted.told)
    assert [
        path.name
        for path in written.folder.rglob("*")
        if path.is_file() and b"hunter2" in path.read_bytes()
    ] == ["config.yaml"]


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_a_password_is_in_no_message(verb: str, tmp_path: Path) -> None:
    said = CliRunner().invoke(
        app,
        [
            verb,
            "quickstart",
            "--set",
            "tracking_uri=http://me:hunter2@127.0.0.1:9",
            "--set",
            f"studies={tmp_path}",
        ],
    )
    assert "hunter2" not in said.output
    assert said.exit_code == 4
