"""What the driver notes, with Tune's trials played by hand."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial
from rich.console import Console

from analysis.readings import audited
from study import recorder as module
from study.audit import write_readings
from study.ledger import LEDGER, Ledger, events
from study.live import View
from study.recorder import Recorder
from study.run import RETRIES
from study.search import Given
from study.storage import KEPT, checkpoints, kept, trial_folder
from tests.conftest import MakeConfig
from trainables.artifacts import write
from trainables.contract import ARTIFACTS, Rule


@pytest.fixture
def played(config: MakeConfig, tmp_path: Path) -> SimpleNamespace:
    study = config(losses=["triplet"])
    ledger = Ledger(tmp_path / LEDGER)
    view = View(study, Console(file=io.StringIO()))
    recorder = Recorder(ledger, view, {})
    spec = study.spec(study.cells()[1], "search", 0, study.published("triplet"))
    given = {"key": f"{spec.cell}/search-0", "cell": str(spec.cell), "trial": "search-0", "spec": spec.as_dict()}
    trial: Any = SimpleNamespace(
        trial_id="t0", config=given, last_result=row(2) | {"done": True}, error_file="", run_metadata=SimpleNamespace()
    )
    parts = {"study": study, "recorder": recorder, "view": view, "ledger": ledger, "trial": trial, "folder": tmp_path}
    return SimpleNamespace(**parts, readings=tmp_path / "readings.csv")


def row(epoch: int) -> dict[str, Any]:
    return {"epoch": epoch, "score": 0.1, "metrics": {"select/best": 0.1}}


def told(played: SimpleNamespace) -> list[tuple[str, int]]:
    return [(event["event"], event.get("epoch", 0)) for event in events(played.folder)]


def test_a_trial_is_written_row_by_row_and_ended_once(played: SimpleNamespace) -> None:
    played.recorder.on_trial_start(0, [], played.trial)
    for epoch in (1, 2):
        played.recorder.on_trial_result(0, [], played.trial, row(epoch))
    played.recorder.on_trial_complete(0, [], played.trial)
    assert told(played) == [("row", 1), ("row", 2), ("end", 2)]
    assert events(played.folder)[-1]["metrics"] == {"select/best": 0.1}
    assert played.view.ended_trials == 1


def test_every_line_is_on_the_disk_before_its_effect(played: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Effects of a trial's end: its checkpoints go, and the view says so."""
    seen: list[tuple[str, int]] = []

    def effect(*_: Any) -> None:
        seen.append(told(played)[-1])

    monkeypatch.setattr(played.view, "epoch", effect)
    monkeypatch.setattr(played.view, "ended", effect)
    monkeypatch.setattr(module, "drop_checkpoints", effect)
    played.recorder.on_trial_start(0, [], played.trial)
    for epoch in (1, 2):
        played.recorder.on_trial_result(0, [], played.trial, row(epoch))
    played.recorder.on_trial_complete(0, [], played.trial)
    assert seen == [("row", 1), ("row", 2), ("end", 2), ("end", 2)]


def test_an_epoch_that_a_retry_runs_again_is_written_once(played: SimpleNamespace) -> None:
    played.recorder.on_trial_start(0, [], played.trial)
    played.recorder.on_trial_result(0, [], played.trial, row(1))
    played.recorder.on_trial_start(0, [], played.trial)
    played.recorder.on_trial_result(0, [], played.trial, row(1))
    played.recorder.on_trial_result(0, [], played.trial, row(2))
    assert told(played) == [("row", 1), ("row", 2)]
    assert played.view.cells[played.study.cells()[1]].running == 1


def test_a_trial_may_lose_any_number_of_nodes_as_long_as_it_gets_on(played: SimpleNamespace) -> None:
    nowhere: Any = SimpleNamespace(trial_driver_staging_path="")
    trial = Trial("slot", stub=True, config=played.trial.config, max_failures=RETRIES, storage=nowhere)
    for epoch in range(1, 10):
        trial.handle_error(RayActorError())
        assert trial.should_recover()
        played.recorder.on_trial_result(0, [], trial, row(epoch))
    for again in range(RETRIES + 1):
        assert trial.should_recover()
        trial.handle_error(RayActorError())
        played.recorder.on_trial_result(0, [], trial, row(9 - again))  # the same epochs again
    assert not trial.should_recover()


def test_what_an_earlier_driver_wrote_is_not_written_again(played: SimpleNamespace) -> None:
    later = Recorder(played.ledger, played.view, {played.trial.config["key"]: 1})
    later.on_trial_result(0, [], played.trial, row(1))
    later.on_trial_result(0, [], played.trial, row(2))
    assert told(played) == [("row", 2)]


def test_a_trial_that_was_cut_off_has_no_end(played: SimpleNamespace) -> None:
    played.trial.last_result = row(1)
    played.recorder.on_trial_complete(0, [], played.trial)
    assert told(played) == []


def test_a_trial_that_failed_before_it_started_still_ends(played: SimpleNamespace) -> None:
    played.trial.last_result = {}
    played.recorder.on_trial_start(0, [], played.trial)
    played.recorder.on_trial_error(0, [], played.trial)
    assert [(event["event"], event["outcome"]) for event in events(played.folder)] == [("end", "failed")]


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
    played.trial.last_result = row(1) | last | {"done": True}
    played.recorder.on_trial_complete(0, [], played.trial)
    assert events(played.folder)[-1]["outcome"] == outcome


class Told:
    """Trials of one study whose results are told by hand, and the audit that comes of it."""

    def __init__(self, played: SimpleNamespace) -> None:
        self.played, self.recorder = played, played.recorder

    def trial(self, cell: int, name: str, **changes: Any) -> Any:
        study = self.played.study
        phase = "search" if name.startswith("search") else "final"
        spec = replace(study.spec(study.cells()[cell], phase, 1, {}), **changes)
        given = Given(name, spec)
        self.recorder.given(given)
        config = {"key": given.key, "spec": spec.as_dict(), "trial": name}
        trial: Any = SimpleNamespace(trial_id=name, config=config, last_result={}, error_file="", run_metadata=SimpleNamespace())
        self.recorder.on_trial_start(0, [], trial)
        return trial

    def result(self, trial: Any, epoch: int, **more: Any) -> None:
        trial.last_result = row(epoch) | more
        self.recorder.on_trial_result(0, [], trial, trial.last_result)

    def lines(self) -> list[tuple[str, str, str]]:
        write_readings(self.played.folder)
        if not self.played.readings.exists():
            return []
        with self.played.readings.open(newline="") as file:
            return [(line["trial"], line["epoch"], line["rule"]) for line in csv.DictReader(file)]


HONEST, PEEKS = "selected-on-validation", "best-on-test"


def test_every_reading_of_test_classes_is_told(played: SimpleNamespace) -> None:
    """By name: a final trial at its chosen epoch, at its last if asked, the default setup at every epoch; a search trial never."""
    told = Told(played)
    told.result(told.trial(1, "search-0"), 1)
    assert told.lines() == []
    for cell, name, reads in (
        (1, "final-1", [("1", HONEST), ("2", "last-epoch")]),
        (1, "refit-1", [("2", "refit")]),
        (1, "final-2", [("1 2", HONEST)]),
        (0, "final-3", [("1", PEEKS)]),
    ):
        trial = told.trial(cell, name)
        told.result(trial, 1)
        told.result(trial, 2, reads=reads)
        told.result(trial, 2, chosen_epoch=1.5, done=True)
        told.recorder.on_trial_complete(0, [], trial)
    assert told.lines() == [
        ("final-1", "1", HONEST),
        ("final-1", "2", "last-epoch"),
        ("refit-1", "2", "refit"),
        ("final-2", "1 2", HONEST),
        ("final-3", "1", PEEKS),
        ("final-3", "1", PEEKS),
        ("final-3", "2", PEEKS),
    ]
    assert audited(played.folder, get_args(Rule)) == {PEEKS: 3, HONEST: 2, "last-epoch": 1, "refit": 1}


def test_a_reading_is_told_before_it_happens_and_whatever_happens_to_it(played: SimpleNamespace) -> None:
    """Its slot dies in it, comes back and reads again, and fails in the end."""
    told = Told(played)
    trial = told.trial(1, "final-1")
    told.result(trial, 1)
    told.result(trial, 2, reads=[("1", HONEST)])
    assert told.lines() == [("final-1", "1", HONEST)]
    told.recorder.on_trial_start(0, [], trial)
    told.result(trial, 2, reads=[("1", HONEST)])
    told.recorder.on_trial_error(0, [], trial)
    assert told.lines() == [("final-1", "1", HONEST)] * 2
    assert events(played.folder)[-1]["outcome"] == "failed"


def test_an_epoch_under_default_that_is_run_again_is_read_again(played: SimpleNamespace) -> None:
    told = Told(played)
    trial = told.trial(0, "final-1", training=replace(played.study.spec(played.study.cells()[0], "final", 1, {}).training, epochs=3))
    told.result(trial, 1)
    told.recorder.on_trial_start(0, [], trial)  # the slot died in its second epoch, and its first was not saved
    told.result(trial, 1)
    told.result(trial, 2, again=1)  # a group was lost on the way
    assert [epoch for _, epoch, _ in told.lines()] == ["1", "2", "1", "2", "2", "3"]  # the last one is in the air


def test_a_default_trial_that_a_driver_left_may_have_read_one_epoch_more(played: SimpleNamespace) -> None:
    told = Told(played)
    told.result(told.trial(0, "final-1"), 1)
    assert told.lines() == [("final-1", "1", PEEKS), ("final-1", "2", PEEKS)]
    played.ledger.note("resumed", grows={})
    assert told.lines() == [("final-1", "1", PEEKS), ("final-1", "2", PEEKS), ("final-1", "2", PEEKS)]


def test_the_audit_is_made_again_from_the_ledger_whatever_became_of_the_file(played: SimpleNamespace) -> None:
    told = Told(played)
    told.result(told.trial(1, "final-1"), 2, reads=[("1", HONEST)])
    whole = told.lines()
    for damage in ("", "cell,trial,seed,epoch,rule\nsketches/tiny", whole[0][0] * 99):
        played.readings.write_text(damage)
        assert told.lines() == whole
    played.readings.unlink()
    assert told.lines() == whole


def test_the_audit_of_an_earlier_version_is_left_as_it_is(played: SimpleNamespace) -> None:
    """It told of final trials in the file alone."""
    played.ledger.note("study", config={}, code={}, data={})
    told = Told(played)
    told.result(told.trial(0, "search-0"), 1)
    played.readings.write_text("cell,trial,seed,epoch,rule\nc,final-1,1,2,refit\n")
    assert told.lines() == [("final-1", "2", "refit")]


def final(played: SimpleNamespace, *, artifacts: bool) -> Any:
    """A final trial at its end, with its last checkpoint."""
    spec = played.study.spec(played.study.cells()[1], "final", 1, {})
    key = f"{spec.cell}/final-1"
    path = played.folder / "ray" / "1" / trial_folder(key) / "checkpoint_000001"
    path.mkdir(parents=True)
    fold = {"weights": {}, "queries": {spec.rule: {"image": [1], "class": [1]}}, "embeddings": None}
    write(path, {"state": {"rows": [{}, {}]}, "artifacts": {"folds": {0: fold} if artifacts else {}, "concatenated": {}}})
    last = row(2) | {"metrics": {"chosen_epoch": 1}, "done": True}
    return SimpleNamespace(trial_id="f", config={"key": key, "spec": spec.as_dict(), "trial": "final-1"}, last_result=last, error_file="")


def test_a_final_trial_ends_when_what_it_leaves_is_kept_and_its_checkpoints_go(played: SimpleNamespace) -> None:
    trial = final(played, artifacts=True)
    played.recorder.on_trial_complete(0, [], trial)
    assert told(played) == [("end", 2)]
    assert {path.name for path in kept(played.folder, trial.config["key"], ARTIFACTS)} == {"best.pt", "queries.csv"}
    assert not checkpoints(played.folder, trial.config["key"])


def test_a_final_trial_whose_files_are_not_whole_does_not_end(played: SimpleNamespace) -> None:
    trial = final(played, artifacts=True)
    (last,) = checkpoints(played.folder, trial.config["key"])
    (last / "queries.csv").write_bytes(b"")
    played.recorder.on_trial_complete(0, [], trial)
    assert told(played) == []
    assert "no whole checkpoint" in played.recorder.no_room
    assert checkpoints(played.folder, trial.config["key"]) == [last]


def test_a_search_trial_leaves_nothing_on_the_disk(played: SimpleNamespace) -> None:
    key = played.trial.config["key"]
    path = played.folder / "ray" / "1" / trial_folder(key) / "checkpoint_000001"
    path.mkdir(parents=True)
    write(path, {"state": {"rows": [{}, {}]}, "artifacts": {}})
    played.recorder.on_trial_complete(0, [], played.trial)
    assert told(played) == [("end", 2)]
    assert not checkpoints(played.folder, key)
    assert not (played.folder / KEPT).exists()


@pytest.mark.parametrize(
    ("error", "place"),
    [
        ("OSError: [Errno 28] No space left on device: '/tmp/tmp1 on node-7'", "/tmp/tmp1 on node-7"),
        ("OSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No space left on device", None),  # Tune's copy
    ],
)
def test_a_full_disk_is_no_fault_of_the_trial_and_is_named(played: SimpleNamespace, error: str, place: str | None) -> None:
    played.trial.error_file = str(played.folder / "error.txt")
    Path(played.trial.error_file).write_text(error)
    played.recorder.on_trial_error(0, [], played.trial)
    assert played.recorder.no_room == f"No space left on device: {place or played.folder}"
    assert told(played) == [], "the trial goes on when there is room again"


def test_a_wrong_node_is_no_fault_of_the_trial_and_is_named(played: SimpleNamespace) -> None:
    played.trial.error_file = str(played.folder / "error.txt")
    said = "All nodes must, but b has torch 1; install it there"
    Path(played.trial.error_file).write_text(f"Traceback ...\ntrainables.contract.WrongNode: {said}.\n")
    played.recorder.on_trial_error(0, [], played.trial)
    assert played.recorder.no_room == said
    assert told(played) == []
