"""Show a study while it runs: a live table on a terminal, lines that never stop elsewhere."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from analysis.ranking.measurement import metric_label
from analysis.record.state import CellProgress, Follower, StudyState, TrialState
from analysis.record.trial_id import TrialId
from study.config.budget import expected_epochs, expected_search
from study.config.plan import StudyPlan
from trainables.contract import Cell

DIVERGED = 3  # trials in a row that are worth a message
# A pace is known after so many epochs, or after so many seconds where epochs are long.
STEADY_EPOCHS, STEADY_SECONDS = 20, 60.0
WINDOW = 120.0  # seconds whose epochs make the pace
# Seconds without a line, at most, where there is no terminal; later a share of the time so far: a
# log of four minutes has a line every 2.5 s, one of a night every five minutes.
SILENCE, SHARE = 2.5, 0.01
PHASES = {"search": "searches", "final": "final trials"}


class Heartbeat:
    """Print a line whenever none came for a while."""

    def __init__(self) -> None:
        self.began = self.last = time.monotonic()

    def heard(self) -> None:
        """Note that a line was printed."""
        self.last = time.monotonic()

    @contextmanager
    def beating(self, beat: Callable[[], None]) -> Iterator[None]:
        """Call `beat`, which prints a line, after every silence inside the block."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(max(0.0, self._left())):
                if self._left() <= 0:
                    beat()
                    self.heard()

        thread = threading.Thread(target=watch, name="heartbeat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _left(self) -> float:
        """Return the seconds until a silence has lasted too long."""
        now = time.monotonic()
        return self.last + max(SILENCE, SHARE * (now - self.began)) - now


@contextmanager
def shown_busy(
    console: Console,
    what: str,
    heart: Heartbeat | None = None,
    say: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Show that something is being done: a spinner on a terminal, elsewhere a line now and then."""
    if console.is_terminal:
        with console.status(what):
            yield
        return
    out = say or partial(console.print, markup=False, highlight=False)
    with (heart or Heartbeat()).beating(lambda: out(f"{what} ...")):
        yield


@dataclass
class PlannedCell:
    """Hold what one cell will have, before any of its trials has started."""

    label: str
    trials: int = 0


class LiveView(Follower):
    """Hear about events after they are on record; draw at most four times a second."""

    def __init__(self, plan: StudyPlan, console: Console | None = None) -> None:
        self.plan, self.console = plan, console or Console(markup=False)
        self.state = StudyState()
        self.cells: dict[Cell, PlannedCell] = {
            cell: PlannedCell(plan.label(cell), sum(plan.trials(cell))) for cell in plan.cells
        }
        for cell, _ in plan.baseline_cells():
            self.cells.setdefault(cell, PlannedCell(plan.label(cell))).trials += 1
        self.left = 0.0  # epochs that are still expected
        for cell in plan.cells:
            search = expected_search(plan.config, plan.search_trials(cell), races=plan.races(cell))
            final = plan.trials(cell)[1] * plan.for_cell(cell).epochs
            self.left += plan.config.searches * search + final
        self.metric = metric_label(plan.config.select_metric)
        self.slots = 1
        self.epochs = 0  # that this driver has seen
        self.first_epochs = 0  # those in which slots start up, and which say nothing of the pace
        self.times: deque[float] = deque()  # when the later epochs of this driver ended
        self.began = time.monotonic()
        self.live: Live | None = None
        self.heart = Heartbeat()

    def follow(self, state: StudyState) -> None:
        """Show this state from now on, with what earlier drivers have done."""
        self.state = state
        for trial in state.trials.values():
            if trial.ended:
                self._expect_less(self._expected(trial.id, trial.started.epochs))

    def _expected(self, trial: TrialId, epochs: int) -> float:
        if trial.phase == "final":
            return epochs
        whole = trial.is_published_setting or trial.role == "finalist"
        return expected_epochs(self.plan.config, runs_to_the_end=whole)

    def _expect_less(self, epochs: float) -> None:
        self.left = max(0.0, self.left - epochs)

    @contextmanager
    def running(self, *, slots: int) -> Iterator[None]:
        """Show the study while it runs."""
        self.slots = slots
        before = f", {self.state.ended} done before" if self.state.ended else ""
        self.say(
            f"Study '{self.plan.config.name}': {len(self.plan.cells)} cells, {self.state.total} "
            f"trials{before}, {slots} at a time."
        )
        if not self.console.is_terminal:
            with self.heart.beating(lambda: self.say(self._progress())):
                yield
            return
        with Live(
            get_renderable=self.render, console=self.console, refresh_per_second=4, transient=True
        ) as self.live:
            yield
        self.live = None

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Say what is being done; a terminal shows meanwhile that time passes."""
        self.say(f"{what}.")
        with shown_busy(self.console, what, self.heart, self.say):
            yield

    def _progress(self) -> str:
        """Return one line about where the study is."""
        return (
            f"Running: {self.state.ended} of {self.state.total} trials and {self.epochs:,} epochs "
            f"done ({self.pace()})."
        )

    def epoch_done(self, trial: TrialState) -> None:
        if not trial.epoch:
            return
        self._expect_less(1)
        self.epochs += 1
        if self.first_epochs < self.slots:
            self.first_epochs += 1
            return
        now = time.monotonic()
        self.times.append(now)
        while len(self.times) > STEADY_EPOCHS + self.slots and self.times[0] < now - WINDOW:
            self.times.popleft()

    def trial_ended(self, trial: TrialState) -> None:
        ended, cell = trial.ended, self.state.cells[trial.id.cell]
        assert ended is not None
        # What was expected of it and not used.
        self._expect_less(self._expected(trial.id, trial.started.epochs) - ended.epoch)
        if cell.diverged_in_a_row == DIVERGED:
            self.say(
                f"{cell.label}: {DIVERGED} trials in a row diverged; a study with a lower "
                "learning_rate or with clip_norm may not; a loss of your own may have a bug."
            )
        if not self.live:
            best = f", best {self.metric} so far {_score(cell)}" if cell.best is not None else ""
            at = f" at epoch {ended.epoch}" if ended.epoch else ""
            self.say(
                f"{self.state.ended:>3}/{self.state.total}  {cell.label} {trial.id.name} "
                f"{ended.outcome}{at}{best}  ({self.pace()})"
            )

    def say(self, text: str) -> None:
        """Print one line with the time since the study began."""
        clock = _clock(time.monotonic() - self.began)
        self.console.print(f"[{clock}] {text}", markup=False, highlight=False, soft_wrap=True)
        self.heart.heard()

    def pace(self) -> str:
        """Return how fast the study is of late, and how long it will take."""
        epochs = len(self.times) - 1
        seconds = time.monotonic() - self.times[0] if self.times else 0.0
        steady = epochs >= STEADY_EPOCHS or seconds >= STEADY_SECONDS
        if epochs < self.slots or not steady or seconds <= 0:
            return "starting"
        rate = epochs / seconds
        pace = f"{rate:.1f} epochs/s" if rate >= 1 else f"{60 * rate:.1f} epochs/min"
        return f"{pace}, about {_clock(self.left / rate)} left"

    def render(self) -> Group:
        """Return the live table."""
        table = Table(box=None, pad_edge=False)
        for column in ("cell", "trials", "", f"best {self.metric} so far", ""):
            right = column.startswith(("trials", "best"))
            table.add_column(column, justify="right" if right else "left")
        for cell, planned in self.cells.items():
            progress = self.state.cells.get(cell, CellProgress(planned.label))
            bar = ProgressBar(total=planned.trials, completed=progress.ended, width=16)
            best = _score(progress) if progress.best is not None else ""
            doing = Text(_doing(progress, planned.trials), style="dim")
            count = f"{progress.ended}/{planned.trials}"
            table.add_row(planned.label, count, bar, best, doing)
        foot = (
            f"{_clock(time.monotonic() - self.began)}  {self.state.ended}/{self.state.total} "
            f"trials  {self.pace()}   * chosen with test feedback"
        )
        return Group(table, Text(foot, style="dim"))


def _doing(progress: CellProgress, trials: int) -> str:
    if progress.open:
        return PHASES[progress.phase]
    return "done" if progress.ended == trials else "waits"


def _score(cell: CellProgress) -> str:
    return f"{cell.best:.3f}{'*' if cell.peeks else ''}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes:02}:{rest:02}"
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
