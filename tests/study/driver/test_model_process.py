"""Networks are logged while a study runs, and what is missing at its end is logged then."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from analysis.record.record import Record
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId
from analysis.report.model_process import ModelProcess, log_here
from analysis.tracking import open_store
from study.config.complete_losses import CompleteLosses
from study.config.plan import expand
from study.driver.folder import tracking_uri
from study.driver.mlflow_mirror import MlflowMirror
from tests.conftest import MakeConfig
from tests.study.cli.test_export import write
from tests.support.events import study_started, trial_ended, trial_started


def test_a_loss_is_complete_with_its_last_trial_and_test_feedback_does_not_count(
    config: MakeConfig,
) -> None:
    plan = expand(config(losses=["triplet", "margin"]))
    (cell,) = [c for c in plan.cells if (c.loss, c.protocol) == ("triplet", "fixed_validation")]
    state, complete = StudyState([study_started()]), CompleteLosses(plan)
    searches, finals = plan.trials(cell)
    trials = [TrialId(cell, "search", number) for number in range(searches)]
    trials += [TrialId(cell, "final", number) for number in range(1, finals + 1)]
    found = []
    for trial in trials:
        state.apply(trial_started(trial))
        state.apply(trial_ended(trial))
        found.append(complete.grew(state))
    assert found == [False] * (len(trials) - 1) + [True]
    assert complete.losses == {"triplet"}
    assert not complete.grew(state)


def models(uri: str) -> int:
    client = open_store(uri)
    return len(client.search_logged_models([client.get_experiment_by_name("one").experiment_id]))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_process_logs_networks_while_the_study_runs_and_each_once(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], name="one")
    write(study)
    folder, uri = Path(study.studies, "one"), tracking_uri(study)
    with closing(Record(folder)) as record:
        MlflowMirror(expand(study), record).close()
    with closing(ModelProcess()) as process:
        process._start()
        process.offer(uri, folder, {"margin"})
        process.offer(uri, folder, {"triplet"})
        process.ask_models(uri, folder, "best")
        assert process.missing(uri, folder, "best") == ""
    assert models(uri) == 1
    assert log_here(uri, folder, "best") == ""
    assert models(uri) == 1, "nothing is logged twice"


def test_a_study_that_mlflow_does_not_have_is_one_sentence(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], name="one")
    write(study)
    said = log_here(tracking_uri(study), Path(study.studies, "one"), "best")
    assert "does not have all networks: it has no study 'one'; `fairtrial run one" in said
    assert "--resume --set studies=" in said
    assert log_here(tracking_uri(study), Path(study.studies, "none"), "none") == ""
