"""An MLflow store gives the same frames as the record that it was exported from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis import read_study
from analysis.record.ledger import Ledger, LedgerReader
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId
from analysis.tracking import Tracker, TrackingError, open_store
from analysis.tracking.write import STARTED
from benchmarks.outage import Server
from tests.support.events import CELL, epoch_done, study_resumed, trial_ended, trial_started
from tests.support.frames import assert_same
from tests.support.synthetic_study import everything, write_mlflow, write_study


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_study(tmp_path_factory.mktemp("studies"), everything())


@pytest.fixture(scope="module")
def uri(home: Path) -> str:
    return write_mlflow(home)


@pytest.fixture(scope="module")
def server(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real MLflow server over the same store."""
    server = Server(uri, tmp_path_factory.mktemp("artifacts"))
    yield server.uri
    server.kill()


def test_a_store_gives_the_frames_of_the_record(home: Path, uri: str) -> None:
    rows = read_study(home)
    assert len(rows.trials) == len(everything())
    assert len(rows.queries) > 500
    assert_same(rows, read_study(uri, "made"))


def test_a_server_gives_them_too(home: Path, server: str) -> None:
    assert_same(read_study(home), read_study(server, "made"))


def test_a_trial_that_diverged_under_a_second_driver_is_the_same_in_both(tmp_path: Path) -> None:
    """Its last epoch has no score, and its driver ran other code than the first one's."""
    home = write_study(tmp_path, everything()[:1])
    spec = next(iter(StudyState(LedgerReader(home).read()).trials.values())).started.spec
    ledger, trial = Ledger(home), TrialId(CELL, "search", 5)
    ledger.append(study_resumed(code={"torch": "3"}, commit="second"))
    ledger.append(trial_started(trial, spec=spec))
    ledger.append(epoch_done(trial, 1, metrics={"select/recall_at_1": 0.1, "seconds": 1.0}))
    ledger.append(epoch_done(trial, 2, metrics={"seconds": 2.0}, diverged=True))
    ledger.append(trial_ended(trial, outcome="diverged"))
    ledger.close()
    rows = read_study(home)
    assert rows.trials["git"].tolist() == ["", "second"]
    assert ["torch=3" in line for line in rows.trials["versions"]] == [False, True]
    scores = rows.curves[rows.curves["run_id"].eq(str(trial))]
    assert scores.groupby("metric")["epoch"].max().to_dict() == {
        "select/recall_at_1": 1,
        "seconds": 2,
    }
    assert_same(rows, read_study(write_mlflow(home), "made"))


def test_of_an_epoch_that_was_written_twice_the_later_counts(tmp_path: Path) -> None:
    home = write_study(tmp_path, everything()[:1])
    uri = write_mlflow(home)
    tracker = Tracker(uri, "made", artifacts=None, resumed=True)
    (run,) = read_study(home).trials["run_id"]
    late = 2**42
    tracker.log_points(run, [("select/recall_at_1", 0.75, 1, late)])
    curves = read_study(uri, "made").curves
    mine = curves[(curves["metric"] == "select/recall_at_1") & (curves["epoch"] == 1)]
    assert mine["value"].tolist() == [0.75]


def test_runs_of_an_earlier_version_are_refused_in_a_sentence(tmp_path: Path) -> None:
    uri = write_mlflow(write_study(tmp_path, everything()[:1]))
    client = open_store(uri)
    experiment = client.get_experiment_by_name("made")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], "tags.kind = 'trial'")
    client.delete_tag(run.info.run_id, STARTED)
    with pytest.raises(TrackingError, match=r"was written by Fair Trial 0\.5 or earlier"):
        read_study(uri, "made")
