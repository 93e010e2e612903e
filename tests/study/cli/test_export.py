"""fairtrial export: from a study's store to a model that embeds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis import read_study
from analysis.record.kept_files import keep
from analysis.record.record import Record
from analysis.record.trial_id import TrialId
from analysis.tracking import open_store
from analysis.tracking.models import networks, validation_scores
from study.__main__ import app
from study.cli.export import _pick
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.folder import config_yaml, tracking_uri
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.resume import identity
from study.driver.tune_callback import TuneCallback
from study.search.cell_search import TrialAssignment
from tests.conftest import ROOT, MakeConfig
from tests.support.events import trial_ended
from tests.support.synthetic_study import replicated, write_study
from trainables import load_embedder
from trainables.contract import ARTIFACTS, NOT_TRAINED
from trainables.datasets.pixels import load
from trainables.outputs import artifacts
from trainables.training.learner import Learner


def write(config: StudyConfig) -> Learner:
    """Record a study of one cell with one finished final trial."""
    plan = expand(config)
    (cell,) = plan.cells
    spec = plan.spec(cell, "final", 0, plan.published(cell.loss))
    spec = replace(spec, training=replace(spec.training, epochs=1, steps_per_epoch=1))
    folder = Path(config.studies, config.name)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config_yaml(config))
    learner = Learner(spec, load(spec.dataset_ref, spec.transform.cache_size))
    learner.epoch()
    learner.read_test()
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    saved = {"state": learner.state(), "artifacts": learner.artifacts()}
    artifacts.write_outputs(checkpoint, saved)
    trial, record = TrialId(cell, "final", 0), Record(folder)
    record.note(identity(plan, total=1))
    TuneCallback(plan, record).assigned(TrialAssignment(trial, spec))
    keep(folder, trial, ARTIFACTS, outputs=checkpoint)
    record.note(trial_ended(trial, epoch=1))
    record.close()
    return learner


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", *words])
    return result.exit_code, result.output


def test_a_cell_becomes_a_model_that_embeds(config, tmp_path):
    study = config(losses=["triplet"], protocols=["fixed_validation"], name="one")
    learner = write(study)
    label = expand(study).label(learner.spec.cell)
    code, output = run("one", label, "--studies", study.studies, "--to", str(tmp_path / "model"))
    assert code == 0, output
    assert "load_embedder" in output
    queries = pd.read_csv(Path(study.studies, "one", "checkpoint", "queries.csv"))
    data = load(learner.spec.dataset_ref, learner.spec.transform.cache_size)
    vectors = load_embedder(tmp_path / "model")([data.pixels[i] for i in queries["image"]])
    cosines = vectors @ vectors.T - 9 * (
        queries.index.to_numpy()[:, None] == queries.index.to_numpy()
    )
    hits = queries["class"].to_numpy()[cosines.argmax(axis=1)] == queries["class"]
    assert hits.mean() == pytest.approx(queries["recall_at_1"].mean(), abs=0.005)
    by_loss = tmp_path / "by-loss"
    code, output = run("one", "triplet", "--studies", study.studies, "--to", str(by_loss))
    assert (code, by_loss.is_dir()) == (0, True), output
    for words, sentence in (
        (("one", "--studies", study.studies), "An export needs a cell, whose network it writes"),
        (("one", label[:-1], "--studies", study.studies), f"Did you mean '{label}'?"),
        (
            ("one", label, "--seed", "7", "--studies", study.studies),
            "no finished final trial of seed 7; it has 0.",
        ),
        (("two", label, "--studies", study.studies), "holds no study 'two'. It holds: one."),
        (("one", label, "--studies", str(tmp_path / "none")), "holds no study 'one'. `"),
    ):
        code, output = run(*words)
        assert code == 2
        assert sentence in output


def test_no_cell_that_chose_on_test_is_suggested() -> None:
    labels = ["triplet/default", "triplet/fixed_validation", "margin/default"]
    cells, honest = {label: label for label in labels}, {"triplet/fixed_validation": "triplet"}
    assert _pick(cells, honest, "triplet") == "triplet/fixed_validation"
    assert _pick(cells, honest, "margin/default") == "margin/default"
    with pytest.raises(ValueError, match=r"Did you mean 'triplet/fixed_validation'\?") as error:
        _pick(cells, honest, "triplet/defalt")
    assert "/default" not in str(error.value)
    with pytest.raises(ValueError, match="Unknown cell 'margin'") as error:
        _pick(cells, honest, "margin")
    assert "margin/default" not in str(error.value)


# A machine without Fair Trial: its path has the libraries only.
ELSEWHERE = """
import json, sys
sys.path = [path for path in sys.path if path not in json.loads(sys.argv[3])]
for name in ("trainables", "analysis", "study", "search_spaces"):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} is here")
import mlflow, numpy
assert not any(name.startswith("__editable__") for name in sys.modules)
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model("models:/one@winner")
images = numpy.load(sys.argv[2])
numpy.save(sys.argv[2], model.predict(images)["embeddings"])
print(model.metadata.signature.inputs.inputs[0].shape, model.metadata.model_id)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_winner_is_registered_and_embeds_images_on_a_machine_without_fair_trial(
    config: MakeConfig, tmp_path: Path
) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], name="one")
    learner = write(study)
    with closing(Record(Path(study.studies, "one"))) as record:
        MlflowMirror(expand(study), record).close()
    for words in ("Registered  one, version 1", "Already registered  one, version 1"):
        code, output = run("one", "--register", "--studies", study.studies)
        assert code == 0, output
        assert words in output
    label = expand(study).label(learner.spec.cell)
    model = tmp_path / "model"
    run("one", label, "--studies", study.studies, "--to", str(model))
    embed = load_embedder(model)
    data = load(learner.spec.dataset_ref, learner.spec.transform.cache_size)
    pictures = [data.pixels[i] for i in range(5)]
    np.save(tmp_path / "images.npy", embed.crops(pictures).float().numpy())
    hidden = [str(ROOT), *(path for path in sys.path if Path(path or ".").resolve() == ROOT), ""]
    done = subprocess.run(
        [sys.executable, "-S", "-c", BARE + ELSEWHERE, tracking_uri(study)]
        + [str(tmp_path / "images.npy"), json.dumps(hidden)],
        cwd=tmp_path,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "images.npy"), embed(pictures), atol=1e-5)
    client = open_store(tracking_uri(study))
    (logged,) = client.search_logged_models([client.get_experiment_by_name("one").experiment_id])
    assert logged.tags["fairtrial.key"] == str(TrialId(learner.spec.cell, "final", 0))
    files = {item.path for item in client.list_logged_model_artifacts(logged.model_id)}
    assert {"MLmodel", "model.onnx", "input_example.json"} <= files


# Without site's .pth files, one of which makes an editable install of this project.
BARE = f"import sys; sys.path.append({sysconfig.get_paths()['purelib']!r})\n"


def test_of_each_loss_the_best_replicate_by_validation_is_logged(tmp_path: Path) -> None:
    rows = read_study(write_study(tmp_path, replicated()))
    best = rows.trials.set_index("run_id").loc[networks(rows, "best")]
    assert len(best) > 1
    assert not best["peeks"].any()
    scores = validation_scores(rows, rows.finals)
    for run, row in best.iterrows():
        mine = rows.finals[(rows.finals["loss"] == row["loss"]) & (rows.finals["role"] == "final")]
        mine = mine[~mine["peeks"].astype(bool) & (mine["backbone"] == row["backbone"])]
        mine = mine[mine["embedding_size"] == row["embedding_size"]]
        mine = mine[mine["dataset"] == row["dataset"]]
        assert scores[str(run)] == max(scores[str(other)] for other in mine["run_id"])
    assert networks(rows, "none") == []
    trained = rows.finals[~rows.finals["loss"].isin(NOT_TRAINED)]
    assert networks(rows, "all") == trained["run_id"].tolist()
