"""A study that is cut off anywhere goes on as if nothing had happened: searcher, early stopping and ledger, without Ray."""

from __future__ import annotations

import random
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as some

from search_spaces import LOSSES
from study.config import StudyConfig
from study.ledger import LEDGER, Ledger, events
from study.recorder import outcome_of
from study.resume import began_with, check_same, identity, rebuild, take_up
from study.search import Given, StudySearcher
from study.splits import digest, splits_text
from study.stopping import StopPerCell
from tests.conftest import MakeConfig
from tests.support.invariants import check_ledger, story
from tests.support.trees import folders

CODE = {"sources": "1", "ray": "2"}


def score(given: Given, epoch: int) -> float:
    """Of a network that does not exist: the better the nearer its setting is to a secret one; the same every time."""
    rng = random.Random(f"{given.key} {sorted(given.spec.setting.items())}")
    return round(rng.random() * (1 - 0.5**epoch), 6)


class Play:
    """A driver without Ray: what run.py, Tune and the recorder do between them, one epoch at a time."""

    def __init__(self, config: StudyConfig, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        past = events(folder)
        grows = check_same(past, identity(config, CODE)) if past else {}
        self.ledger = Ledger(folder / LEDGER)
        self.stopping = StopPerCell(config)
        self.searcher = StudySearcher(began_with(past, config) if past else config)
        standing = rebuild(past, self.searcher, self.stopping, self.ledger)
        self.epochs = standing.epochs
        if past:
            self.ledger.note("resumed", grows=grows)
            if grows:
                self.searcher.grow(config)
        else:
            self.ledger.note("study", **identity(config, CODE))
        take_up(folder, self.searcher, standing)
        self.searcher.note = lambda given: self.ledger.note("trial", **given.event())

    def to_the_end(self, *, slots: int = 1) -> None:
        running: list[tuple[str, Given]] = []
        self.searcher.slots = lambda: slots
        names = iter(range(10**6))
        while True:
            while len(running) < slots and isinstance(found := self.searcher.suggest(name := f"t{next(names)}"), dict):
                running.append((name, self.searcher.running[found["key"]]))
            assert len(running) == slots or found is None or not running, "Tune would not ask again"
            if not running:
                break
            for name, trial in list(running):
                if self.step(name, trial):
                    running.remove((name, trial))
        assert self.searcher.over
        self.ledger.note("finished")

    def step(self, name: str, given: Given) -> bool:
        """One epoch; whether it was the last."""
        epochs = given.spec.training.epochs
        epoch = min(self.epochs.get(given.key, 0) + 1, epochs)
        best = max((score(given, each) for each in range(1, epoch + 1)), default=0.0)
        done = epoch >= epochs
        row = {"epoch": epoch, "score": best, "metrics": {"select/recall_at_1": score(given, epoch)} if epochs else {}}
        if not done:
            done = self.stopping.judge(str(given.spec.cell), given.name, row) == StopPerCell.STOP
        if epoch > self.epochs.get(given.key, -1):
            self.ledger.note("row", key=given.key, **row)
            self.epochs[given.key] = epoch
        if done:
            end = row | {"chosen_epoch": epoch / 2, "done": True}
            self.stopping.judge(str(given.spec.cell), given.name, row)
            self.searcher.on_trial_complete(name, end)
            self.ledger.note("end", key=given.key, outcome=outcome_of(row, epochs), **end)
        return done


def study(config: MakeConfig, **changes: Any) -> StudyConfig:
    usual = {"losses": ["margin", "contrastive"], "search_trials": 6, "epochs": 9, "grace": 1, "reduction": 2, "reproductions": 2}
    return config(**usual | changes)


@pytest.mark.parametrize("strategy", ["hyperopt", "coordinate"])
@hypothesis.given(cuts=some.lists(some.floats(0, 1), min_size=1, max_size=4))
def test_a_study_that_is_killed_at_any_moments_does_what_an_undisturbed_one_does(
    config: MakeConfig, tmp_path: Path, strategy: str, cuts: list[float]
) -> None:
    """Killed: its ledger ends in the middle of a line. One slot, refits, folds, and all that waits for something."""
    wanted = study(config, strategy=strategy, protocols=["k_fold:2", "default"], refit=True, published_too=True)
    whole, killed = tmp_path / f"whole-{strategy}", tmp_path / "killed"
    if not whole.exists():
        Play(wanted, whole).to_the_end()
    shutil.rmtree(killed, ignore_errors=True)
    Play(wanted, killed).to_the_end()
    for cut in cuts:
        text = (killed / LEDGER).read_bytes()
        first = text.index(b"\n") + 1
        (killed / LEDGER).write_bytes(text[: first + int(cut * (len(text) - first))])
        Play(wanted, killed).to_the_end()
        check_ledger(killed)
        assert story(killed) == story(whole)


@hypothesis.given(cut=some.floats(0, 1), slots=some.integers(2, 5))
def test_with_several_slots_no_trial_is_lost_or_run_twice(config: MakeConfig, tmp_path: Path, cut: float, slots: int) -> None:
    wanted, folder = study(config), tmp_path / "several"
    shutil.rmtree(folder, ignore_errors=True)
    Play(wanted, folder).to_the_end(slots=slots)
    text = (folder / LEDGER).read_bytes()
    first = text.index(b"\n") + 1
    (folder / LEDGER).write_bytes(text[: first + int(cut * (len(text) - first))])
    Play(wanted, folder).to_the_end(slots=slots)
    rows = check_ledger(folder)
    planned = sum(sum(wanted.trials(cell)) for cell in wanted.cells()) + len(wanted.baseline_cells())
    assert len(rows) == planned == sum(event["event"] == "end" for event in events(folder))


def test_a_trial_that_early_stopping_had_ended_when_the_driver_died_is_not_trained_on(config: MakeConfig, tmp_path: Path) -> None:
    wanted = study(config)
    Play(wanted, tmp_path / "s").to_the_end()
    lines = (tmp_path / "s" / LEDGER).read_bytes().splitlines(keepends=True)
    told = events(tmp_path / "s")
    early = next(i for i, event in enumerate(told) if event["event"] == "end" and "search" in event["key"] and event["epoch"] < 9)
    (tmp_path / "s" / LEDGER).write_bytes(b"".join(lines[:early]))  # its last row was written, its end was not
    resumed = Play(wanted, tmp_path / "s")
    assert told[early]["key"] not in resumed.searcher.running
    assert events(tmp_path / "s")[early]["key"] == told[early]["key"]
    assert events(tmp_path / "s")[early]["event"] == "end"


@pytest.mark.parametrize("more", [{"search_trials": 9}, {"reproductions": 4}, {"search_trials": 8, "reproductions": 3}])
@pytest.mark.parametrize("cut", [0.3, 0.6, 1.0])
def test_a_study_that_grew_and_was_killed_goes_on(config: MakeConfig, tmp_path: Path, more: dict[str, int], cut: float) -> None:
    found = []
    for name in ("whole", "killed"):
        Play(study(config), tmp_path / name).to_the_end()
        Play(study(config, **more), tmp_path / name).to_the_end()
    text = (tmp_path / "killed" / LEDGER).read_bytes()
    grew = text.index(b'"resumed"')
    place = text.index(b"\n", grew) + 1
    (tmp_path / "killed" / LEDGER).write_bytes(text[: place + int(cut * (len(text) - place))])
    Play(study(config, **more), tmp_path / "killed").to_the_end()
    found = [story(tmp_path / name) for name in ("whole", "killed")]
    assert found[0] == found[1]
    added = [event for event in events(tmp_path / "killed") if event["event"] == "trial" and event["extended"]]
    assert added, "what came after test classes were read says so"


def told_study(config: MakeConfig, **changes: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    began = [{"event": "study", **identity(study(config), CODE)}]
    return began, identity(study(config, **changes), CODE)


def test_the_same_study_elsewhere_goes_on(config: MakeConfig, tmp_path: Path) -> None:
    past, now = told_study(config, studies=str(tmp_path / "moved"), tracking_uri="http://127.0.0.1:1", slots=7)
    assert check_same(past, now) == {}


def test_images_at_another_path_are_known_by_what_they_are(config: MakeConfig, tmp_path: Path) -> None:
    own = {"dataset": "image_folder", "losses": ["triplet"], "max_classes": None}
    here = folders(tmp_path / "here", "abcdefghijkl", images=4)
    past: list[dict[str, Any]] = [{"event": "study", **identity(config(**own, data_root=str(here)), CODE)}]
    there = here.rename(tmp_path / "there")
    del past[0]["config"]["mine_every"]  # a key that has come since
    now = config(**own, data_root=str(there))
    assert check_same(past, identity(now, CODE)) == {}
    assert began_with(past, now).data_root == str(there)


def test_budgets_may_grow_once_and_again(config: MakeConfig) -> None:
    past, now = told_study(config, search_trials=9)
    assert check_same(past, now) == {"search_trials": 9}
    past.append({"event": "resumed", "grows": {"search_trials": 9}, "code": CODE})
    assert check_same(past, now) == {}
    with pytest.raises(ValueError, match="search_trials: 9 -> 6") as error:
        check_same(past, told_study(config)[1])
    assert "search_trials can only grow" in str(error.value)


def test_a_changed_config_is_shown_and_refused(config: MakeConfig) -> None:
    past, now = told_study(config, learning_rate=0.5, losses=["margin"])
    with pytest.raises(ValueError, match="this has changed") as error:
        check_same(past, now)
    assert "config learning_rate: 0.002 -> 0.5" in str(error.value)
    assert "config losses: ['margin', 'contrastive'] -> ['margin']" in str(error.value)


def test_a_key_that_a_newer_version_added_is_no_difference_at_its_default(config: MakeConfig) -> None:
    past, now = told_study(config)
    del past[0]["config"]["search_epochs"], past[0]["config"]["keep_checkpoints"]
    assert check_same(past, now) == {}
    with pytest.raises(ValueError, match="config keep_checkpoints: False -> True"):
        check_same(past, told_study(config, keep_checkpoints=True)[1])


def test_a_key_that_a_newer_version_dropped_is_shown(config: MakeConfig) -> None:
    past, now = told_study(config)
    past[0]["config"]["flavour"] = "sweet"
    with pytest.raises(ValueError, match="config flavour: sweet -> None"):
        check_same(past, now)


def test_changed_images_are_shown_and_refused(config: MakeConfig) -> None:
    past, now = told_study(config)
    with pytest.raises(ValueError, match=r"data sketches: .* -> other"):
        check_same(past, now | {"data": {"sketches": "other"}})


def test_other_code_is_refused_unless_it_is_asked_for(config: MakeConfig) -> None:
    past, now = told_study(config)
    other = now | {"code": {"sources": "9", "ray": "2"}}
    with pytest.raises(ValueError, match="code sources: 1 -> 9") as error:
        check_same(past, other)
    assert "--new-code" in str(error.value)
    assert check_same(past, other, new_code=True) == {}
    past.append({"event": "resumed", "grows": {}, "code": other["code"]})
    assert check_same(past, other) == {}


def test_changed_class_lists_are_shown_and_refused(config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    for seed in (5, 6):
        drawn = study(config, split_seed=seed).splits("sketches", "fixed_validation")
        path.write_text(splits_text("sketches", "fixed_validation", drawn))
        if seed == 5:
            past = [{"event": "study", **identity(study(config, split_file=str(path)), CODE)}]
            assert past[0]["splits"]["sketches/fixed_validation"] == digest(drawn)
    with pytest.raises(ValueError, match=f"splits sketches/fixed_validation: .* -> {digest(drawn)}"):
        check_same(past, identity(study(config, split_file=str(path)), CODE))


def test_a_study_that_draws_a_split_for_each_seed_may_grow(config: MakeConfig) -> None:
    past = [{"event": "study", **identity(study(config, resplit=True), CODE)}]
    now = identity(study(config, resplit=True, reproductions=4), CODE)
    assert len(now["splits"]) > len(past[0]["splits"])
    assert check_same(past, now) == {"reproductions": 4}


def test_a_weight_file_with_another_content_is_shown_and_refused(config: MakeConfig, tmp_path: Path) -> None:
    path = tmp_path / "mine.pt"
    path.write_bytes(b"one")
    past = [{"event": "study", **identity(study(config, weights=str(path)), CODE)}]
    path.write_bytes(b"other")
    with pytest.raises(ValueError, match=f"weights {path}: .* -> "):
        check_same(past, identity(study(config, weights=str(path)), CODE))


def test_a_loss_of_ones_own_that_was_rewritten_is_code_that_changed(
    config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = """
from search_spaces import LOSSES, OwnLoss
def build(classes, size, *, margin): ...
LOSS = OwnLoss(LOSSES["contrastive"], build)
"""
    card = sorted(LOSSES["contrastive"].params)
    (tmp_path / "rewritten.py").write_text(text.replace("margin", ", ".join(card)))
    own = study(config, losses=["rewritten:LOSS"])
    past = [{"event": "study", **identity(own, CODE)}]
    assert check_same(past, identity(own, CODE)) == {}
    (tmp_path / "rewritten.py").write_text((tmp_path / "rewritten.py").read_text() + "# better\n")
    with pytest.raises(ValueError, match=r"code loss rewritten:LOSS: .* -> ") as error:
        check_same(past, identity(own, CODE))
    assert "--new-code" in str(error.value)
    assert check_same(past, identity(own, CODE), new_code=True) == {}
    sys.modules.pop("rewritten")


def test_the_version_of_timm_is_code_of_a_study_that_has_its_networks(config: MakeConfig) -> None:
    assert "timm" not in identity(study(config), CODE)["code"]
    assert identity(study(config, backbone="timm:resnet18", pooling="gap"), CODE)["code"]["timm"] == version("timm")


def test_a_ledger_of_an_earlier_version_is_compared_in_what_it_tells(config: MakeConfig) -> None:
    past, now = told_study(config)
    del past[0]["splits"], past[0]["weights"]
    assert check_same(past, now) == {}


@pytest.mark.parametrize(("peek", "name"), [(True, "search-0"), (False, "final-1")])
def test_what_grows_after_a_default_trial_began_is_marked(config: MakeConfig, tmp_path: Path, peek: bool, name: str) -> None:
    """Its first epoch reads the test classes; that it was interrupted then changes nothing."""
    about = {"losses": ["margin"], "protocols": ["default"], "peek_search": peek, "baselines": False}
    Play(study(config, **about), tmp_path / "s").to_the_end()
    lines = (tmp_path / "s" / LEDGER).read_bytes().splitlines(keepends=True)
    assert f"/{name}" in lines[1].decode()
    (tmp_path / "s" / LEDGER).write_bytes(b"".join(lines[:3]))  # its first trial and that one's first row
    Play(study(config, **about, reproductions=4), tmp_path / "s").to_the_end()
    given = {event["name"]: event["extended"] for event in events(tmp_path / "s") if event["event"] == "trial"}
    assert [given[f"final-{seed}"] for seed in (1, 2, 3, 4)] == [False, False, True, True]
    again = Play(study(config, **about, reproductions=4), tmp_path / "s")
    assert again.searcher.over
