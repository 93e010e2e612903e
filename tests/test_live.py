"""What is seen while a study runs."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from study.live import View, _clock
from tests.conftest import MakeConfig


def play(view: View) -> None:
    """Every trial of the study, one after the other; search trials are stopped after their first epoch."""
    config = view.config
    with view.running(total=2 * 4 * 2 + 8 + 3, slots=2):
        for cell in config.cells():
            search, final = config.trials(cell)
            for phase, count in (("search", search), ("final", final)):
                for number in range(count):
                    spec = config.spec(cell, phase, number, {})  # type: ignore[arg-type]
                    epochs = 1 if phase == "search" else config.epochs
                    view.started(spec, f"{phase}-{number}")
                    for epoch in range(1, epochs + 1):
                        view.epoch(spec, epoch, 0.1 * epoch)
                    outcome = "stopped early" if phase == "search" else "finished"
                    view.ended(spec, f"{phase}-{number}", outcome, {"epoch": epochs, "score": 0.2})
        for spec in config.baseline_specs():
            view.started(spec, f"final-{spec.seed}")
            view.epoch(spec, 0, 0.0)
            view.ended(spec, f"final-{spec.seed}", "finished", {"epoch": 0})


def test_without_a_terminal_there_is_one_line_per_event(config: MakeConfig) -> None:
    out = io.StringIO()
    view = View(config(), Console(file=out, width=200))
    play(view)
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + view.ended_trials == 1 + 27
    assert "27/27  tiny/untrained final-2 finished" in lines[-1]
    assert any("triplet/fixed_validation search-1 stopped early at epoch 1, best so far 0.100" in line for line in lines)


def test_what_was_chosen_with_test_feedback_is_marked(config: MakeConfig) -> None:
    out = io.StringIO()
    play(View(config(), Console(file=out, width=200)))
    for line in out.getvalue().splitlines():
        if "best so far" in line:
            assert ("*" in line) == ("/default " in line)


def test_three_trials_in_a_row_that_diverge_are_worth_a_word(config: MakeConfig) -> None:
    out = io.StringIO()
    view = View(config(), Console(file=out, width=200))
    spec = config().spec(config().cells()[0], "search", 0, {})
    for number, outcome in enumerate(["diverged", "diverged", "finished", *["diverged"] * 5]):
        view.ended(spec, f"search-{number}", outcome, {"epoch": 1})
    said = [number for number, line in enumerate(out.getvalue().splitlines()) if "3 trials in a row diverged" in line]
    assert said == [5], "before the line of the third, and once"
    assert "a lower learning_rate or with clip_norm" in out.getvalue()


def test_the_live_table_shows_every_cell_and_ends_with_nothing_left(config: MakeConfig) -> None:
    view = View(config(), Console(file=io.StringIO(), width=200))
    play(view)
    console = Console(file=io.StringIO(), width=200)
    console.print(view.render())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert all(cell.label in text for cell in view.cells.values())
    assert "27/27 trials" in text
    assert all(cell.done == cell.total and cell.state == "done" for cell in view.cells.values())
    assert view.left == 0


@pytest.mark.parametrize(("seconds", "text"), [(0, "00:00"), (61.4, "01:01"), (3599.6, "1:00:00"), (90_061, "25:01:01")])
def test_long_studies_show_hours(seconds: float, text: str) -> None:
    assert _clock(seconds) == text


def test_what_earlier_drivers_did_is_no_longer_expected(config: MakeConfig) -> None:
    study = config(losses=["triplet"], protocols=["fixed_validation"], epochs=8, grace=2, reduction=2, search_trials=8)
    view, (cell,) = View(study, Console(file=io.StringIO())), study.cells()
    assert view.left == 8 + 7 * 4 + 2 * 8  # the published setting is never stopped
    spec = study.spec(cell, "search", 0, study.published(cell.loss))
    view.took_up((spec, {"key": f"{cell}/search-{number}", "epoch": 2, "score": 0.1}) for number in (0, 1))
    assert view.left == 6 * 4 + 2 * 8
