"""The README's paragraph on who can harm you, sentence by sentence."""

from __future__ import annotations

import ast
import json
import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from study.config import make
from study.room import close_token
from study.sources import read_yaml
from trainables.artifacts import STATE, read

ROOT = Path(__file__).parent.parent
FILES = [path for layer in ("search_spaces", "trainables", "analysis", "study") for path in (ROOT / layer).rglob("*.py")]
LISTENS = """
import json, os, psutil
import study.__main__
from study.presets import SMOKE, quickstart
from study.config import make
from study.room import find_room
find_room(make(quickstart() | SMOKE | {"workers": 2}), print)
me = psutil.Process()
found = [at.laddr.ip for process in (me, *me.children(recursive=True)) for at in process.net_connections("inet") if at.status == "LISTEN"]
print("LISTENS", json.dumps(found))
"""


@pytest.mark.ray
@pytest.mark.timeout(200)
def test_the_command_lines_own_ray_and_its_dashboard_listen_on_the_loopback_alone(tmp_path: Path) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")} | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", LISTENS], cwd=tmp_path, env=clean, capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.split("LISTENS ")[1])
    assert len(found) > 3, "Ray has several ports, and the dashboard"
    assert {address.removeprefix("::ffff:") for address in found} == {"127.0.0.1"}


def test_the_ui_listens_on_the_loopback_alone() -> None:
    from study.commands import ui

    assert ui.HOST == "127.0.0.1"


def test_the_token_is_closed_to_other_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o644)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(token))
    close_token()
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


def calls(path: Path) -> set[str]:
    return {ast.unparse(node.func) for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)}


@pytest.mark.parametrize("word", ["pickle.load", "pickle.loads", "cloudpickle.load", "joblib.load", "eval", "exec", "Tuner.restore"])
def test_nothing_that_runs_what_it_reads_is_called(word: str) -> None:
    assert not [path.name for path in FILES if any(call == word or ("." in word and call.endswith(f".{word}")) for call in calls(path))]


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
        read(tmp_path)
    assert not (tmp_path / "harm").exists()


def test_a_config_with_code_in_it_is_refused_and_its_code_not_run(tmp_path: Path) -> None:
    (tmp_path / "evil.yaml").write_text(f"name: !!python/object/apply:os.mkdir ['{tmp_path / 'harm'}']")
    with pytest.raises(ValueError, match="cannot be read as YAML"):
        read_yaml(tmp_path / "evil.yaml")
    assert not (tmp_path / "harm").exists()


def test_a_name_does_not_lead_out_of_the_studies_folder() -> None:
    from study.presets import quickstart

    for name in ("../evil", "/etc", "a/b", "..", ""):
        with pytest.raises(ValueError):  # noqa: PT011
            make(quickstart() | {"name": name})
