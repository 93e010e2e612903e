"""A study that is cut off anywhere goes on as if nothing had happened: searcher, early stopping and
record, without Ray.
"""

from __future__ import annotations

import io
import random
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as some
from rich.console import Console

from analysis.record.events import (
    AnyEvent,
    CheckpointAudited,
    EpochDone,
    StudyFinished,
    StudyResumed,
    StudyStarted,
    TrialEnded,
    TrialStarted,
)
from analysis.record.kept_files import kept_file
from analysis.record.ledger import LEDGER, LedgerReader
from analysis.record.record import Record
from analysis.record.state import StudyState
from analysis.record.trial_id import TrialId, folder_of
from search_spaces import LOSSES
from study.config.plan import expand
from study.config.split_files import digest, splits_text
from study.config.study_config import StudyConfig
from study.driver.checkpoints import RAY
from study.driver.resume import check_same, first_plan, identity, rebuild, take_up
from study.driver.study_run import StudyRun
from study.driver.tune_callback import TuneCallback
from study.ends.interrupts import Interrupts
from study.search.cell_search import TrialAssignment
from study.search.early_stopping import EarlyStopping
from study.search.searcher import StudySearcher
from study.view.live_view import LiveView
from tests.conftest import MakeConfig
from tests.support.events import study_resumed, trial_started
from tests.support.ledgers import rewrite
from tests.support.record import WrittenStudy, check_record, leave_outputs, story, write_checkpoint
from tests.support.trees import folders
from trainables.outputs.artifacts import STATE
from trainables.outputs.checkpoints import newest_whole


def score(assignment: TrialAssignment, epoch: int) -> float:
    """Return the score of a network that does not exist; the same every time."""
    rng = random.Random(f"{assignment.trial} {sorted(assignment.spec.setting.items())}")
    return round(rng.random() * (1 - 0.5**epoch), 6)


class Play:
    """A driver without Ray: what study_run.py, Tune and its callback do, one epoch at a time."""

    def __init__(self, config: StudyConfig, folder: Path) -> None:
        plan = expand(config)
        folder.mkdir(exist_ok=True)
        self.record = Record(folder)
        state, past, now = self.record.state, bool(self.record.past), identity(plan, total=9)
        grows = check_same(state, now) if past else {}
        self.stopping = EarlyStopping(plan)
        self.searcher = StudySearcher(first_plan(state, config) if past else plan)
        rebuild(self.record, self.searcher, self.stopping)
        if past:
            self.record.note(StudyResumed(grows=grows, code=now.code, total=9))
            if grows:
                self.searcher.grow(plan)
        else:
            self.record.note(now)
        take_up(self.record, self.searcher)
        self.callback = TuneCallback(plan, self.record)

    def start(self, trial: TrialId) -> Path | None:
        """Return the checkpoint from which a slot continues a trial."""
        saving = self.callback.saving(trial)
        return newest_whole(map(Path, saving.start), epoch=saving.epoch)

    def to_the_end(self, *, slots: int = 1) -> None:
        running: list[tuple[str, TrialAssignment]] = []
        self.searcher.serve(slots=lambda: slots, assigned=self.callback.assigned)
        names = iter(range(10**6))
        while True:
            while len(running) < slots and isinstance(
                found := self.searcher.suggest(name := f"t{next(names)}"), dict
            ):
                running.append((name, self.searcher.running[TrialId.parse(found["trial"])]))
            assert len(running) == slots or found is None or not running, "Tune would not ask again"
            if not running:
                break
            for name, trial in list(running):
                if self.step(name, trial):
                    running.remove((name, trial))
        assert self.searcher.over
        self.record.note(StudyFinished())
        self.record.close()

    def step(self, name: str, assignment: TrialAssignment) -> bool:
        """Train one epoch, and return whether it was the last."""
        trial, epochs = assignment.trial, assignment.spec.training.epochs
        state = self.record.state.trials[str(trial)]
        epoch = min(state.epoch + 1, epochs)
        best = max((score(assignment, each) for each in range(1, epoch + 1)), default=0.0)
        metrics = {"select/recall_at_1": score(assignment, epoch)} if epochs else {}
        done = epoch >= epochs
        if not done:
            done = self.stopping.judge(trial, epoch, best)
        if epoch > (state.epoch if state.rows else -1):
            row = EpochDone(trial=str(trial), epoch=epoch, score=best, metrics=metrics)
            self.record.note(row)
        if done:
            chosen = epoch / 2
            self.stopping.judge(trial, epoch, best)
            result = {"score": best, "chosen_epoch": chosen, "done": True}
            self.searcher.on_trial_complete(name, result)
            about: dict[str, Any] = {"epoch": epoch, "score": best, "metrics": metrics}
            about |= {} if trial.phase == "search" else {"chosen_epoch": chosen}
            self.record.note(TrialEnded(trial=str(trial), outcome=state.outcome(), **about))
        return done


def past_of(folder: Path) -> list[AnyEvent]:
    return LedgerReader(folder).read()


def cut(folder: Path, share: float, after: int = 0) -> None:
    """Cut the ledger as a kill does, anywhere after its first line or after this byte."""
    text = (folder / LEDGER).read_bytes()
    first = text.index(b"\n", after) + 1
    (folder / LEDGER).write_bytes(text[: first + int(share * (len(text) - first))])


def keep_lines(folder: Path, count: int) -> None:
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    (folder / LEDGER).write_bytes(b"".join(lines[:count]))


def study(config: MakeConfig, **changes: Any) -> StudyConfig:
    usual = {
        "losses": ["margin", "contrastive"],
        "search_trials": 6,
        "epochs": 9,
        "grace": 1,
        "reduction": 2,
        "reproductions": 2,
    }
    return config(**usual | changes)


@pytest.mark.parametrize("strategy", ["hyperopt", "coordinate"])
@hypothesis.given(cuts=some.lists(some.floats(0, 1), min_size=1, max_size=4))
def test_a_study_that_is_killed_at_any_moments_does_what_an_undisturbed_one_does(
    config: MakeConfig, tmp_path: Path, strategy: str, cuts: list[float]
) -> None:
    """Killed: its ledger ends in the middle of a line. One slot, replicates, refits, folds, and all
    that waits for something.
    """
    more: dict[str, Any] = {"searches": 2, "refit": True, "published_too": True}
    wanted = study(config, strategy=strategy, protocols=["k_fold:2", "default"], **more)
    whole, killed = tmp_path / f"whole-{strategy}", tmp_path / "killed"
    if not whole.exists():
        Play(wanted, whole).to_the_end()
    shutil.rmtree(killed, ignore_errors=True)
    Play(wanted, killed).to_the_end()
    for share in cuts:
        cut(killed, share)
        Play(wanted, killed).to_the_end()
        check_record(killed)
        assert story(killed) == story(whole)


def test_a_study_with_finalists_that_is_killed_does_what_an_undisturbed_one_does(
    config: MakeConfig, tmp_path: Path
) -> None:
    races = {"losses": ["margin"], "protocols": ["fixed_validation"], "search_trials": 16}
    wanted = study(config, **races, searches=2, epochs=4)
    for name in ("whole", "killed"):
        Play(wanted, tmp_path / name).to_the_end()
    text = (tmp_path / "killed" / LEDGER).read_bytes()
    for place in (b"finalist-0", b"finalist-3", b"finalist-5-replicate2", b"final-1"):
        (tmp_path / "killed" / LEDGER).write_bytes(text[: text.index(place) + 200])
        Play(wanted, tmp_path / "killed").to_the_end()
        check_record(tmp_path / "killed")
        assert story(tmp_path / "killed") == story(tmp_path / "whole")


def test_a_record_that_is_cut_at_any_event_ends_as_the_undisturbed_one(
    config: MakeConfig, tmp_path: Path
) -> None:
    wanted = study(
        config, losses=["margin"], epochs=4, search_trials=3, reproductions=1, refit=True
    )
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    Play(wanted, whole).to_the_end()
    for count in range(1, len(past_of(whole))):
        shutil.rmtree(killed, ignore_errors=True)
        shutil.copytree(whole, killed)
        keep_lines(killed, count)
        Play(wanted, killed).to_the_end()
        check_record(killed)
        assert story(killed) == story(whole), count


@hypothesis.given(share=some.floats(0, 1), slots=some.integers(2, 5))
def test_with_several_slots_no_trial_is_lost_or_run_twice(
    config: MakeConfig, tmp_path: Path, share: float, slots: int
) -> None:
    wanted, folder = study(config), tmp_path / "several"
    plan = expand(wanted)
    shutil.rmtree(folder, ignore_errors=True)
    Play(wanted, folder).to_the_end(slots=slots)
    cut(folder, share)
    Play(wanted, folder).to_the_end(slots=slots)
    rows = check_record(folder)
    planned = sum(sum(plan.trials(cell)) for cell in plan.cells) + len(plan.baseline_cells())
    assert len(rows) == planned == StudyState(past_of(folder)).ended


def test_a_trial_that_early_stopping_had_ended_when_the_driver_died_is_not_trained_on(
    config: MakeConfig, tmp_path: Path
) -> None:
    wanted = study(config)
    Play(wanted, tmp_path / "s").to_the_end()
    early, ended = next(
        (number, event)
        for number, event in enumerate(past_of(tmp_path / "s"))
        if isinstance(event, TrialEnded) and event.outcome == "stopped early"
    )
    keep_lines(tmp_path / "s", early)  # its last epoch was written, its end was not
    resumed = Play(wanted, tmp_path / "s")
    assert TrialId.parse(ended.trial) not in resumed.searcher.running
    again = past_of(tmp_path / "s")[early]
    assert msgspec.structs.replace(again, at=ended.at) == ended


def test_a_trial_that_the_next_driver_ends_leaves_what_its_slot_wrote(
    config: MakeConfig, tmp_path: Path
) -> None:
    wanted = study(config, keep_checkpoints=True)
    Play(wanted, tmp_path / "s").to_the_end()
    past = past_of(tmp_path / "s")
    early = next(number for number, event in enumerate(past) if isinstance(event, TrialEnded))
    keep_lines(tmp_path / "s", early)
    ended = past[early]
    assert isinstance(ended, TrialEnded)
    home = tmp_path / "s" / RAY / "1" / folder_of(ended.trial)
    leave_outputs(home, ended.epoch)
    Play(wanted, tmp_path / "s")
    assert kept_file(tmp_path / "s", ended.trial, STATE)


def test_a_trial_that_must_leave_files_and_was_not_saved_at_its_end_runs_again(
    config: MakeConfig, tmp_path: Path
) -> None:
    wanted = study(config, keep_checkpoints=True)
    Play(wanted, tmp_path / "s").to_the_end()
    past = past_of(tmp_path / "s")
    early = next(number for number, event in enumerate(past) if isinstance(event, TrialEnded))
    keep_lines(tmp_path / "s", early)
    ended = past[early]
    assert isinstance(ended, TrialEnded)
    trial = TrialId.parse(ended.trial)
    home = tmp_path / "s" / RAY / "1" / trial.folder
    older = write_checkpoint(home, 1, ended.epoch - 1)
    driver = Play(wanted, tmp_path / "s")
    assert trial in driver.searcher.running
    assert driver.start(trial) == older
    assert len(past_of(tmp_path / "s")) <= early + 1  # and only a driver's first line


def test_a_trial_goes_on_from_its_newest_checkpoint_that_the_record_reaches(
    config: MakeConfig, tmp_path: Path
) -> None:
    wanted = study(config)
    Play(wanted, tmp_path / "s").to_the_end()
    keep_lines(tmp_path / "s", 4)  # the first trial has two epochs
    trial = next(iter(StudyState(past_of(tmp_path / "s")).trials.values())).id
    home = tmp_path / "s" / RAY / "1" / trial.folder
    for epochs in (1, 2, 3):
        write_checkpoint(home, epochs, epochs)
    driver = Play(wanted, tmp_path / "s")
    assert [each.trial for each in driver.searcher.interrupted] == [trial]
    assert driver.start(trial) == home / "saved_000002"


@pytest.mark.parametrize(
    "more",
    [
        {"search_trials": 9},
        {"reproductions": 4},
        {"searches": 3},
        {"search_trials": 8, "reproductions": 3, "searches": 2},
    ],
)
@pytest.mark.parametrize("share", [0.3, 0.6, 1.0])
def test_a_study_that_grew_and_was_killed_goes_on(
    config: MakeConfig, tmp_path: Path, more: dict[str, int], share: float
) -> None:
    for name in ("whole", "killed"):
        Play(study(config), tmp_path / name).to_the_end()
        Play(study(config, **more), tmp_path / name).to_the_end()
    grew = (tmp_path / "killed" / LEDGER).read_bytes().index(b'"study_resumed"')
    cut(tmp_path / "killed", share, after=grew)
    Play(study(config, **more), tmp_path / "killed").to_the_end()
    assert story(tmp_path / "killed") == story(tmp_path / "whole")
    started = [event for event in past_of(tmp_path / "killed") if isinstance(event, TrialStarted)]
    assert any(event.extended for event in started), "what came after a reading of test classes"


def test_other_code_that_draws_another_trial_is_refused(config: MakeConfig, tmp_path: Path) -> None:
    Play(study(config), tmp_path / "s").to_the_end()
    rewrite(tmp_path / "s", lambda text: text.replace('"tuned":false', '"tuned":true', 1))
    with pytest.raises(
        ValueError, match=r"where its record has .*/search-0 with .*, this code draws"
    ):
        Play(study(config), tmp_path / "s")


def known_as(config: StudyConfig) -> StudyStarted:
    return identity(expand(config), total=9)


def began(config: StudyConfig) -> StudyState:
    return StudyState([known_as(config)])


def before_and_now(config: MakeConfig, **changes: Any) -> tuple[StudyState, StudyStarted]:
    return began(study(config)), known_as(study(config, **changes))


def changed(event: StudyStarted, **changes: Any) -> StudyStarted:
    return msgspec.structs.replace(event, **changes)


def test_the_same_study_elsewhere_goes_on(config: MakeConfig, tmp_path: Path) -> None:
    past, now = before_and_now(
        config, studies=str(tmp_path / "moved"), tracking_uri="http://127.0.0.1:1", slots=7
    )
    assert check_same(past, now) == {}


def test_images_at_another_path_are_known_by_what_they_are(
    config: MakeConfig, tmp_path: Path
) -> None:
    own = {"dataset": "image_folder", "losses": ["triplet"], "max_classes": None}
    here = folders(tmp_path / "here", "abcdefghijkl", images=4)
    before = known_as(config(**own, data_root=str(here)))
    there = here.rename(tmp_path / "there")
    # A key that has come since.
    older = {key: value for key, value in before.config.items() if key != "mine_every"}
    past = StudyState([changed(before, config=older)])
    now = config(**own, data_root=str(there))
    assert check_same(past, known_as(now)) == {}
    assert first_plan(past, now).config.data_root == str(there)


def test_budgets_may_grow_once_and_again(config: MakeConfig) -> None:
    past, now = before_and_now(config, search_trials=9)
    assert check_same(past, now) == {"search_trials": 9}
    past.apply(study_resumed(grows={"search_trials": 9}))
    assert check_same(past, now) == {}
    with pytest.raises(ValueError, match="search_trials: 9 -> 6") as error:
        check_same(past, known_as(study(config)))
    assert "search_trials can only grow" in str(error.value)


def test_an_audit_closes_the_search_and_nothing_else(config: MakeConfig) -> None:
    past, now = before_and_now(config, search_trials=9)
    trial = TrialId(expand(study(config)).cells[0], "search", 0)
    past.apply(trial_started(trial))
    past.apply(CheckpointAudited(trial=str(trial), metrics={}))
    with pytest.raises(
        ValueError, match="closes the search: searches and search_trials cannot grow"
    ):
        check_same(past, now)
    more = known_as(study(config, reproductions=4))
    assert check_same(past, more) == {"reproductions": 4}


def test_a_changed_config_is_shown_and_refused(config: MakeConfig) -> None:
    past, now = before_and_now(config, learning_rate=0.5, losses=["margin"])
    with pytest.raises(ValueError, match="this has changed") as error:
        check_same(past, now)
    assert "config learning_rate: 0.002 -> 0.5" in str(error.value)
    assert "config losses: ['margin', 'contrastive'] -> ['margin']" in str(error.value)


def test_a_key_that_a_newer_version_added_is_no_difference_at_its_default(
    config: MakeConfig,
) -> None:
    now, new = known_as(study(config)), ("search_epochs", "keep_checkpoints")
    older = {key: value for key, value in now.config.items() if key not in new}
    past = StudyState([changed(now, config=older)])
    assert check_same(past, now) == {}
    with pytest.raises(ValueError, match="config keep_checkpoints: False -> True"):
        check_same(past, known_as(study(config, keep_checkpoints=True)))


def test_a_key_that_a_newer_version_dropped_is_shown(config: MakeConfig) -> None:
    now = known_as(study(config))
    past = StudyState([changed(now, config={**now.config, "flavour": "sweet"})])
    with pytest.raises(ValueError, match="config flavour: sweet -> None"):
        check_same(past, now)


def test_changed_images_are_shown_and_refused(config: MakeConfig) -> None:
    past, now = before_and_now(config)
    with pytest.raises(ValueError, match=r"data sketches: .* -> other"):
        check_same(past, changed(now, data={"sketches": "other"}))


def test_other_code_is_refused_unless_it_is_asked_for(config: MakeConfig) -> None:
    now = changed(known_as(study(config)), code={"sources": "1", "ray": "2"})
    past, other = StudyState([now]), changed(now, code={"sources": "9", "ray": "2"})
    with pytest.raises(ValueError, match="code sources: 1 -> 9") as error:
        check_same(past, other)
    assert "--new-code" in str(error.value)
    assert check_same(past, other, new_code=True) == {}
    past.apply(study_resumed(code=other.code))
    assert check_same(past, other) == {}


def test_changed_class_lists_are_shown_and_refused(config: MakeConfig, tmp_path: Path) -> None:
    path, name = tmp_path / "mine.json", "sketches/fixed_validation/1"
    known = []
    for seed in (5, 6):
        drawn = expand(study(config, split_seed=seed)).splits(*name.split("/")[:2])
        path.write_text(splits_text("sketches", "fixed_validation", drawn))
        known.append(known_as(study(config, split_file=str(path))))
        assert known[-1].splits[name] == digest(drawn)
    with pytest.raises(ValueError, match=f"splits {name}: .* -> {digest(drawn)}"):
        check_same(StudyState(known[:1]), known[1])


def test_a_study_may_grow_by_replicates_with_splits_of_their_own(config: MakeConfig) -> None:
    before = known_as(study(config))
    now = known_as(study(config, searches=3))
    assert len(now.splits) > len(before.splits)
    assert check_same(StudyState([before]), now) == {"searches": 3}


def test_a_weight_file_with_another_content_is_shown_and_refused(
    config: MakeConfig, tmp_path: Path
) -> None:
    path = tmp_path / "mine.pt"
    path.write_bytes(b"one")
    past = began(study(config, weights=str(path)))
    path.write_bytes(b"other")
    with pytest.raises(ValueError, match=f"weights {path}: .* -> "):
        check_same(past, known_as(study(config, weights=str(path))))


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
    past = began(own)
    assert check_same(past, known_as(own)) == {}
    (tmp_path / "rewritten.py").write_text((tmp_path / "rewritten.py").read_text() + "# better\n")
    with pytest.raises(ValueError, match=r"code loss rewritten:LOSS: .* -> ") as error:
        check_same(past, known_as(own))
    assert "--new-code" in str(error.value)
    assert check_same(past, known_as(own), new_code=True) == {}
    sys.modules.pop("rewritten")


def test_the_version_of_timm_is_code_of_a_study_that_has_its_networks(config: MakeConfig) -> None:
    assert "timm" not in known_as(study(config)).code
    timm = study(config, backbone="timm:resnet18", pooling="gap")
    assert known_as(timm).code["timm"] == version("timm")


def test_a_ledger_of_an_earlier_version_is_refused_in_a_sentence(
    config: MakeConfig, tmp_path: Path
) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / LEDGER).write_text('{"event":"study","at":1,"config":{},"code":{}}\n')
    with pytest.raises(ValueError, match=r"Fair Trial 0\.5 or earlier; install fairtrial==0\.5"):
        Play(study(config), tmp_path / "s")


@pytest.mark.parametrize(("peek", "name"), [(True, "search-0"), (False, "final-1")])
def test_what_grows_after_a_default_trial_began_is_marked(
    config: MakeConfig, tmp_path: Path, peek: bool, name: str
) -> None:
    """Its first epoch reads the test classes; that it was interrupted then changes nothing."""
    about = {
        "losses": ["margin"],
        "protocols": ["default"],
        "peek_search": peek,
        "baselines": False,
    }
    Play(study(config, **about), tmp_path / "s").to_the_end()
    first = past_of(tmp_path / "s")[1]
    assert isinstance(first, TrialStarted)
    assert first.trial.endswith(f"/{name}")
    keep_lines(tmp_path / "s", 3)  # its first trial, and that one's first epoch
    Play(study(config, **about, reproductions=4), tmp_path / "s").to_the_end()
    state = StudyState(past_of(tmp_path / "s"))
    extended = {trial.id.name: trial.started.extended for trial in state.trials.values()}
    assert [extended[f"final-{seed}"] for seed in (1, 2, 3, 4)] == [False, False, True, True]
    again = Play(study(config, **about, reproductions=4), tmp_path / "s")
    assert again.searcher.over


def test_a_search_trial_that_was_over_counts_as_done_before(config: MakeConfig) -> None:
    made = WrittenStudy(config(losses=["triplet"], name="mine", reproductions=2))
    made.begin()
    made.trial(0, epochs=made.plan.config.epochs, ends=False)
    made.record.close()
    view = LiveView(made.plan, Console(file=(out := io.StringIO()), width=200))
    left = view.left
    run = StudyRun(made.plan, made.folder, Interrupts(), view, new_code=False)
    assert run.record.state.ended == 1
    assert view.left == left - made.plan.config.epochs
    with view.running(slots=1):
        (line,) = out.getvalue().splitlines()
    assert "1 done before" in line
    run.record.close()
