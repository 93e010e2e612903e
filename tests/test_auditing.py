"""An audit scores what a search kept as a final trial would have scored it, and closes the search."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.tracking import read_study
from study import auditing
from study.__main__ import app
from study.auditing import audit
from study.config import StudyConfig
from study.ledger import LEDGER, Ledger, events
from study.mirror import Mirror
from study.preflight import tracking_uri
from study.resume import check_same, identity
from study.search import Given
from study.storage import config_yaml, trial_folder
from tests.conftest import MakeConfig
from trainables.artifacts import write
from trainables.contract import FinalRow, Leaves
from trainables.learner import Learner
from trainables.worker import Worker


def finished(config: StudyConfig) -> Path:
    """A study of two search trials, trained here; the second is stopped after its first epoch."""
    folder = Path(config.studies) / config.name
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(config_yaml(config))
    ledger = Ledger(folder / LEDGER)
    ledger.note("study", **identity(config, {}), total=2)
    mirror = Mirror(config, folder, ledger, resumed=False)
    for number, epochs in enumerate((3, 1)):
        setting = config.published("contrastive") | {"loss.margin": 0.3 + number / 10}
        given = Given(f"search-{number}", config.spec(config.cells()[0], "search", config.seed, setting))
        ledger.note("trial", **given.event())
        worker = Worker()
        worker.begin(given.spec)
        for _ in range(epochs):
            row = worker.step()
            ledger.note("row", key=given.key, epoch=row["epoch"], score=row["score"], metrics=row["metrics"])
        path = folder / "ray" / "1" / trial_folder(given.key) / "checkpoint_000000"
        path.mkdir(parents=True)
        write(path, worker.save())
        outcome = "finished" if epochs == 3 else "stopped early"
        ledger.note("end", key=given.key, outcome=outcome, epoch=epochs, score=row["score"], metrics=row["metrics"], nodes=[])
    ledger.note("finished")
    mirror.close()
    ledger.close()
    return folder


@pytest.fixture
def study(config: MakeConfig) -> StudyConfig:
    return config(losses=["contrastive"], protocols=["fixed_validation"], epochs=3, search_trials=2, keep_checkpoints=True, baselines=False)


def test_what_was_kept_is_scored_as_a_final_trial_of_that_seed_and_setting_is(study: StudyConfig) -> None:
    folder = finished(study)
    assert audit(study, folder) == 2
    trials = read_study(tracking_uri(study), study.name).trials.set_index("trial")
    for number, epochs in enumerate((3, 1)):
        setting = study.published("contrastive") | {"loss.margin": 0.3 + number / 10}
        spec = study.spec(study.cells()[0], "final", study.seed, setting)
        worker = Worker()
        worker.begin(replace(spec, training=replace(spec.training, epochs=epochs), leaves=Leaves(last=False, embeddings=False)))
        for _ in range(epochs + 1):
            row = worker.step()
        for name in ("recall_at_1", "map_at_r"):
            assert trials.loc[f"search-{number}", f"audit/{name}"] == row["metrics"][f"test/{name}"]
    with (folder / "readings.csv").open() as file:
        assert [(line["trial"], line["epoch"]) for line in csv.DictReader(file)] == [("search-0", "3"), ("search-1", "1")]


def test_both_scores_and_the_line_in_the_readings_are_those_of_each_folds_chosen_epoch(config: MakeConfig) -> None:
    """A learning rate so high that the first epoch is the best of three."""
    more = {"epochs": 3, "search_trials": 2, "keep_checkpoints": True, "baselines": False, "learning_rate": 0.03}
    study = config(losses=["contrastive"], protocols=["k_fold:2"], **more)
    folder = finished(study)
    audit(study, folder)
    rows = [event["metrics"] for event in events(folder) if event["event"] == "row"][:3]
    curves = [[row[f"fold{fold}/select/recall_at_1"] for row in rows] for fold in (0, 1)]
    best = [curve.index(max(curve)) for curve in curves]
    assert best != [2, 2]
    trial = read_study(tracking_uri(study), study.name).trials.set_index("trial").loc["search-0"]
    for name in ("recall_at_1", "map_at_r"):
        assert trial[f"audit/select/{name}"] == pytest.approx(sum(rows[e][f"fold{i}/select/{name}"] for i, e in enumerate(best)) / 2)
    assert trial["select/recall_at_1"] == rows[2]["select/recall_at_1"] != pytest.approx(trial["audit/select/recall_at_1"])
    with (folder / "readings.csv").open() as file:
        assert next(csv.DictReader(file))["epoch"] == " ".join(str(epoch + 1) for epoch in best)


def test_an_audit_closes_the_search_and_is_not_made_twice(study: StudyConfig, config: MakeConfig) -> None:
    folder = finished(study)
    audit(study, folder)
    with pytest.raises(ValueError, match="or all of them were"):
        audit(study, folder)
    more = study.model_copy(update={"search_trials": 5})
    with pytest.raises(ValueError, match="closes the search"):
        check_same(events(folder), identity(more, {}))
    assert check_same(events(folder), identity(study.model_copy(update={"reproductions": 4}), {})) == {"reproductions": 4}


def test_only_a_finished_study_that_kept_its_checkpoints_is_audited(study: StudyConfig, config: MakeConfig) -> None:
    other = config(losses=["contrastive"], protocols=["fixed_validation"], name="kept-nothing", epochs=3, search_trials=2, baselines=False)
    with pytest.raises(ValueError, match="kept no checkpoints"):
        audit(other, finished(other))
    folder = finished(study)
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ValueError, match="Only a finished study is audited"):
        audit(study, folder)


def test_each_reading_is_on_the_disk_before_it_happens(study: StudyConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, read = finished(study), Learner.read_test
    noted: list[int] = []

    def reads(learner: Learner) -> FinalRow:
        noted.append(sum(event["event"] == "reading" for event in events(folder)))
        return read(learner)

    monkeypatch.setattr(Learner, "read_test", reads)
    audit(study, folder)
    assert noted == [1, 2]


def test_a_trial_that_left_no_state_is_passed_over(study: StudyConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = finished(study)
    real, asked = auditing.fetch, iter([False, True])
    monkeypatch.setattr(auditing, "fetch", lambda *words: real(*words) if next(asked) else {})
    assert audit(study, folder) == 1
    assert [event["key"].rpartition("/")[2] for event in events(folder) if event["event"] == "audit"] == ["search-1"]


def test_it_asks_first(study: StudyConfig) -> None:
    finished(study)
    words = ["audit", study.name, "--studies", study.studies]
    assert CliRunner().invoke(app, words, input="n\n").exit_code == 1
    done = CliRunner().invoke(app, words, input="y\n")
    assert done.exit_code == 0, done.output
    assert "2 search trials were scored" in done.output
