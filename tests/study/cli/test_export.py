"""fairtrial export: from a study's store to a model that embeds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.record.kept_files import keep
from analysis.record.record import Record
from analysis.record.trial_id import TrialId
from study.__main__ import app
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.folder import config_yaml
from study.driver.resume import identity
from study.driver.tune_callback import TuneCallback
from study.search.cell_search import TrialAssignment
from tests.support.events import trial_ended
from trainables import load_embedder
from trainables.contract import ARTIFACTS
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
    for words, sentence in (
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
