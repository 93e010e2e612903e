"""What a study looks like while it runs: a live table on a terminal, one line per event elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from study.budget import expected_epochs, expected_search
from study.config import StudyConfig
from trainables.contract import PEEKING, Cell, TrialSpec

DIVERGED = 3  # trials in a row that are worth a word


@dataclass
class CellView:
    """The counters of one cell."""

    label: str
    total: int
    peeks: bool
    done: int = 0
    running: int = 0
    best: float | None = None
    state: str = "waits"
    diverged: int = 0  # trials in a row


class View:
    """Fed by the driver; draws at most four times a second."""

    def __init__(self, config: StudyConfig, console: Console | None = None) -> None:
        self.config, self.console = config, console or Console()
        self.cells = {cell: CellView(config.label(cell), sum(config.trials(cell)), _peeks(config, cell)) for cell in config.cells()}
        for baseline, _ in config.baseline_cells():
            cell = self.cells.setdefault(baseline, CellView(config.label(baseline), 0, peeks=False))
            cell.total += 1
        self.total, self.ended_trials, self.epochs = 0, 0, 0
        self.left = 0.0  # epochs that are still expected
        for each in config.cells():
            search, final = config.trials(each)
            self.left += expected_search(config, search) + final * config.of(each).epochs
        self.began = self.first_epoch = time.monotonic()
        self.live: Live | None = None

    def took_up(self, ended: Iterable[tuple[TrialSpec, Mapping[str, Any]]]) -> None:
        """What earlier drivers of this study have done."""
        for spec, event in ended:
            cell = self.cells[spec.cell]
            cell.done += 1
            cell.state = "done" if cell.done == cell.total else "waits"
            self.ended_trials += 1
            name = str(event["key"]).rpartition("/")[2]
            expected = expected_epochs(self.config, name) if spec.phase == "search" else spec.training.epochs
            self.left = max(0.0, self.left - expected)
            if event.get("epoch"):
                cell.best = max(event["score"], cell.best or 0.0)

    @contextmanager
    def running(self, *, total: int, slots: int) -> Iterator[None]:
        self.total = total
        self.first_epoch = time.monotonic()
        before = f", {self.ended_trials} done before" if self.ended_trials else ""
        self.say(f"Study '{self.config.name}': {len(self.config.cells())} cells, {total} trials{before}, {slots} at a time.")
        if not self.console.is_terminal:
            yield
            return
        with Live(get_renderable=self.render, console=self.console, refresh_per_second=4, transient=True) as self.live:
            yield
        self.live = None

    def started(self, spec: TrialSpec, name: str) -> None:
        cell = self.cells[spec.cell]
        cell.running += 1
        cell.state = "searches" if spec.phase == "search" else "final trials"
        if not self.epochs:
            self.first_epoch = time.monotonic()

    def epoch(self, spec: TrialSpec, epoch: int, score: float) -> None:
        cell = self.cells[spec.cell]
        if epoch:
            self.epochs += 1
            self.left = max(0.0, self.left - 1)
            cell.best = max(score, cell.best or 0.0)

    def ended(self, spec: TrialSpec, name: str, outcome: str, result: dict[str, Any]) -> None:
        cell = self.cells[spec.cell]
        cell.running -= 1
        cell.done += 1
        self.ended_trials += 1
        epoch = result.get("epoch", 0)
        if spec.phase == "search":  # what was expected of it and not used
            self.left = max(0.0, self.left - (expected_epochs(self.config, name) - epoch))
        if not cell.running:
            cell.state = "done" if cell.done == cell.total else "waits"
        cell.diverged = cell.diverged + 1 if outcome == "diverged" else 0
        if cell.diverged == DIVERGED:
            cure = "a study with a lower learning_rate or with clip_norm may not; a loss of your own may have a bug"
            self.say(f"{cell.label}: {DIVERGED} trials in a row diverged; {cure}.")
        if not self.live:
            best = f", best so far {cell.best:.3f}{_mark(cell.peeks)}" if cell.best is not None else ""
            at = f" at epoch {epoch}" if epoch else ""
            self.say(f"{self.ended_trials:>3}/{self.total}  {cell.label} {name} {outcome}{at}{best}  ({self.pace()})")

    def say(self, text: str) -> None:
        self.console.print(f"[{_clock(time.monotonic() - self.began)}] {text}", markup=False, highlight=False, soft_wrap=True)

    def pace(self) -> str:
        seconds = time.monotonic() - self.first_epoch
        if self.epochs < 2 or seconds <= 0:
            return "starting"
        rate = self.epochs / seconds
        return f"{rate:.1f} epochs/s, about {_clock(self.left / rate)} left"

    def render(self) -> Group:
        table = Table(box=None, pad_edge=False)
        for column in ("cell", "trials", "", f"best so far ({self.config.select_metric})", ""):
            table.add_column(column, justify="right" if column.startswith(("trials", "best")) else "left")
        for cell in self.cells.values():
            bar = ProgressBar(total=cell.total, completed=cell.done, width=16)
            best = f"{cell.best:.3f}{_mark(cell.peeks)}" if cell.best is not None else ""
            table.add_row(cell.label, f"{cell.done}/{cell.total}", bar, best, Text(cell.state, style="dim"))
        elapsed = _clock(time.monotonic() - self.began)
        foot = Text(f"{elapsed}  {self.ended_trials}/{self.total} trials  {self.pace()}   * chosen with test feedback", style="dim")
        return Group(table, foot)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:02}:{rest:02}" if minutes < 60 else f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _peeks(config: StudyConfig, cell: Cell) -> bool:
    return config.protocol(cell.protocol).rule == PEEKING


def _mark(peeks: bool) -> str:
    return "*" if peeks else ""
