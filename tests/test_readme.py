"""The README says what is there: its tree, its commands, its pictures."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from study.__main__ import app
from study.config.sources import resolve

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
LAYERS = ["search_spaces", "trainables", "analysis", "study"]
COMMANDS = [
    line.split("#")[0].strip()
    for line in README.splitlines()
    if line.startswith("    ") and "uv run fairtrial" in line
]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_printed_command_is_one_the_command_line_takes(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "mylosses.py").write_text(
        README.split("```python\n# mylosses.py\n")[1].split("```")[0]
    )
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
        (tmp_path / name / "1.jpg").touch()
    labels = np.repeat(np.arange(8), 4)
    np.savez(tmp_path / "vectors.npz", features=np.eye(32), labels=labels)
    words = shlex.split(
        command.split("uv run fairtrial ")[1].split(">")[0].replace("=PATH", f"={tmp_path}")
    )
    verb = words[:2] if words[0] in ("config", "data") else words[:1]
    shown = CliRunner().invoke(app, [*verb, "--help"])
    assert shown.exit_code == 0
    flags = [word for word in words if word.startswith("--")]
    assert all(flag in re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout) for flag in flags)
    if words[0] in ("run", "plan", "train"):
        sets = [words[i + 1] for i, word in enumerate(words) if word == "--set"]
        resolve(words[1], sets=sets, smoke="--smoke" in words)


def test_the_two_commands_stand_there_exactly() -> None:
    assert "    pip install uv && uv run fairtrial run quickstart       # the main job\n" in README
    assert "    pip install uv && uv run pytest                         # the tests\n" in README


def test_every_picture_and_file_it_names_exists() -> None:
    for name in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", README):
        assert (ROOT / name).stat().st_size > 1000
    for name in re.findall(
        r"`((?:study|trainables|search_spaces|analysis|benchmarks)/[\w/.]+\.py)`", README
    ):
        assert (ROOT / name).exists(), name


def test_the_python_example_builds_the_config_it_shows() -> None:
    example = README.split("```python\n")[1].split("```")[0]
    scope: dict[str, object] = {}
    exec(
        example.split("for row in")[0].replace(
            "from study import StudyConfig, run_study", "from study import StudyConfig"
        ),
        scope,
    )
    assert scope["config"].losses == ("triplet", "contrastive")  # type: ignore[attr-defined]
