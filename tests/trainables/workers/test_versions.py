"""The code that a study runs has a digest, a commit and versions."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from trainables.workers import versions


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for package in (*versions.PACKAGES, "analysis"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "a.py").write_text("x = 1\n")
    monkeypatch.setattr(versions, "ROOT", tmp_path)
    return tmp_path


def digest() -> str:
    return versions.sources.__wrapped__()


def test_equal_code_is_equal_and_other_code_is_not(root: Path) -> None:
    before = digest()
    (root / "study" / "notes.txt").write_text("no code")
    (root / "analysis" / "a.py").write_text("x = 2\n")  # it reads what is there
    assert digest() == before
    (root / "trainables" / "a.py").write_text("x = 2\n")
    changed = digest()
    assert changed != before
    (root / "trainables" / "a.py").rename(root / "trainables" / "b.py")
    assert digest() not in (before, changed)


def test_the_commit_is_that_of_a_checkout(root: Path) -> None:
    assert versions.commit.__wrapped__() == "unknown"
    git = ["git", "-C", str(root), "-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    assert versions.commit.__wrapped__() == head


def test_a_resumed_study_compares_sources_python_and_what_matters() -> None:
    assert {"sources", "python", "ray", "torch", "hyperopt", "pytorch-metric-learning"} <= set(
        versions.code()
    )
    assert all(versions.code().values())
