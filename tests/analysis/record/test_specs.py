"""The spec of every trial is there again from its event and the file that it shares with others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.record.events import TrialStarted, decode, encode
from analysis.record.kept_files import LostArtifact
from analysis.record.record import Record
from analysis.record.specs import SPECS, read_shared, shared_text, spec_dict, write_spec
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.tune_callback import TuneCallback
from study.search.cell_search import TrialAssignment
from study.search.searcher import StudySearcher
from tests.conftest import MakeConfig
from trainables.contract import TrialSpec


def trials_of(config: StudyConfig) -> list[TrialAssignment]:
    """Return every trial of a study, in the order in which one slot runs them."""
    searcher, found = StudySearcher(expand(config)), list[TrialAssignment]()
    searcher.serve(assigned=found.append)
    number = 0
    while isinstance(searcher.suggest(name := f"t{number}"), dict):
        number += 1
        searcher.on_trial_complete(
            name, {"done": True, "score": number / 100, "chosen_epoch": number % 2 + 1.0}
        )
    assert searcher.over
    return found


def events_of(
    config: StudyConfig, trials: list[TrialAssignment], folder: Path
) -> list[TrialStarted]:
    """Return what a driver notes of the trials, as it is read back from the disk."""
    record = Record(folder)
    callback = TuneCallback(expand(config), record)
    for trial in trials:
        callback.assigned(trial)
    record.close()
    found = [decode(encode(event)) for event in Record(folder).past]
    assert all(isinstance(event, TrialStarted) for event in found)
    return found  # type: ignore[return-value]


def again(folder: Path, started: TrialStarted) -> TrialSpec:
    shared = json.loads(read_shared(folder, started.spec))
    return TrialSpec.from_dict(spec_dict(shared, started))


STUDIES = {
    "every role, k folds, default": {
        "protocols": ["k_fold:2", "default"],
        "refit": True,
        "published_too": True,
        "peek_search": True,
        "baselines": ["pixels", "untrained", "pca"],
    },
    "a split for each replicate": {"searches": 2, "keep_embeddings": "all", "last_too": True},
    "searched training values": {"search_training": ["learning_rate", "lr_step"]},
    "a cell of its own": {"where": [{"loss": "triplet", "learning_rate": 0.01}]},
}


@pytest.mark.parametrize("name", STUDIES)
def test_a_spec_of_every_kind_of_trial_comes_back_equal(
    config: MakeConfig, tmp_path: Path, name: str
) -> None:
    """All but `code`, which the driver that runs the trial adds."""
    study = config(losses=["triplet", "margin"], **STUDIES[name])
    trials = trials_of(study)
    events = events_of(study, trials, tmp_path)
    assert len(events) == len(trials)
    for trial, started in zip(trials, events, strict=True):
        found = again(tmp_path, started)
        assert found == replace(trial.spec, code={}), trial.trial
        for key, value in trial.spec.training.__dict__.items():
            assert type(getattr(found.training, key)) is type(value), key
    if name == "every role, k folds, default":
        roles = {trial.trial.role for trial in trials}
        assert roles == {"search", "final", "published", "refit", "published_refit"}
        losses = {trial.trial.cell.loss for trial in trials}
        assert {"untrained", "pca"} < losses
        assert any(trial.trial.cell.backbone == "pixels" for trial in trials)


def test_searched_training_values_are_the_trials_own(config: MakeConfig, tmp_path: Path) -> None:
    about = {"search_training": ["learning_rate", "lr_step"], "search_trials": 8}
    study = config(losses=["triplet"], **about)
    search = [each for each in trials_of(study) if each.trial.role == "search"]
    here = [each for each in search if each.trial.cell == search[0].trial.cell]
    assert len({each.spec.training.lr_step for each in here}) > 1
    assert len({shared_text(each.spec) for each in here}) == 1
    training = json.loads(shared_text(here[0].spec))["training"]
    assert {"learning_rate", "lr_step", "epochs"}.isdisjoint(training)
    for each in events_of(study, here, tmp_path):
        assert again(tmp_path, each).training.lr_step == each.setting["training.lr_step"]


def test_trials_that_share_everything_share_one_file(config: MakeConfig, tmp_path: Path) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], baselines=False)
    trials = trials_of(study)
    events = events_of(study, trials, tmp_path)
    search = {event.spec for event in events if "/search-" in event.trial}
    assert len(search) == 1
    assert len(list((tmp_path / SPECS).iterdir())) == len({event.spec for event in events})
    shared = json.loads(read_shared(tmp_path, search.pop()))
    assert {"cell", "phase", "seed", "setting", "tuned", "code"}.isdisjoint(shared)
    assert not shared["splits"][0]["test"], "a search trial's splits hold no test class"


def test_a_changed_or_missing_file_is_refused(config: MakeConfig, tmp_path: Path) -> None:
    spec = trials_of(config(losses=["triplet"]))[0].spec
    digest = write_spec(tmp_path, spec)
    path = tmp_path / SPECS / f"{digest}.json"
    text = read_shared(tmp_path, digest)
    assert text == shared_text(spec)
    path.write_text(text.replace("0.002", "0.2"))
    with pytest.raises(LostArtifact, match="was changed after the study wrote it; put back a copy"):
        read_shared(tmp_path, digest)
    path.write_text("")
    with pytest.raises(LostArtifact, match="was changed"):
        read_shared(tmp_path, digest)
    path.unlink()
    with pytest.raises(LostArtifact, match=r"cannot be read \(No such file.*; put back a copy"):
        read_shared(tmp_path, digest)
    assert write_spec(tmp_path, spec) == digest
    assert read_shared(tmp_path, digest) == text
