"""An audit scores what a search kept as a final trial would have scored it, and closes the
search.
"""

from __future__ import annotations

import csv
import errno
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.record import events
from analysis.record.events import CheckpointAudited, EpochDone, StudyFinished
from analysis.record.kept_files import KEPT
from analysis.record.ledger import LEDGER, Ledger, LedgerReader
from analysis.record.record import Record
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId
from analysis.tracking.read import read_mlflow
from study.__main__ import app
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.checkpoint_audit import audit_checkpoints
from study.driver.checkpoints import RAY, keep_outputs
from study.driver.folder import CONFIG, config_yaml, tracking_uri
from study.driver.mlflow_mirror import MlflowMirror
from study.driver.resume import check_same, identity
from study.driver.tune_callback import TuneCallback
from study.search.cell_search import TrialAssignment
from tests.conftest import MakeConfig
from tests.support.events import epoch_done, trial_ended
from trainables.contract import FinalRow, Outputs
from trainables.outputs.artifacts import OUTPUTS, write_outputs
from trainables.training.learner import Learner
from trainables.workers.worker import Worker


def finished(config: StudyConfig) -> Path:
    """Run a study of two search trials here; the second is stopped after its first epoch."""
    plan = expand(config)
    folder = Path(config.studies) / config.name
    folder.mkdir(parents=True)
    (folder / CONFIG).write_text(config_yaml(config))
    record = Record(folder)
    record.note(identity(plan, total=2))
    mirror = MlflowMirror(plan, record)
    for number, epochs in enumerate((3, 1)):
        trial = TrialId(plan.cells[0], "search", number)
        setting = plan.published("contrastive") | {"loss.margin": 0.3 + number / 10}
        spec = plan.spec(trial.cell, "search", config.seed, setting)
        TuneCallback(plan, record).assigned(TrialAssignment(trial, spec))
        worker = Worker()
        worker.begin(spec)
        for _ in range(epochs):
            row = worker.step()
            about = {"score": row["score"], "metrics": row["metrics"]}
            record.note(epoch_done(trial, row["epoch"], **about))
        path = folder / RAY / "1" / trial.folder / OUTPUTS
        write_outputs(path, worker.outputs())
        keep_outputs(folder, trial, config)
        outcome = "finished" if epochs == 3 else "stopped early"
        record.note(trial_ended(trial, outcome=outcome, epoch=epochs, **about))
    record.note(StudyFinished())
    mirror.close()
    record.close()
    return folder


def audit(study: StudyConfig, folder: Path) -> int:
    return audit_checkpoints(expand(study), folder)


def exported(study: StudyConfig) -> Any:
    return read_mlflow(tracking_uri(study), study.name).trials.set_index("trial")


def past_of(folder: Path) -> list[events.AnyEvent]:
    return LedgerReader(folder).read()


@pytest.fixture
def study(config: MakeConfig) -> StudyConfig:
    return config(
        losses=["contrastive"],
        protocols=["fixed_validation"],
        epochs=3,
        search_trials=2,
        keep_checkpoints=True,
        baselines=False,
    )


def test_what_was_kept_is_scored_as_a_final_trial_of_that_seed_and_setting_is(
    study: StudyConfig,
) -> None:
    plan = expand(study)
    folder = finished(study)
    assert audit(study, folder) == 2
    trials = exported(study)
    for number, epochs in enumerate((3, 1)):
        setting = plan.published("contrastive") | {"loss.margin": 0.3 + number / 10}
        spec = plan.spec(plan.cells[0], "final", study.seed, setting)
        worker = Worker()
        worker.begin(
            replace(
                spec,
                training=replace(spec.training, epochs=epochs),
                outputs=Outputs(last=False, embeddings=False),
            )
        )
        for _ in range(epochs + 1):
            row = worker.step()
        for name in ("recall_at_1", "map_at_r"):
            assert trials.loc[f"search-{number}", f"audit/{name}"] == row["metrics"][f"test/{name}"]
    with (folder / "readings.csv").open() as file:
        assert [(line["trial"], line["epoch"]) for line in csv.DictReader(file)] == [
            ("search-0", "3"),
            ("search-1", "1"),
        ]


def test_both_scores_and_the_line_in_the_readings_are_those_of_each_folds_chosen_epoch(
    config: MakeConfig,
) -> None:
    """A learning rate so high that the first epoch is the best of three."""
    more = {
        "epochs": 3,
        "search_trials": 2,
        "keep_checkpoints": True,
        "baselines": False,
        "learning_rate": 0.03,
    }
    study = config(losses=["contrastive"], protocols=["k_fold:2"], **more)
    folder = finished(study)
    audit(study, folder)
    rows = [event.metrics for event in past_of(folder) if isinstance(event, EpochDone)][:3]
    curves = [[row[f"fold{fold}/select/recall_at_1"] for row in rows] for fold in (0, 1)]
    best = [curve.index(max(curve)) for curve in curves]
    assert best != [2, 2]
    trial = exported(study).loc["search-0"]
    for name in ("recall_at_1", "map_at_r"):
        assert trial[f"audit/select/{name}"] == pytest.approx(
            sum(rows[e][f"fold{i}/select/{name}"] for i, e in enumerate(best)) / 2
        )
    assert (
        trial["select/recall_at_1"]
        == rows[2]["select/recall_at_1"]
        != pytest.approx(trial["audit/select/recall_at_1"])
    )
    with (folder / "readings.csv").open() as file:
        assert next(csv.DictReader(file))["epoch"] == " ".join(str(epoch + 1) for epoch in best)


def test_an_audit_closes_the_search_and_is_not_made_twice(study: StudyConfig) -> None:
    folder = finished(study)
    audit(study, folder)
    with pytest.raises(ValueError, match="has no search trials left to audit"):
        audit(study, folder)
    state = StudyState(past_of(folder))
    more = study.model_copy(update={"search_trials": 5})
    with pytest.raises(ValueError, match="closes the search"):
        check_same(state, identity(expand(more), total=5))
    longer = study.model_copy(update={"reproductions": 4})
    assert check_same(state, identity(expand(longer), total=5)) == {"reproductions": 4}


def test_only_a_finished_study_that_kept_its_checkpoints_is_audited(
    study: StudyConfig, config: MakeConfig
) -> None:
    other = config(
        losses=["contrastive"],
        protocols=["fixed_validation"],
        name="kept-nothing",
        epochs=3,
        search_trials=2,
        baselines=False,
    )
    with pytest.raises(ValueError, match="kept no checkpoints"):
        audit(other, finished(other))
    folder = finished(study)
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join(lines[:-1]))
    with pytest.raises(ValueError, match="Only a finished study is audited"):
        audit(study, folder)


def test_each_reading_is_on_the_disk_before_it_happens(
    study: StudyConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = finished(study), Learner.read_test
    noted: list[int] = []

    def reads(learner: Learner) -> FinalRow:
        noted.append(sum(isinstance(event, events.TestRead) for event in past_of(folder)))
        return read(learner)

    monkeypatch.setattr(Learner, "read_test", reads)
    audit(study, folder)
    assert noted == [1, 2]


def test_on_a_disk_that_takes_no_line_no_test_class_is_read(
    study: StudyConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, read = finished(study), list[Learner]()

    def full(ledger: Ledger, line: bytes) -> None:
        ledger.failure = OSError(errno.ENOSPC, "No space left on device", str(ledger.path))

    monkeypatch.setattr(Ledger, "_write", full)
    monkeypatch.setattr(Learner, "read_test", read.append)
    with pytest.raises(OSError, match="No space left"):
        audit(study, folder)
    assert not read


def test_a_trial_that_left_no_state_is_passed_over(study: StudyConfig) -> None:
    folder = finished(study)
    (first,) = (folder / KEPT).glob("*search-0")
    shutil.rmtree(first)
    assert audit(study, folder) == 1
    audited = [event.trial for event in past_of(folder) if isinstance(event, CheckpointAudited)]
    assert [TrialId.parse(trial).name for trial in audited] == ["search-1"]


def test_it_asks_first(study: StudyConfig) -> None:
    finished(study)
    words = ["audit", study.name, "--studies", study.studies]
    assert CliRunner().invoke(app, words, input="n\n").exit_code == 1
    done = CliRunner().invoke(app, words, input="y\n")
    assert done.exit_code == 0, done.output
    assert "Scored 2 search trials" in done.output
