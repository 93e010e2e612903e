"""What a study gives to other programs, read back with those programs."""

from __future__ import annotations

from pathlib import Path

import optuna
import pandas as pd
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from analysis.bridges.optuna_studies import write_optuna
from analysis.bridges.parquet_frames import write_parquet
from analysis.bridges.tensorboard_events import write_tensorboard
from analysis.record.frames import StudyRows, read_record
from tests.conftest import MakeConfig
from tests.support.record import WrittenStudy
from tests.support.synthetic_study import empty


@pytest.fixture
def rows(config: MakeConfig) -> StudyRows:
    written = WrittenStudy(config(losses=["triplet"], name="bridged", select_metric="recall_at_1"))
    written.begin()
    written.finish()
    return read_record(written.folder)


def test_optuna_has_every_search_with_its_settings_and_curves(
    rows: StudyRows, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    (name,) = write_optuna(rows, url)
    assert name == "bridged/triplet/fixed_validation/replicate 1"
    (trial,) = optuna.load_study(study_name=name, storage=url).trials
    search = rows.trials[rows.trials["role"] == "search"].iloc[0]
    assert trial.params == pytest.approx(search["setting"])
    assert trial.state.name == "COMPLETE"
    mine = rows.curves[rows.curves["run_id"] == search["run_id"]]
    metric = rows.spec(search["run_id"])["training"]["select_metric"]
    curve = mine[mine["metric"] == f"select/{metric}"]
    assert trial.intermediate_values == dict(zip(curve["epoch"], curve["value"], strict=True))
    assert trial.value == max(curve["value"])
    assert trial.user_attrs["trial"] == "search-0"
    assert int(trial.datetime_start.timestamp() * 1000) == search["start"]


def test_a_second_export_replaces_the_first_and_nothing_else(
    rows: StudyRows, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    optuna.create_study(study_name="mine", storage=url)
    for _ in range(2):
        (name,) = write_optuna(rows, url)
    assert sorted(optuna.get_all_study_names(url)) == sorted(["mine", name])
    assert len(optuna.load_study(study_name=name, storage=url).trials) == 1
    optuna.delete_study(study_name=name, storage=url)
    optuna.create_study(study_name=name, storage=url)
    with pytest.raises(ValueError, match="that this command did not write; choose another"):
        write_optuna(rows, url)


def test_what_is_no_database_and_a_study_without_searches_are_refused(
    rows: StudyRows, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"^--optuna takes the address of a database, as in sql"):
        write_optuna(rows, "nonsense://x")
    with pytest.raises(ValueError, match="has no search trials"):
        write_optuna(empty(), f"sqlite:///{tmp_path / 'optuna.db'}")


def test_tensorboard_has_the_curve_of_every_trial(rows: StudyRows, tmp_path: Path) -> None:
    for _ in range(2):  # a second time adds nothing
        assert write_tensorboard(rows, tmp_path) == 3
    home = tmp_path / "triplet" / "fixed_validation"
    assert sorted(path.name for path in home.iterdir()) == ["final-1", "final-2", "search-0"]
    events = EventAccumulator(str(home / "final-2"))
    events.Reload()
    points = events.Scalars("select/recall_at_1")
    assert [point.step for point in points] == [1, 2, 3]
    assert [point.value for point in points] == pytest.approx([0.1, 0.2, 0.3])
    (test,) = events.Scalars("test/recall_at_1")
    assert (test.step, test.value) == (3, pytest.approx(0.2))


def test_parquet_has_the_frames(rows: StudyRows, tmp_path: Path) -> None:
    files = write_parquet(rows, tmp_path / "frames")
    assert [file.name for file in files] == ["trials.parquet", "curves.parquet", "queries.parquet"]
    trials, curves, queries = (pd.read_parquet(file) for file in files)
    assert trials["run_id"].tolist() == rows.trials["run_id"].tolist()
    margins = [setting["margin"] for setting in rows.trials["setting"]]
    assert trials["setting.margin"].tolist() == margins
    pd.testing.assert_frame_equal(curves, rows.curves, check_dtype=False)
    assert len(queries) == len(rows.queries) == 2
