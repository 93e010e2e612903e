"""fairtrial export: from a study's store to a model that embeds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from analysis.tracking import Tracker
from study.__main__ import app
from study.config import StudyConfig
from study.preflight import tracking_uri
from study.storage import config_yaml
from trainables import artifacts, load_embedder
from trainables.datasets.pixels import load
from trainables.learner import Learner


def write(config: StudyConfig) -> Learner:
    """A study of one cell with one finished final trial, stored as a real one is; nothing is learned."""
    (cell,) = config.cells()
    spec = config.spec(cell, "final", 0, config.published(cell.loss))
    spec = replace(spec, training=replace(spec.training, epochs=1, steps_per_epoch=1))
    folder = Path(config.studies, config.name)
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config_yaml(config))
    learner = Learner(spec, load(spec.origin, spec.look.cache_size))
    learner.epoch()
    learner.read_test()
    artifacts.write(folder, {"state": learner.state(), "artifacts": learner.artifacts()})
    tracker = Tracker(tracking_uri(config), config.name, artifacts=folder / "artifacts")
    tags = {"dataset": "sketches", "backbone": "tiny", "embedding_size": 16, "loss": cell.loss, "protocol": cell.protocol}
    tags |= {"cell": str(cell), "label": config.label(cell), "rule": spec.rule, "peeks": spec.peeks}
    tracker.start_cell(str(cell), params={}, tags=tags, files={})
    about = {"trial": "final-0", "phase": "final", "seed": 0, "tuned": False, "split": "one", "folds": 1}
    trial = yaml.safe_dump(json.loads(json.dumps(spec.as_dict())))
    tracker.start_trial("t", cell=str(cell), name="t", params={}, tags=tags | about, files={"trial.yaml": trial})
    tracker.end("t", "FINISHED", files=[folder / "best.pt", folder / "queries.csv"])
    return learner


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["export", *words])
    return result.exit_code, result.output


def test_a_cell_becomes_a_model_that_embeds(config, tmp_path):
    study = config(losses=["triplet"], protocols=["fixed_validation"], name="one")
    learner = write(study)
    label = study.label(learner.spec.cell)
    code, output = run("one", label, "--studies", study.studies, "--to", str(tmp_path / "model"))
    assert code == 0, output
    assert "load_embedder" in output
    queries = pd.read_csv(Path(study.studies, "one", "queries.csv"))
    data = load(learner.spec.origin, learner.spec.look.cache_size)
    vectors = load_embedder(tmp_path / "model")([data.pixels[i] for i in queries["image"]])
    cosines = vectors @ vectors.T - 9 * (queries.index.to_numpy()[:, None] == queries.index.to_numpy())
    hits = queries["class"].to_numpy()[cosines.argmax(axis=1)] == queries["class"]
    assert hits.mean() == pytest.approx(queries["recall_at_1"].mean(), abs=0.005)
    for words, sentence in (
        (("one", label[:-1], "--studies", study.studies), f"Did you mean '{label}'?"),
        (("one", label, "--seed", "7", "--studies", study.studies), "no finished final trial of seed 7; it has 0."),
        (("two", label, "--studies", study.studies), "Unknown study 'two'."),
        (("one", label, "--studies", str(tmp_path / "none")), "holds no study."),
    ):
        code, output = run(*words)
        assert code == 2
        assert sentence in output
