"""The verbs on a studies folder that was moved: MLflow's store remembers the old place."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.tracking import moved_studies, open_store
from analysis.tracking.read import read_mlflow
from study.__main__ import app
from study.cli import ui
from tests.conftest import MakeConfig
from tests.support.record import WrittenStudy


@pytest.fixture
def moved(config: MakeConfig) -> Path:
    """A studies folder with a finished study, moved after MLflow got all of it."""
    made = WrittenStudy(config(losses=["triplet"], name="mine", reproductions=2))
    made.begin()
    mirror = made.mirror()
    made.finish()
    mirror.close()
    made.record.close()
    old = made.folder.parent
    return old.rename(old.with_name("elsewhere"))


def fairtrial(root: Path, *words: str) -> Any:
    return CliRunner().invoke(app, [*words, "--studies", str(root)])


def test_a_report_says_why_mlflow_lacks_the_page_and_writes_nothing_to_the_old_place(
    moved: Path,
) -> None:
    shown = fairtrial(moved, "report", "mine")
    assert shown.exit_code == 0, shown.output
    assert (moved / "mine" / "report.html").exists()
    again = f"`fairtrial run mine --resume --set studies={moved}`"
    assert f"the studies folder has moved; {again}" in shown.stdout
    assert not moved.with_name("studies").exists()


def test_reap_writes_the_study_again_where_it_is(moved: Path) -> None:
    uri = f"sqlite:///{moved / 'mlflow.db'}"
    assert moved_studies(uri) == ["mine"]
    shown = fairtrial(moved, "reap")
    assert (shown.exit_code, "1 of 1 studies needed it" in shown.stdout) == (0, True)
    assert moved_studies(uri) == []
    rows = read_mlflow(uri, "mine")
    assert (len(rows.trials), len(rows.queries)) == (3, 2)
    assert not moved.with_name("studies").exists()
    assert "0 of 1 studies needed it" in fairtrial(moved, "reap").stdout


def test_an_audit_says_what_to_do_first(moved: Path) -> None:
    shown = fairtrial(moved, "audit", "mine", "--yes")
    again = f"run mine --resume --set studies={moved}` writes the study"
    assert (shown.exit_code, again in shown.stderr) == (2, True)


def test_the_ui_names_the_studies_whose_files_it_cannot_show(
    moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = subprocess.Popen
    nothing = ["python3", "-c", ""]
    monkeypatch.setattr(subprocess, "Popen", lambda command, **how: real(nothing, **how))
    monkeypatch.setattr(signal, "signal", lambda number, handler: None)
    monkeypatch.setattr(ui, "_taken", lambda port: False)
    shown = fairtrial(moved, "ui", "--no-browser")
    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.stdout.split())
    assert "does not find the files of mine" in words
    assert "fairtrial reap` writes them again" in words


def test_a_store_that_is_named_by_another_path_has_not_moved(moved: Path) -> None:
    fairtrial(moved, "reap")
    link = moved.with_name("link")
    link.symlink_to(moved)
    assert moved_studies(f"sqlite:///{link / 'mlflow.db'}") == []
    open_store(f"sqlite:///{link / 'mlflow.db'}").create_experiment("of others")
    assert moved_studies(f"sqlite:///{link / 'mlflow.db'}") == []
