"""The README's command on the smoke study, then everything it left, read back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from analysis.tables import rankings
from analysis.tracking import StudyRows, open_store, read_study
from study.__main__ import app
from study.config import make
from tests.support.notebooks import NOTEBOOKS
from tests.support.notebooks import run as run_notebook

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
NAME = "quickstart-smoke"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("with space")


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    """As a user types it: with a Ray of its own."""
    command = [sys.executable, "-m", "study", "run", "quickstart", "--smoke"]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def uri(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    assert done.returncode == 0, done.stderr
    return f"sqlite:///{folder / 'studies' / 'mlflow.db'}"


@pytest.fixture(scope="module")
def rows(uri: str) -> StudyRows:
    return read_study(uri, NAME)


@pytest.fixture(scope="module")
def trials(rows: StudyRows) -> pd.DataFrame:
    return rows.trials


def test_it_ends_well_and_prints_the_table_and_what_comes_next(done: subprocess.CompletedProcess[str], folder: Path) -> None:
    assert done.returncode == 0, done.stderr
    for part in (
        "raw pixels",
        "untrained tiny",
        "multi_similarity",
        "validation",
        "chosen with test feedback",
        "report.html",
        "fairtrial ui",
        "Next",
    ):
        assert part in done.stdout
    assert "Traceback" not in done.stdout
    assert done.stderr == ""
    assert (folder / "studies" / NAME / "report.html").stat().st_size > 10_000


def test_there_is_one_line_per_event(done: subprocess.CompletedProcess[str]) -> None:
    events = [line for line in done.stdout.splitlines() if line.startswith("[") and "/27 " in line]
    assert len(events) == 27


def test_mlflow_has_one_finished_run_per_trial(trials: pd.DataFrame) -> None:
    assert len(trials) == 4 * 2 + 8 * 2 + 3
    assert set(trials["status"]) == {"FINISHED"}
    assert not trials.duplicated(["cell", "trial"]).any()


def test_every_cell_is_a_finished_parent_run_with_the_means_of_its_final_trials(uri: str, trials: pd.DataFrame) -> None:
    client = open_store(uri)
    finals = trials[trials["phase"] == "final"]
    for cell, mine in finals.groupby("cell"):
        parents = {client.get_run(run_id).data.tags["mlflow.parentRunId"] for run_id in mine["run_id"]}
        (parent,) = (client.get_run(run_id) for run_id in parents)
        assert parent.info.status == "FINISHED"
        assert parent.data.tags["cell"] == cell
        assert parent.data.metrics["test/recall_at_1"] == pytest.approx(mine["test/recall_at_1"].mean())


def test_no_search_trial_has_a_test_metric_and_every_final_trial_does(trials: pd.DataFrame) -> None:
    measured = trials[[column for column in trials if column.startswith("test/")]]
    assert measured[trials["phase"] == "search"].isna().all(axis=None)
    assert measured[trials["phase"] == "final"].notna().all(axis=None)


def test_trial_zero_of_every_search_is_the_published_setting(trials: pd.DataFrame, folder: Path) -> None:
    config = make(yaml.safe_load((folder / "studies" / NAME / "config.yaml").read_text()))
    first = trials[trials["trial"] == "search-0"]
    assert len(first) == 4
    for loss, setting in zip(first["loss"], first["setting"], strict=True):
        assert {f"loss.{key}": value for key, value in setting.items()} == config.published(loss)


def test_final_trials_of_a_searched_cell_use_its_best_setting(trials: pd.DataFrame) -> None:
    for _, cell in trials[trials["protocol"] == "fixed_validation"].groupby("cell"):
        searched = cell[cell["phase"] == "search"]
        best = searched.loc[searched["select/best"].idxmax(), "setting"]
        assert all(setting == best for setting in cell.loc[cell["phase"] == "final", "setting"])


def test_every_number_carries_how_it_was_chosen(trials: pd.DataFrame) -> None:
    rules = {"default": "best-on-test", "fixed_validation": "selected-on-validation", "none": "untrained"}
    assert (trials["rule"] == trials["protocol"].map(rules)).all()
    assert (trials["peeks"] == (trials["rule"] == "best-on-test")).all()
    for tag in ("cell", "phase", "seed", "git", "versions", "study", "outcome"):
        assert trials[tag].astype(str).str.len().gt(0).all()


def test_artifacts_are_kept_with_their_runs(uri: str, trials: pd.DataFrame) -> None:
    client = open_store(uri)
    for trial in trials.to_dict("records"):
        names = {file.path for file in client.list_artifacts(trial["run_id"])}
        left = {"trial.yaml", "best.pt", "queries.csv"} if trial["phase"] == "final" else {"trial.yaml"}
        first = trial["trial"] == "final-1" and trial["rule"] != "untrained"  # whose embeddings are kept for maps
        assert names == (left | {"embeddings.npz"} if first else left)
    parent = client.get_run(trials["run_id"][0]).data.tags["mlflow.parentRunId"]
    assert {file.path for file in client.list_artifacts(parent)} == {"config.yaml", "splits.json"}


def test_the_stored_splits_are_disjoint_and_search_trials_never_held_test_classes(uri: str, trials: pd.DataFrame, tmp_path: Path) -> None:
    client = open_store(uri)
    for run_id, phase in zip(trials["run_id"], trials["phase"], strict=True):
        spec = yaml.safe_load(Path(client.download_artifacts(run_id, "trial.yaml", str(tmp_path))).read_text())
        for split in spec["splits"]:
            assert not set(split["train"]) & (set(split["select"]) | set(range(100, 200)))
            assert bool(split["test"]) == (phase == "final")


def test_the_table_equals_one_recomputed_from_the_raw_rows(uri: str, rows: StudyRows, tmp_path: Path) -> None:
    client, trials = open_store(uri), rows.trials
    (ranking,) = rankings(rows)
    for row in ranking.rows:
        for side, protocol in ((row.default, "default"), (row.validation, "fixed_validation")):
            runs = trials[(trials["loss"] == row.loss) & (trials["protocol"] == protocol) & (trials["phase"] == "final")]
            for metric in ("recall_at_1", "map_at_r"):
                means = []
                for run_id, reported in zip(runs["run_id"], runs[f"test/{metric}"], strict=True):
                    raw = pd.read_csv(client.download_artifacts(run_id, "queries.csv", str(tmp_path)))
                    assert len(raw) == raw["image"].nunique() == 40 * 60
                    assert raw[metric].mean() == pytest.approx(reported, abs=1e-6)
                    means.append(raw[metric].mean())
                assert side[metric].value == pytest.approx(sum(means) / len(means), abs=1e-9)


def test_a_second_run_refuses_to_overwrite_and_says_what_to_do(folder: Path, uri: str) -> None:
    again = CliRunner().invoke(app, ["run", "quickstart", "--smoke", "--set", f"studies={folder / 'studies'}"])
    assert again.exit_code == 2
    assert f"The study '{NAME}' is finished" in again.stderr
    assert f"--name {NAME}-2" in again.stderr


def test_report_gives_the_same_numbers_as_json(folder: Path, rows: StudyRows) -> None:
    shown = CliRunner().invoke(app, ["report", NAME, "--json", "--studies", str(folder / "studies")])
    assert shown.exit_code == 0, shown.stderr
    (ranking,) = rankings(rows)
    text = json.dumps(json.loads(shown.stdout))
    assert all(str(row.validation["recall_at_1"].value) in text for row in ranking.rows)


@pytest.mark.slow
def test_a_notebook_runs_on_the_study_and_draws_its_maps(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "<svg" in run_notebook(next(path for path in NOTEBOOKS if path.stem == "embedding_maps"), uri, monkeypatch, study=NAME)
