"""What MLflow shows of a study: names that differ early, descriptions, dataset, source, times."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.record.events import TrialEnded, TrialStarted
from analysis.record.ledger import LedgerReader
from analysis.record.state import TrialState
from analysis.record.trial_id import TrialId
from analysis.tracking import open_store
from analysis.tracking.experiment import NOTE
from analysis.tracking.shown import cell_name, chosen_points, params, question, trial_name
from study.config.plan import expand
from study.config.study_config import make
from study.driver.folder import tracking_uri
from study.driver.mlflow_mirror import MlflowMirror
from study.presets import SMOKE
from tests.conftest import MakeConfig
from tests.support.events import epoch_done, trial_started
from tests.support.record import WrittenStudy
from tests.support.studies import from_scratch


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[WrittenStudy, Any, list[Any]]:
    """A finished study, its experiment, and its runs."""
    about = {"studies": str(tmp_path_factory.mktemp("shown")), "searches": 1, "reproductions": 2}
    written = WrittenStudy(
        make(from_scratch() | SMOKE | about | {"losses": ["triplet"], "name": "s"})
    )
    written.begin()
    mirror = written.mirror()
    written.finish()
    mirror.close()
    client = open_store(tracking_uri(written.plan.config))
    experiment = client.get_experiment_by_name("s")
    return written, experiment, list(client.search_runs([experiment.experiment_id]))


def of_kind(runs: list[Any], kind: str) -> list[Any]:
    return [run for run in runs if run.data.tags["kind"] == kind]


def test_names_differ_in_their_first_letters(config: MakeConfig) -> None:
    plan = expand(config(losses=["triplet", "proxy_anchor"], searches=2))
    about = plan.config.model_dump(mode="json")
    cell = next(cell for cell in plan.cells if cell.loss == "proxy_anchor")
    assert trial_name(about, TrialId(cell, "search", 3, replicate=2)) == (
        f"proxy_anchor · {cell.protocol} · replicate 2 · search 3"
    )
    several = expand(config(losses=["triplet"], embedding_size=[8, 16]))
    axes = several.config.model_dump(mode="json")
    assert cell_name(axes, several.cells[-1]) == "triplet · 16 · fixed_validation"
    assert params(axes, several.cells[-1]) == {
        "embedding_size": 16,
        "loss": "triplet",
        "protocol": "fixed_validation",
    }
    assert params(about, cell).keys() == {"loss", "protocol"}
    (baseline, *_) = plan.baseline_specs()
    assert cell_name(about, baseline.cell).startswith(baseline.cell.backbone)


def test_the_experiment_is_one_of_model_training_and_says_what_it_asks(
    shown: tuple[WrittenStudy, Any, list[Any]],
) -> None:
    written, experiment, _ = shown
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    note = experiment.tags[NOTE]
    assert note.startswith(question(written.record.state.config))
    assert "How good is triplet on sketches" in note
    assert "`fairtrial report s` writes the answer" in note


def test_a_run_has_description_source_user_and_dataset(
    shown: tuple[WrittenStudy, Any, list[Any]],
) -> None:
    _, _, runs = shown
    assert len(of_kind(runs, "trial")) == 3
    for run in runs:
        tags = run.data.tags
        assert tags["mlflow.user"]
        assert tags["mlflow.source.name"] == "fairtrial run s"
        (given,) = run.inputs.dataset_inputs
        assert given.dataset.name == "sketches"
        assert tags["data"].startswith(given.dataset.digest)
        assert json.loads(given.dataset.profile)["classes"] > 100
    (final, *_) = [r for r in of_kind(runs, "trial") if r.data.tags["phase"] == "final"]
    note = final.data.tags[NOTE]
    assert note.startswith("Final trial")
    assert "epoch 2 chosen" in note
    assert {"loss", "protocol", "loss.margin"} <= final.data.params.keys()
    assert "dataset" not in final.data.params, "there is only one"


def test_durations_are_the_trials_own(shown: tuple[WrittenStudy, Any, list[Any]]) -> None:
    written, _, runs = shown
    past = LedgerReader(written.folder).read()
    began = {event.trial: event.at for event in past if isinstance(event, TrialStarted)}
    ended = {event.trial: event.at for event in past if isinstance(event, TrialEnded)}
    for run in of_kind(runs, "trial"):
        key = run.data.tags["fairtrial.key"]
        assert (run.info.start_time, run.info.end_time) == (began[key], ended[key])
    (cell,) = of_kind(runs, "cell")
    assert cell.info.start_time == min(began.values())
    assert cell.info.end_time == max(ended.values())


def test_the_chosen_epoch_is_a_point_at_its_step(
    shown: tuple[WrittenStudy, Any, list[Any]],
) -> None:
    written, _, runs = shown
    client = open_store(tracking_uri(written.plan.config))
    (final, *_) = [r for r in of_kind(runs, "trial") if r.data.tags["phase"] == "final"]
    (point,) = client.get_metric_history(final.info.run_id, "chosen/recall_at_1")
    assert (point.step, point.value) == (2, pytest.approx(0.2))


def test_every_fold_has_its_own_chosen_epoch(config: MakeConfig) -> None:
    trial = TrialId(expand(config(losses=["triplet"])).cells[0], "final", 1)
    state = TrialState(trial_started(trial))
    for epoch in (1, 2):
        scores = {"select/map_at_r": 0.1 * epoch, "fold1/select/map_at_r": 0.2 * epoch}
        chosen = {"chosen_epoch": 1.5, "fold1/chosen_epoch": 1.0} if epoch == 2 else {}
        state.rows.append(epoch_done(trial, epoch, score=0.1, metrics=scores | chosen))
    found = [point[:3] for point in chosen_points(state.rows)]
    assert found == [("chosen/fold1/map_at_r", pytest.approx(0.2), 1)]


def test_the_store_is_closed_to_others(shown: tuple[WrittenStudy, Any, list[Any]]) -> None:
    written, *_ = shown
    assert (written.folder.parent / "mlflow.db").stat().st_mode & 0o777 == 0o600


def test_a_study_that_never_began_leaves_no_experiment(config: MakeConfig, tmp_path: Path) -> None:
    written = WrittenStudy(config(losses=["triplet"], name="never"))
    uri = tracking_uri(written.plan.config)
    MlflowMirror(written.plan, written.record).close()  # as when Ray does not start
    assert open_store(uri).get_experiment_by_name("never") is None
    written.begin()
    mirror = written.mirror()
    written.finish()
    mirror.close()
    written.check(finished=True)
