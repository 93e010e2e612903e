"""The README's command on the smoke study, then everything it left, read back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import yaml
from mlflow.entities import Run
from typer.testing import CliRunner

from analysis import read_study
from analysis.ranking.ranking import rankings
from analysis.record.frames import StudyRows
from analysis.tracking import open_store
from study.__main__ import app
from study.config.plan import expand
from study.config.study_config import make
from tests.support.frames import assert_same
from tests.support.notebooks import NOTEBOOKS, execute

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
NAME = "quickstart-smoke"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("with space")


@pytest.fixture(scope="module")
def done(folder: Path) -> subprocess.CompletedProcess[str]:
    """As a user types it: with a Ray of its own; four of the losses, and two replicates."""
    command = [sys.executable, "-m", "study", "run", "quickstart", "--smoke"]
    command += ["--set", "losses=contrastive,triplet,multi_similarity,proxy_anchor"]
    command += ["--set", "searches=2"]
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def uri(done: subprocess.CompletedProcess[str], folder: Path) -> str:
    assert done.returncode == 0, done.stderr
    return f"sqlite:///{folder / 'studies' / 'mlflow.db'}"


@pytest.fixture(scope="module")
def rows(uri: str) -> StudyRows:
    return read_study(uri, NAME)


@pytest.fixture(scope="module")
def runs(uri: str) -> dict[str, Run]:
    """MLflow's runs by trial."""
    client = open_store(uri)
    experiment = client.get_experiment_by_name(NAME)
    assert experiment is not None
    found = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'")
    return {f"{run.data.tags['cell']}/{run.data.tags['trial']}": run for run in found}


def test_mlflow_has_the_frames_of_the_record(folder: Path, rows: StudyRows) -> None:
    own = read_study(folder / "studies" / NAME)
    assert_same(own, rows)
    assert {key: rows.config[key] for key in own.config} == own.config


@pytest.fixture(scope="module")
def trials(rows: StudyRows) -> pd.DataFrame:
    return rows.trials


def test_it_ends_well_and_prints_the_table_and_what_comes_next(
    done: subprocess.CompletedProcess[str], folder: Path
) -> None:
    assert done.returncode == 0, done.stderr
    for part in (
        "raw pixels",
        "pooled features of small",
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
    events = [line for line in done.stdout.splitlines() if line.startswith("[") and "/34 " in line]
    assert len(events) == 34


def test_mlflow_has_one_finished_run_per_trial(trials: pd.DataFrame) -> None:
    assert len(trials) == 4 * 2 * 2 + 8 * 2 + 2  # search and final trials of two replicates
    assert set(trials["status"]) == {"FINISHED"}
    assert not trials.duplicated(["cell", "trial"]).any()


def test_every_cell_is_a_finished_parent_run_with_the_means_of_its_final_trials(
    uri: str, runs: dict[str, Run], trials: pd.DataFrame
) -> None:
    client = open_store(uri)
    finals = trials[trials["phase"] == "final"]
    for cell, mine in finals.groupby("cell"):
        parents = {runs[run_id].data.tags["mlflow.parentRunId"] for run_id in mine["run_id"]}
        (parent,) = (client.get_run(run_id) for run_id in parents)
        assert parent.info.status == "FINISHED"
        assert parent.data.tags["cell"] == cell
        assert parent.data.metrics["test/recall_at_1"] == pytest.approx(
            mine["test/recall_at_1"].mean()
        )


def test_no_search_trial_has_a_test_metric_and_every_final_trial_does(trials: pd.DataFrame) -> None:
    measured = trials[[column for column in trials if column.startswith("test/")]]
    assert measured[trials["phase"] == "search"].isna().all(axis=None)
    assert measured[trials["phase"] == "final"].notna().all(axis=None)


def test_trial_zero_of_every_search_is_the_published_setting(
    trials: pd.DataFrame, folder: Path
) -> None:
    config = make(yaml.safe_load((folder / "studies" / NAME / "config.yaml").read_text()))
    first = trials[trials["trial"] == "search-0"]
    assert len(first) == 4
    for loss, setting in zip(first["loss"], first["setting"], strict=True):
        assert {f"loss.{key}": value for key, value in setting.items()} == expand(config).published(
            loss
        )


def test_final_trials_of_a_searched_cell_use_its_best_setting(trials: pd.DataFrame) -> None:
    honest = trials[trials["protocol"] == "fixed_validation"]
    for _, cell in honest.groupby(["cell", "replicate"]):
        searched = cell[cell["phase"] == "search"]
        best = searched.loc[searched["select/best"].idxmax(), "setting"]
        assert all(setting == best for setting in cell.loc[cell["phase"] == "final", "setting"])


def test_every_number_carries_how_it_was_chosen(trials: pd.DataFrame) -> None:
    rules = {
        "default": "best-on-test",
        "fixed_validation": "selected-on-validation",
        "none": "untrained",
    }
    assert (trials["rule"] == trials["protocol"].map(rules)).all()
    assert (trials["peeks"] == (trials["rule"] == "best-on-test")).all()
    for tag in ("cell", "phase", "seed", "git", "versions", "study", "outcome"):
        assert trials[tag].astype(str).str.len().gt(0).all()


def test_artifacts_are_kept_with_their_runs(
    uri: str, runs: dict[str, Run], trials: pd.DataFrame
) -> None:
    client = open_store(uri)
    for trial in trials.to_dict("records"):
        names = {file.path for file in client.list_artifacts(runs[trial["run_id"]].info.run_id)}
        left = {"spec.json"} | ({"best.pt", "queries.csv"} if trial["phase"] == "final" else set())
        # The embeddings of the first final trial, and of each baseline's, are kept for maps.
        first = trial["trial"] == "final-1"
        assert names == (left | {"embeddings.npz"} if first else left)
    parent = runs[trials["run_id"][0]].data.tags["mlflow.parentRunId"]
    assert {file.path for file in client.list_artifacts(parent)} == {"config.yaml", "splits.json"}


def test_the_stored_splits_are_disjoint_and_search_trials_never_held_test_classes(
    rows: StudyRows, trials: pd.DataFrame
) -> None:
    for run_id, phase in zip(trials["run_id"], trials["phase"], strict=True):
        for split in rows.spec(run_id)["splits"]:
            assert not set(split["train"]) & (set(split["select"]) | set(range(100, 200)))
            assert bool(split["test"]) == (phase == "final")


def test_the_table_equals_one_recomputed_from_the_raw_rows(
    uri: str, runs: dict[str, Run], rows: StudyRows, tmp_path: Path
) -> None:
    client, trials = open_store(uri), rows.trials
    (ranking,) = rankings(rows)
    for row in ranking.rows:
        for side, protocol in ((row.default, "default"), (row.validation, "fixed_validation")):
            mine = trials[
                (trials["loss"] == row.loss)
                & (trials["protocol"] == protocol)
                & (trials["phase"] == "final")
            ]
            for metric in ("recall_at_1", "map_at_r"):
                means = []
                for run_id, reported in zip(mine["run_id"], mine[f"test/{metric}"], strict=True):
                    number = runs[run_id].info.run_id
                    raw = pd.read_csv(
                        client.download_artifacts(number, "queries.csv", str(tmp_path))
                    )
                    assert len(raw) == raw["image"].nunique() == 40 * 60
                    assert raw[metric].mean() == pytest.approx(reported, abs=1e-6)
                    means.append(raw[metric].mean())
                assert side[metric].value == pytest.approx(sum(means) / len(means), abs=1e-9)


def test_a_second_run_refuses_to_overwrite_and_says_what_to_do(folder: Path, uri: str) -> None:
    again = CliRunner().invoke(
        app, ["run", "quickstart", "--smoke", "--set", f"studies={folder / 'studies'}"]
    )
    assert again.exit_code == 2
    assert f"The study '{NAME}' is finished" in again.stderr
    assert f"--name {NAME}-2" in again.stderr


def test_report_gives_the_same_numbers_as_json(folder: Path, rows: StudyRows) -> None:
    shown = CliRunner().invoke(
        app, ["report", NAME, "--json", "--studies", str(folder / "studies")]
    )
    assert shown.exit_code == 0, shown.stderr
    (ranking,) = rankings(rows)
    text = json.dumps(json.loads(shown.stdout))
    assert all(str(row.validation["recall_at_1"].value) in text for row in ranking.rows)


@pytest.mark.slow
def test_a_notebook_runs_on_the_study_and_draws_its_maps(uri: str, folder: Path) -> None:
    (path,) = [path for path in NOTEBOOKS if path.stem == "embedding_maps"]
    shown = execute(path, folder, name=NAME, store=uri)
    assert str(shown).count("data:image/png;base64,") >= 4


@pytest.mark.slow
def test_without_mlflow_the_page_is_the_same_and_a_resume_makes_the_store_again(
    folder: Path, rows: StudyRows, ray_address: str
) -> None:
    """The last test of this file: it deletes the store."""
    studies = folder / "studies"
    page, store = studies / NAME / "report.html", studies / "mlflow.db"
    words = ["report", NAME, "--studies", str(studies)]
    assert CliRunner().invoke(app, words).exit_code == 0
    before = page.read_text()
    page.unlink()
    for path in studies.glob("mlflow.db*"):
        path.unlink()
    shutil.rmtree(studies / "mlartifacts")
    shown = CliRunner().invoke(app, words)
    assert shown.exit_code == 0, shown.output
    assert page.read_text() == before
    assert "it is gone; `fairtrial run" in " ".join(shown.stdout.split())
    assert not store.exists()
    resume = [sys.executable, "-m", "study", "run", NAME, "--resume", "--set", f"studies={studies}"]
    done = subprocess.run(resume, capture_output=True, text=True, check=False, timeout=250)
    assert done.returncode == 0, done.stderr
    # By another name: MLflow keeps connections by address; this process has one to the old file.
    assert_same(read_study(f"sqlite:///{studies}/./mlflow.db", NAME), rows)
