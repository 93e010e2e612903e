"""What is seen while a study runs."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from rich.console import Console

from analysis.record.record import Record
from analysis.record.trial_id import TrialId
from study.config.plan import StudyPlan, expand
from study.estimate.counts import count_cells
from study.view import heartbeat, live_view
from study.view.live_view import LiveView, _clock
from tests.conftest import MakeConfig
from tests.support.events import epoch_done, study_started, trial_ended, trial_started
from tests.support.waiting import await_that


class Shown:
    """A study that is noted by hand, and what its view prints."""

    def __init__(self, plan: StudyPlan, folder: Path) -> None:
        self.plan, self.out = plan, io.StringIO()
        self.view = LiveView(plan, Console(file=self.out, width=200))
        folder.mkdir(exist_ok=True)
        self.record = Record(folder, follower=self.view)
        self.view.follow(self.record.state)
        self.trained = sum(sum(plan.trials(cell)) for cell in plan.cells)
        if not self.record.past:
            total = self.trained + len(plan.baseline_cells())
            self.record.note(study_started(total=total))

    def start(self, trial: TrialId, epochs: int) -> None:
        label = self.plan.label(trial.cell)
        self.record.note(trial_started(trial, label=label, epochs=epochs))

    def play(self) -> None:
        """Run every trial, one after the other; search trials are stopped after one epoch."""
        with self.view.running(slots=2):
            for cell in self.plan.cells:
                search, final = self.plan.trials(cell)
                trials = [TrialId(cell, "search", number) for number in range(search)]
                trials += [TrialId(cell, "final", number) for number in range(final)]
                for trial in trials:
                    self.start(trial, epochs=self.plan.config.epochs)
                    stopped = trial.phase == "search"
                    epochs = 1 if stopped else self.plan.config.epochs
                    for epoch in range(1, epochs + 1):
                        self.record.note(epoch_done(trial, epoch))
                    outcome = "stopped early" if stopped else "finished"
                    self.record.note(trial_ended(trial, outcome=outcome, epoch=epochs))
            for cell, seed in self.plan.baseline_cells():
                trial = TrialId(cell, "final", seed)
                self.start(trial, epochs=0)
                self.record.note(epoch_done(trial, 0))
                self.record.note(trial_ended(trial, epoch=0, score=None))

    @property
    def lines(self) -> list[str]:
        return self.out.getvalue().splitlines()


@pytest.fixture
def shown(config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shown:
    monkeypatch.setattr(heartbeat, "SILENCE", 3600.0)  # however slow this machine is
    return Shown(expand(config()), tmp_path / "shown")


def test_without_a_terminal_there_is_one_line_per_trial(shown: Shown) -> None:
    shown.play()
    assert len(shown.lines) == 1 + shown.view.state.ended == 1 + 27
    assert f"{len(shown.plan.cells)} cells, 27 trials, 2 at a time." in shown.lines[0]
    assert "27/27  tiny/untrained final-2 finished" in shown.lines[-1]
    assert any(
        "triplet/fixed_validation search-1 stopped early at epoch 1, best MAP@R so far 0.100"
        in line
        for line in shown.lines
    )


def test_what_was_chosen_with_test_feedback_is_marked(shown: Shown) -> None:
    shown.play()
    scored = [line for line in shown.lines if "so far" in line]
    assert scored
    for line in scored:
        assert ("*" in line) == ("/default " in line)


def test_three_trials_in_a_row_that_diverge_are_worth_a_word(shown: Shown) -> None:
    cell = shown.plan.cells[0]
    for number, outcome in enumerate(["diverged", "diverged", "finished", *["diverged"] * 5]):
        trial = TrialId(cell, "search", number)
        shown.start(trial, epochs=2)
        shown.record.note(trial_ended(trial, outcome=outcome, epoch=1))
    said = [
        number for number, line in enumerate(shown.lines) if "3 trials in a row diverged" in line
    ]
    assert said == [5], "before the line of the third, and once"
    assert "a lower learning_rate or with clip_norm" in shown.out.getvalue()


def test_the_live_table_shows_every_cell_and_ends_with_nothing_left(shown: Shown) -> None:
    shown.play()
    out = io.StringIO()
    Console(file=out, width=200).print(shown.view.render())
    text, cells = out.getvalue(), shown.view.cells
    assert all(cell.label in text for cell in cells.values())
    assert "27/27 trials" in text
    rows = text.splitlines()[1:-1]
    assert len(rows) == len(cells)
    assert all(row.rstrip().endswith("done") for row in rows)
    for cell, planned in cells.items():
        assert shown.view.state.cells[cell].ended == planned.trials
    assert shown.view.left == 0


def drawn(view: LiveView, *, height: int) -> list[str]:
    view.console = Console(file=(out := io.StringIO()), width=120, height=height)
    view.console.print(view.render())
    return out.getvalue().splitlines()


def test_a_low_terminal_shows_the_cells_that_run_and_counts_the_others(shown: Shown) -> None:
    running = TrialId(shown.plan.cells[3], "search", 0)
    shown.start(running, epochs=2)
    lines = drawn(shown.view, height=8)
    assert len(lines) < 8
    *cells, others, now, foot = lines[1:]
    assert any(line.startswith(shown.plan.label(running.cell)) for line in cells)
    hidden = len(shown.view.cells) - len(cells)
    assert others == f"and {hidden} more cells: {hidden} wait"
    assert now.startswith(f"now  {shown.plan.label(running.cell)} search-0")
    assert "/27 trials" in foot


def test_the_trial_of_a_slot_is_shown_with_its_epoch_and_setting_until_it_ends(
    shown: Shown,
) -> None:
    trial = TrialId(shown.plan.cells[1], "search", 0)
    event = trial_started(trial, label=shown.plan.label(trial.cell), epochs=2)
    shown.record.note(msgspec.structs.replace(event, setting={"loss.margin": 0.25}))
    shown.record.note(epoch_done(trial, 1))
    now = [line for line in drawn(shown.view, height=50) if line.startswith("now")]
    assert now == [f"now  {shown.plan.label(trial.cell)} search-0  epoch 1 of 2  margin=0.25"]
    shown.record.note(trial_ended(trial, epoch=2))
    assert not [line for line in drawn(shown.view, height=50) if line.startswith("now")]


def test_scores_of_validation_and_of_test_classes_have_columns_of_their_own(shown: Shown) -> None:
    shown.play()
    head, *rows = drawn(shown.view, height=50)
    validation, test = head.index("best MAP@R on validation"), head.index("best MAP@R on test*")
    assert validation < test
    for row in rows:
        if "/default " in row:
            assert row.index("0.200*") >= test
        if "/fixed_validation " in row:
            assert validation <= row.index("0.200") < test


def test_a_cell_that_grew_never_has_more_ended_trials_than_trials(shown: Shown) -> None:
    cell = shown.plan.cells[0]
    for number in range(sum(shown.plan.trials(cell)) + 2):
        shown.start(trial := TrialId(cell, "final", number), epochs=1)
        shown.record.note(trial_ended(trial, epoch=1))
    many = sum(shown.plan.trials(cell)) + 2
    assert f" {many}/{many} " in "\n".join(drawn(shown.view, height=50))


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "00:00"), (61.4, "01:01"), (3599.6, "1:00:00"), (90_061, "25:01:01")]
)
def test_long_studies_show_hours(seconds: float, text: str) -> None:
    assert _clock(seconds) == text


def test_what_earlier_drivers_did_is_no_longer_expected(config: MakeConfig, tmp_path: Path) -> None:
    study = config(
        losses=["triplet"],
        protocols=["fixed_validation"],
        epochs=8,
        grace=2,
        reduction=2,
        search_trials=8,
    )
    plan = expand(study)
    first = Shown(plan, tmp_path / "shown")
    assert first.view.left == 8 + 7 * 4 + 2 * 8  # the published setting is never stopped
    for number in (0, 1):
        trial = TrialId(plan.cells[0], "search", number)
        first.start(trial, epochs=8)
        first.record.note(trial_ended(trial, epoch=2, score=0.1))
    first.record.close()
    again = Shown(plan, tmp_path / "shown")
    assert again.view.left == 6 * 4 + 2 * 8
    with again.view.running(slots=1):
        assert "2 done before" in again.lines[0]


def test_the_pace_waits_for_the_start_up_and_follows_the_last_epochs(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(live_view, "time", SimpleNamespace(monotonic=lambda: now[0]))
    cell, said = shown.plan.cells[0], []
    with shown.view.running(slots=2):
        trials = [TrialId(cell, "final", number) for number in range(2)]
        for trial in trials:
            shown.start(trial, epochs=2000)
        shown.view.left = 2000.0
        for pause, count in ((15.0, 1), (0.5, 20), (0.05, 1500)):
            for _ in range(count):
                now[0] += 2 * pause
                for trial in trials:
                    shown.record.note(epoch_done(trial, 1))
                said.append(shown.view.pace())
    assert said[:11] == ["starting"] * 11, "the first 30 seconds belong to the slots"
    assert said[20] == "2.1 epochs/s, about 15:54 left", "1958 * 19 s / 39"
    assert said[-1].startswith("20.0 epochs/s")


def test_a_pace_of_long_epochs_needs_one_more_than_there_are_slots(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(live_view, "time", SimpleNamespace(monotonic=lambda: now[0]))
    trials = [TrialId(shown.plan.cells[0], "final", number) for number in range(4)]
    with shown.view.running(slots=4):
        for trial in trials:
            shown.start(trial, epochs=100)
        shown.view.left, said = 100.0, list[str]()
        for _ in range(3):
            now[0] += 600
            for trial in trials:  # all end an epoch within two minutes of each other
                now[0] += 30
                shown.record.note(epoch_done(trial, 1))
                said.append(shown.view.pace())
    assert said[:8] == ["starting"] * 8
    assert said[8] == "0.3 epochs/min, about 4:33:00 left", "91 epochs, four in twelve minutes"


def test_it_expects_what_the_plan_counts(config: MakeConfig) -> None:
    study = config(searches=3, search_trials=16, epochs=8, baselines=False)
    plan = expand(study)
    view = LiveView(plan, Console(file=io.StringIO()))
    assert view.left == pytest.approx(sum(cell.epochs[0] for cell in count_cells(plan)))


def test_without_a_terminal_a_long_trial_is_no_silence(
    shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "SILENCE", 0.01)
    trial = TrialId(shown.plan.cells[0], "search", 0)
    with shown.view.running(slots=2):
        shown.start(trial, epochs=2)
        shown.record.note(epoch_done(trial, 1))
        await_that(lambda: "0 of 27 trials and 1 epochs done" in shown.out.getvalue())
    assert not [each for each in threading.enumerate() if each.name == "heartbeat"]
