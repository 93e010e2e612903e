"""What the driver notes, with Tune's trials played by hand."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from rich.console import Console

from study.audit import Audit
from study.live import View
from study.recorder import Recorder, config_yaml, start_cells, write_splits
from study.splits import read_splits
from tests.conftest import MakeConfig
from trainables.contract import Leaves


class Notes:
    """In the tracker's place: remembers the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, dict[str, Any]]] = []

    def __getattr__(self, verb: str) -> Any:
        return lambda key, *args, **more: self.calls.append((verb, key, {"args": args, **more}))

    def of(self, key: str) -> list[str]:
        return [verb for verb, name, _ in self.calls if name == key]


@pytest.fixture
def played(config: MakeConfig, tmp_path: Path) -> SimpleNamespace:
    study = config(losses=["triplet"], tracking_uri="https://me:secret@there")
    notes = Notes()
    cells = start_cells(study, notes)  # type: ignore[arg-type]
    recorder = Recorder(study, notes, View(study, Console(file=io.StringIO())), cells, Audit(tmp_path / "readings.csv"))  # type: ignore[arg-type]
    spec = study.spec(study.cells()[1], "search", 0, study.published("triplet"))
    trial: Any = SimpleNamespace(
        trial_id="t0", config={"spec": spec.as_dict(), "trial": "search-0"}, last_result={"epoch": 2}, error_file="e.txt"
    )
    return SimpleNamespace(
        study=study, notes=notes, recorder=recorder, trial=trial, cell=str(spec.cell), readings=tmp_path / "readings.csv"
    )


def row(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "score": 0.1, "metrics": {"select/best": 0.1}}


def test_a_trial_is_started_written_and_ended_once(played: SimpleNamespace) -> None:
    played.recorder.on_trial_start(0, [], played.trial)
    for epoch in (1, 2):
        played.recorder.on_trial_result(0, [], played.trial, row(epoch))
    played.recorder.on_trial_complete(0, [], played.trial)
    assert played.notes.of("t0") == ["start_trial", "log", "log", "end"]
    assert played.recorder.ended == 1


def test_an_epoch_that_a_retry_runs_again_is_written_once(played: SimpleNamespace) -> None:
    played.recorder.on_trial_start(0, [], played.trial)
    played.recorder.on_trial_result(0, [], played.trial, row(1))
    played.recorder.on_trial_start(0, [], played.trial)
    played.recorder.on_trial_result(0, [], played.trial, row(1))
    played.recorder.on_trial_result(0, [], played.trial, row(2))
    assert played.notes.of("t0") == ["start_trial", "log", "log"]


def test_a_trial_that_failed_before_it_started_still_has_its_run(played: SimpleNamespace) -> None:
    played.trial.last_result = {}
    played.recorder.on_trial_error(0, [], played.trial)
    assert played.notes.of("t0") == ["start_trial", "end"]
    assert played.recorder.failed == played.recorder.ended == 1


@pytest.mark.parametrize(
    ("last", "outcome"),
    [
        ({"epoch": 2}, "finished"),
        ({"epoch": 1}, "stopped early"),
        ({"epoch": 1, "diverged": True}, "diverged"),
        ({"epoch": 1, "out_of_memory": True}, "out of memory"),
    ],
)
def test_the_outcome_is_told(played: SimpleNamespace, last: dict[str, Any], outcome: str) -> None:
    played.recorder.on_trial_start(0, [], played.trial)
    played.trial.last_result = last
    played.recorder.on_trial_complete(0, [], played.trial)
    assert played.notes.calls[-1][2]["tags"]["outcome"] == outcome


def test_every_cell_has_its_config_without_the_password_and_its_splits(played: SimpleNamespace) -> None:
    cells = [call for call in played.notes.calls if call[0] == "start_cell"]
    assert len(cells) == 2 + 2
    for _, _, call in cells:
        assert "secret" not in call["files"]["config.yaml"]
        assert json.loads(call["files"]["splits.json"])


def test_the_config_in_the_study_folder_is_the_whole_one(played: SimpleNamespace) -> None:
    assert yaml.safe_load(config_yaml(played.study))["tracking_uri"] == "https://me:secret@there"


def test_the_splits_are_files_of_the_study(config: MakeConfig, tmp_path: Path) -> None:
    study = config(protocols=["default", "fixed_validation:0.2"], resplit=True, reproductions=2)
    write_splits(study, tmp_path / "splits")
    names = {f"sketches-{part}.json" for part in ("default", "fixed_validation-0.2")}
    names |= {f"sketches-{part}-seed{seed}.json" for part in ("default", "fixed_validation-0.2") for seed in (1, 2)}
    assert {path.name for path in (tmp_path / "splits").iterdir()} == names
    used = study.spec(study.cells()[1], "final", 2, {}).splits
    train, test = study.splits("sketches", "default")[0].train, study.splits("sketches", "default")[0].test
    assert read_splits(tmp_path / "splits" / "sketches-fixed_validation-0.2-seed2.json", "sketches", train, test) == used


def test_every_reading_of_test_classes_is_told(played: SimpleNamespace) -> None:
    """By name: a final trial at its chosen epoch, at its last if asked, the default setup at every epoch; a search trial never."""
    study, trial = played.study, played.trial
    played.recorder.on_trial_start(0, [], trial)
    played.recorder.on_trial_result(0, [], trial, row(1))
    assert not played.readings.exists()

    def end(cell: int, name: str, **changes: Any) -> None:
        spec = replace(study.spec(study.cells()[cell], "final", 1, {}), **changes)
        metrics = {"chosen_epoch": 1.5, "fold0/chosen_epoch": 1, "fold1/chosen_epoch": 2}
        config = {"spec": spec.as_dict(), "trial": name}
        this: Any = SimpleNamespace(
            trial_id=name, config=config, last_result=row(2) | {"metrics": metrics}, checkpoint=SimpleNamespace(path="nowhere")
        )
        played.recorder.on_trial_start(0, [], this)
        played.recorder.on_trial_result(0, [], this, row(1))
        played.recorder.on_trial_complete(0, [], this)

    end(1, "final-1", leaves=Leaves(last=True, embeddings=False))
    end(1, "refit-1", rule="refit")
    end(1, "final-2", splits=study.spec(study.cells()[1], "final", 1, {}).splits * 2)
    end(0, "final-3")
    with played.readings.open() as file:
        told = [(line["trial"], line["epoch"], line["rule"]) for line in csv.DictReader(file)]
    assert told == [
        ("final-1", "1.5", "selected-on-validation"),
        ("final-1", "2", "last-epoch"),
        ("refit-1", "1.5", "refit"),
        ("final-2", "1 2", "selected-on-validation"),
        ("final-3", "1", "best-on-test"),
        ("final-3", "1.5", "best-on-test"),
    ]
