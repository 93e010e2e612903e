"""The folder of a study: whose it is, how it is found, its config, splits and readings."""

from __future__ import annotations

import csv
import os
import stat
from pathlib import Path

import pytest
import yaml

from analysis.record import events
from analysis.record.events import StudyFinished
from analysis.record.ledger import LEDGER, Ledger
from analysis.record.state import AuditLine, StudyState
from analysis.record.trial_id import TrialId
from study.config.plan import expand
from study.driver.folder import (
    CONFIG,
    READINGS,
    SPLITS,
    config_of,
    config_yaml,
    find_study,
    make_private,
    mlflow_files,
    new_folder,
    old_folder,
    studies_in,
    tracking_uri,
    write_readings,
    write_splits,
)
from study.driver.lease import Lease
from study.errors import PreflightError
from tests.conftest import MakeConfig
from tests.support.events import CELL, study_resumed, study_started, trial_started
from tests.support.record import WrittenStudy


def test_the_config_in_the_study_folder_is_the_whole_one(config: MakeConfig) -> None:
    study = config(tracking_uri="https://me:secret@there")
    assert yaml.safe_load(config_yaml(study))["tracking_uri"] == "https://me:secret@there"


def test_the_splits_are_files_of_the_study(config: MakeConfig, tmp_path: Path) -> None:
    study = config(protocols=["default", "fixed_validation:0.2"], searches=2)
    plan = expand(study)
    write_splits(plan, tmp_path)
    protocols = ("default", "fixed_validation-0.2")
    names = {f"sketches-{part}.json" for part in protocols}
    names |= {"sketches-fixed_validation-0.2-replicate2.json"}
    assert {path.name for path in (tmp_path / SPLITS).iterdir()} == names
    first, second = (plan.final_seeds(each)[0] for each in plan.replicates)
    used = plan.spec(plan.cells[1], "final", second, {}).splits
    assert used != plan.spec(plan.cells[1], "final", first, {}).splits
    path = tmp_path / SPLITS / "sketches-fixed_validation-0.2-replicate2.json"
    again = config(split_file=str(path))
    assert expand(again).splits("sketches", "fixed_validation") == used


def test_the_readings_are_lines_of_a_file_and_without_any_there_is_none(tmp_path: Path) -> None:
    final = TrialId(CELL, "final", 1)
    state = StudyState([study_started(), trial_started(final)])
    write_readings(tmp_path, state)
    assert not (tmp_path / READINGS).exists()
    state.apply(events.TestRead(trial=str(final), reads=[("1 2", "refit"), ("2", "last-epoch")]))
    write_readings(tmp_path, state)
    with (tmp_path / READINGS).open(newline="") as file:
        lines = list(csv.reader(file))
    head = [str(CELL), "final-1", "1"]
    assert lines == [[*AuditLine._fields], [*head, "1 2", "refit"], [*head, "2", "last-epoch"]]


def test_a_finished_study_is_never_overwritten(config: MakeConfig) -> None:
    study = config(name="mine")
    folder = new_folder(study)
    folder.mkdir(parents=True)
    ledger = Ledger(folder)
    ledger.append(study_started())
    assert old_folder(study) == folder
    with pytest.raises(
        ValueError, match=r"'mine' was started before and did not finish.*--name mine-2"
    ) as begun:
        new_folder(study)
    assert f"`fairtrial run mine --resume --set studies={folder.parent}` resumes it" in str(
        begun.value
    )
    with Lease(folder), pytest.raises(ValueError, match=r"'mine' is running.*status mine --watch"):
        new_folder(study)
    ledger.append(StudyFinished())
    with pytest.raises(ValueError, match=r"'mine' is finished.*fairtrial report mine"):
        new_folder(study)
    (folder.parent / "mine-2").mkdir()
    with pytest.raises(ValueError, match="--name mine-3"):
        new_folder(study)


@pytest.mark.parametrize("torn", [None, b"", b'{"event": "stu'])
def test_a_study_whose_driver_was_killed_before_its_first_line_is_begun_anew(
    config: MakeConfig, torn: bytes | None
) -> None:
    study = config(name="mine")
    folder = new_folder(study)
    folder.mkdir(parents=True)
    for name in ("config.yaml", "config.yaml.new", "driver.json", "driver.json.123"):
        (folder / name).write_text("")
    (folder / SPLITS).mkdir()
    if torn is not None:
        (folder / LEDGER).write_bytes(torn)
    assert new_folder(study) == folder
    with pytest.raises(ValueError, match="leave out --resume to start it"):
        old_folder(study)


def test_a_folder_of_something_else_is_left_alone(config: MakeConfig) -> None:
    study = config(name="mine")
    new_folder(study).mkdir(parents=True)
    (new_folder(study) / "holiday.jpg").touch()
    with pytest.raises(ValueError, match=r"is not a study folder: it contains holiday\.jpg"):
        new_folder(study)


def test_a_studys_folder_is_closed_to_others_however_it_was_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for folder in (tmp_path, tmp_path / "made" / "anew"):
        make_private(folder)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert [path.name for path in folder.iterdir()] == []


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.stat

    def theirs(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)
        return os.stat_result([*found[:4], 12345, *found[5:]]) if path == tmp_path else found

    monkeypatch.setattr(Path, "stat", theirs)
    with pytest.raises(PreflightError, match=f"belongs to user 12345, not {os.getuid()}; chown it"):
        make_private(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PreflightError, match="The studies folder must be writable"):
        make_private(tmp_path / "file" / "mine")


def test_the_embedded_store_lies_in_the_studies_folder(config: MakeConfig, tmp_path: Path) -> None:
    assert tracking_uri(config()) == f"sqlite:///{tmp_path / 'studies' / 'mlflow.db'}"
    assert mlflow_files(config(name="mine")) == tmp_path / "studies" / "mlartifacts" / "mine"
    served = config(tracking_uri="http://there")
    assert (tracking_uri(served), mlflow_files(served)) == ("http://there", None)


def test_studies_are_found_by_name_by_path_and_the_last_written_without_one(
    tmp_path: Path,
) -> None:
    for number, name in enumerate(("old", "new")):
        (tmp_path / name).mkdir()
        Ledger(tmp_path / name).append(study_started())
        os.utime(tmp_path / name / LEDGER, (number, number))
    (tmp_path / "waits").mkdir()
    (tmp_path / "waits" / LEDGER).touch()
    assert [path.name for path in studies_in(tmp_path)] == ["new", "old"]
    with Lease(tmp_path / "waits"):
        assert tmp_path / "waits" in studies_in(tmp_path)
    assert find_study(tmp_path, "old") == tmp_path / "old"
    assert find_study(tmp_path, None) == tmp_path / "new"
    assert find_study(tmp_path / "elsewhere", str(tmp_path / "old")) == tmp_path / "old"
    with pytest.raises(ValueError, match=r"holds no study 'older'. It holds: new, old\."):
        find_study(tmp_path, "older")
    with pytest.raises(ValueError, match="`fairtrial run quickstart` makes one"):
        find_study(tmp_path / "elsewhere", None)


def test_a_config_that_the_power_cut_short_is_made_again_from_the_ledger(
    config: MakeConfig,
) -> None:
    written = WrittenStudy(config(losses=["triplet"], name="mine", reproductions=2))
    written.begin()
    path, first = written.folder / CONFIG, written.plan.config
    whole = path.read_text()
    for length in (0, len(whole) // 2, len(whole) - 1):
        path.write_text(whole[:length])
        written.record.note(study_resumed(grows={"reproductions": 3}))
        found = config_of(written.folder)
        elsewhere = {name: getattr(first, name) for name in ("slots", "log_models")}
        assert found.model_copy(update={"reproductions": 2, **elsewhere}) == first
        assert config_of(written.folder).reproductions == 3
    path.write_text(whole)
    config_of(written.folder)
    assert path.read_text() == whole, "one that is whole is left alone"
