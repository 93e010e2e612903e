"""Show a study while it runs: a live table on a terminal, lines that never stop elsewhere."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from analysis.ranking.measurement import metric_label
from analysis.record.state import CellProgress, Follower, StudyState, TrialState
from analysis.record.trial_id import TrialId
from search_spaces import value_text
from study.config.budget import expected_epochs, expected_search
from study.config.plan import StudyPlan
from study.config.protocols import find_protocol
from study.view.heartbeat import Heartbeat, shown_busy
from trainables.contract import PEEKING, Cell

DIVERGED = 3  # trials in a row that are worth a message
# A pace is known after so many epochs, or after so many seconds where epochs are long.
STEADY_EPOCHS, STEADY_SECONDS = 20, 60.0
WINDOW = 120.0  # seconds whose epochs make the pace
PHASES = {"search": "searches", "final": "final trials"}
PLURAL = {"searches": "search", "waits": "wait", "final trials": "with final trials"}
SCORED = {False: "validation", True: "test*"}
PEEKED = "   * chosen with test feedback"
NTH = ("first", "second", "third")
MOST_SLOTS = 8  # whose trials the view shows
FRAME = 3  # lines of the view beside cells and slots: the head, the foot, and one to spare


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
        self.now: dict[str, TrialState] = {}  # trials that slots run now, in the order of starting
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

    def trial_started(self, trial: TrialState) -> None:
        self.now[trial.started.trial] = trial

    def epoch_done(self, trial: TrialState) -> None:
        self.now[trial.started.trial] = (
            trial  # one that goes on after --resume starts no second time
        )
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
        self.now.pop(trial.started.trial, None)
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

    def trial_stalled(self, trial: TrialState) -> None:
        stall, times = trial.stalls[-1], len(trial.stalls)
        since = time.strftime("%H:%M", time.localtime(stall.at / 1000 - stall.seconds))
        then = (
            "it ends as stalled, without a score; if its epochs take that long, set stall_minutes"
            if trial.has_stalled
            else "its slot is ended, and another one tries it again"
        )
        self.say(
            f"{trial.started.label} {trial.id.name} has made no progress since {since} (epoch "
            f"{trial.epoch} of {trial.started.epochs}), for the {NTH[times - 1]} time: {then}."
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
        if self.state.ended >= self.state.total:
            return pace
        return f"{pace}, about {_clock(self.left / rate)} left"

    def render(self) -> Group:
        """Return the live view: cells, what the slots do now, and how far the study is.

        Where the terminal has too few lines for all cells, those that run come first.
        """
        now = [self._line(trial) for trial in list(self.now.values())[-MOST_SLOTS:]]
        shown, hidden = self._fitting(self.console.height - len(now) - FRAME)
        rules = {find_protocol(cell.protocol).rule == PEEKING for cell in self.plan.cells}
        heads = [f"best {self.metric} on {SCORED[peeks]}" for peeks in sorted(rules)]
        table = Table(box=None, pad_edge=False)
        for column in ("cell", "trials", "", *heads, ""):
            right = column.startswith(("trials", "best"))
            table.add_column(column, justify="right" if right else "left")
        for cell in shown:
            progress, trials = self._progress_of(cell)
            bar = ProgressBar(total=trials, completed=progress.ended, width=16)
            best = [
                _score(progress) if progress.best is not None and progress.peeks == peeks else ""
                for peeks in sorted(rules)
            ]
            doing = Text(_doing(progress, trials), style="dim")
            table.add_row(self.cells[cell].label, f"{progress.ended}/{trials}", bar, *best, doing)
        parts: list[Table | Text] = [table]
        if hidden:
            counts = Counter(_doing(*self._progress_of(cell)) for cell in hidden)
            states = ", ".join(
                f"{count} {PLURAL.get(what, what)}" for what, count in counts.items()
            )
            parts.append(Text(f"and {len(hidden)} more cells: {states}", style="dim"))
        foot = (
            f"{_clock(time.monotonic() - self.began)}  {self.state.ended}/{self.state.total} "
            f"trials  {self.pace()}{PEEKED * (True in rules)}"
        )
        lines = [
            Text(line, style="dim", no_wrap=True, overflow="ellipsis") for line in [*now, foot]
        ]
        return Group(*parts, *lines)

    def _progress_of(self, cell: Cell) -> tuple[CellProgress, int]:
        """Return how far a cell is, and how many trials it has: more than planned if it grew."""
        planned = self.cells[cell]
        progress = self.state.cells.get(cell, CellProgress(planned.label))
        return progress, max(planned.trials, progress.started)

    def _fitting(self, lines: int) -> tuple[list[Cell], list[Cell]]:
        """Return the cells that fit into so many lines, and the others, in the plan's order."""
        if len(self.cells) <= lines:
            return list(self.cells), []
        order = {"done": 2, "waits": 1}
        by_interest = sorted(
            self.cells, key=lambda cell: order.get(_doing(*self._progress_of(cell)), 0)
        )
        chosen = set(by_interest[: max(1, lines - 1)])  # one line says what the others do
        return (
            [cell for cell in self.cells if cell in chosen],
            [cell for cell in self.cells if cell not in chosen],
        )

    def _line(self, trial: TrialState) -> str:
        """Say what one slot does now: the trial, its epoch and its setting."""
        setting = "  ".join(
            f"{key.removeprefix('loss.')}={value_text(value)}"
            for key, value in trial.started.setting.items()
        )
        epoch = f"epoch {trial.epoch} of {trial.started.epochs}" if trial.started.epochs else ""
        return f"now  {trial.started.label} {trial.id.name}  {epoch}  {setting}".rstrip()


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
