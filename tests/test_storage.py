"""The files of a study: config, splits, checkpoints."""

from __future__ import annotations

from pathlib import Path

import torch
import yaml

from study.storage import checkpoints, config_yaml, newest, next_attempt, trial_folder, write_splits
from tests.conftest import MakeConfig
from trainables.artifacts import SEAL, STATE, write

KEY = "sketches/tiny-16/margin@mine/fixed_validation:0.2/search-3"


def test_the_config_in_the_study_folder_is_the_whole_one(config: MakeConfig) -> None:
    study = config(tracking_uri="https://me:secret@there")
    assert yaml.safe_load(config_yaml(study))["tracking_uri"] == "https://me:secret@there"


def test_the_splits_are_files_of_the_study(config: MakeConfig, tmp_path: Path) -> None:
    study = config(protocols=["default", "fixed_validation:0.2"], resplit=True, reproductions=2)
    write_splits(study, tmp_path / "splits")
    names = {f"sketches-{part}.json" for part in ("default", "fixed_validation-0.2")}
    names |= {f"sketches-{part}-seed{seed}.json" for part in ("default", "fixed_validation-0.2") for seed in (1, 2)}
    assert {path.name for path in (tmp_path / "splits").iterdir()} == names
    used = study.spec(study.cells()[1], "final", 2, {}).splits
    assert used != study.spec(study.cells()[1], "final", 1, {}).splits
    again = config(split_file=str(tmp_path / "splits" / "sketches-fixed_validation-0.2-seed2.json"))
    assert again.splits("sketches", "fixed_validation") == used


def checkpoint(folder: Path, driver: int, number: int, epoch: int) -> Path:
    path = folder / "ray" / str(driver) / trial_folder(KEY) / f"checkpoint_{number:06}"
    path.mkdir(parents=True)
    write(path, {"state": {"rows": [{}] * epoch, "weights": torch.zeros(3)}, "artifacts": {}})
    return path


def test_a_trial_goes_on_from_its_newest_checkpoint_whichever_driver_made_it(tmp_path: Path) -> None:
    for driver, number, epoch in ((1, 9, 9), (2, 0, 10), (10, 0, 11)):
        checkpoint(tmp_path, driver, number, epoch)
    assert next_attempt(tmp_path) == 11
    assert [path.parts[-3] for path in checkpoints(tmp_path, KEY)] == ["1", "2", "10"]
    assert newest(tmp_path, KEY) == checkpoints(tmp_path, KEY)[-1]
    assert newest(tmp_path, KEY, epoch=10) == checkpoints(tmp_path, KEY)[-2]  # the ledger reaches no further
    assert newest(tmp_path, KEY, epoch=3) is None
    assert newest(tmp_path, KEY + "0") is None


def test_a_checkpoint_that_is_not_all_there_is_passed_over(tmp_path: Path) -> None:
    whole = checkpoint(tmp_path, 1, 1, 1)
    torn, unsealed, empty = (checkpoint(tmp_path, 1, number, number) for number in (2, 3, 4))
    (torn / STATE).write_bytes((torn / STATE).read_bytes()[:-10])
    (unsealed / SEAL).unlink()
    (empty / SEAL).write_text("")
    assert newest(tmp_path, KEY) == whole


def test_every_trial_has_a_folder_of_its_own() -> None:
    assert trial_folder(KEY) == "sketches-tiny-16-margin@mine-fixed_validation-0.2-search-3"
