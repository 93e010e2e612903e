"""Add up a study's events into its state: the only place that interprets an event."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from analysis.record import events
from analysis.record.events import AnyEvent
from analysis.record.trial_id import TrialId
from trainables.contract import PEEKING, Cell, is_closed_set

PACE_WINDOW = 600_000  # milliseconds over which the pace is taken
TRIES = 3  # of a trial that stalls, until it makes progress by an epoch
# An epoch that says so is the trial's last.
NO_REST = ("diverged", "out_of_memory", "out_of_patience")


class AuditLine(NamedTuple):
    """Hold one reading of the test classes: a line of readings.csv."""

    cell: str
    trial: str
    seed: int
    epoch: str
    rule: str


@dataclass
class TrialState:
    """Hold one trial so far."""

    started: events.TrialStarted
    commit: str = ""  # of the code that ran it
    versions: str = ""  # of Python and of the libraries that ran it
    rows: list[events.EpochDone] = field(default_factory=list)
    repeats: list[events.EpochRepeated] = field(default_factory=list)  # that came out otherwise
    ended: events.TrialEnded | None = None
    audit: events.CheckpointAudited | None = None
    stalls: list[events.TrialStalled] = field(default_factory=list)  # since its last epoch

    @cached_property
    def id(self) -> TrialId:
        return TrialId.parse(self.started.trial)

    @property
    def epoch(self) -> int:
        """Return the last epoch that is on record."""
        return self.rows[-1].epoch if self.rows else 0

    @property
    def trained(self) -> bool:
        """Return whether its last epoch is on record."""
        ended_itself = bool(self.rows) and any(getattr(self.rows[-1], name) for name in NO_REST)
        return ended_itself or self.epoch >= self.started.epochs

    @property
    def peeks(self) -> bool:
        """Return whether it scores the test classes every epoch."""
        return self.started.rule == PEEKING

    @property
    def succeeded(self) -> bool:
        return self.ended is not None and self.ended.outcome not in events.LOST

    @property
    def has_stalled(self) -> bool:
        """Return whether it has stalled so often that it ends."""
        return len(self.stalls) >= TRIES

    def metrics(self) -> dict[str, float]:
        """Return the last value of every metric."""
        found: dict[str, float] = {}
        for row in self.rows:
            found |= row.metrics
        return found | (self.audit.metrics if self.audit else {})

    def outcome(self) -> events.Outcome:
        """Return how a trial that trains no further has ended, judged by its last epoch."""
        last = self.rows[-1]
        if last.diverged:
            return "diverged"
        if last.out_of_memory:
            return "out of memory"
        if last.out_of_patience:
            return "out of patience"
        return "stopped early" if last.epoch < self.started.epochs else "finished"


@dataclass
class CellProgress:
    """Hold how far one cell is."""

    label: str
    peeks: bool = False  # its best score is one of the test classes
    started: int = 0
    ended: int = 0
    failed: int = 0
    diverged_in_a_row: int = 0
    best: float | None = None  # selection score of its best trial so far
    phase: str = ""  # of the trial that was started last
    slowest: float = 0.0  # seconds of its slowest epoch so far

    @property
    def open(self) -> int:
        """Return how many trials have started and not ended."""
        return self.started - self.ended


class Follower:
    """Hear about each event after it has been applied; override what you want to know."""

    def study_started(self, event: events.StudyStarted) -> None: ...
    def study_resumed(self, event: events.StudyResumed) -> None: ...
    def trial_started(self, trial: TrialState) -> None: ...
    def epoch_done(self, trial: TrialState) -> None: ...
    def trial_ended(self, trial: TrialState) -> None: ...
    def trial_stalled(self, trial: TrialState) -> None: ...
    def checkpoint_audited(self, trial: TrialState) -> None: ...
    def study_finished(self, event: events.StudyFinished) -> None: ...


class StudyState:
    """Hold everything that is known about a study. apply() every event in the ledger's order."""

    def __init__(self, past: Iterable[AnyEvent] = ()) -> None:
        self.identity: events.StudyStarted | None = None
        self.config: dict[str, Any] = {}  # of the first driver, with what the study grew by
        self.code: dict[str, str] = {}  # of the last driver
        self.commit = ""  # of the last driver
        self.total = 0  # trials that are planned
        self.trials: dict[str, TrialState] = {}
        self.cells: dict[Cell, CellProgress] = {}
        self.outcomes: Counter[str] = Counter()
        self.epochs = 0
        self.drivers = 0
        self.updated = 0  # milliseconds
        self.finished = False  # and nothing has begun since
        self.stopping = False  # by the present driver
        self.audited = False
        self._reads: list[AuditLine] = []
        self._peeking: dict[str, TrialState] = {}  # trials that read test classes with every epoch
        self._recent: deque[int] = deque()  # when the last epochs of this driver were done
        for event in past:
            self.apply(event)

    def apply(self, event: AnyEvent, follower: Follower | None = None) -> None:
        """Apply one event, then pass it to the follower."""
        self.updated = event.at
        follower = follower or Follower()
        match event:
            case events.EpochDone():  # first: nearly all events are epochs
                follower.epoch_done(self._epoch(event))
            case events.StudyStarted():
                self.identity, self.config, self.code = event, dict(event.config), dict(event.code)
                self._new_driver(event)
                follower.study_started(event)
            case events.StudyResumed():
                self._reads += self._cut_off()
                self.config |= event.grows
                self.code |= event.code
                self._new_driver(event)
                follower.study_resumed(event)
            case events.TrialStarted():
                follower.trial_started(self._start(event))
            case events.EpochRepeated():
                self.trials[event.trial].repeats.append(event)
            case events.TestRead():
                trial = self.trials[event.trial]
                self._reads += [_reading(trial, epoch, rule) for epoch, rule in event.reads]
            case events.TrialEnded():
                follower.trial_ended(self._end(event))
            case events.TrialStalled():
                trial = self.trials[event.trial]
                trial.stalls.append(event)
                follower.trial_stalled(trial)
            case events.CheckpointAudited():
                self.audited = True
                trial = self.trials[event.trial]
                trial.audit = event
                follower.checkpoint_audited(trial)
            case events.StudyStopping():
                self.stopping = True
            case events.StudyFinished():
                self.finished = True
                follower.study_finished(event)
            case events.LedgerRepaired():
                self._reads += [AuditLine(*each) for each in event.reads]

    def _new_driver(self, event: events.StudyStarted | events.StudyResumed) -> None:
        self.total, self.commit = event.total, event.commit
        self.finished = self.stopping = False
        self.drivers += 1
        self._recent.clear()
        for trial in self.open_trials():  # what made it stall may have been mended
            trial.stalls.clear()

    def _start(self, event: events.TrialStarted) -> TrialState:
        trial = TrialState(event, self.commit, versions_text(self.code))
        self.trials[event.trial] = trial
        cell = self.cells.setdefault(trial.id.cell, CellProgress(event.label, trial.peeks))
        cell.started += 1
        cell.phase = trial.id.phase
        self.finished = False
        if trial.peeks:
            self._peeking[event.trial] = trial
        return trial

    def _epoch(self, event: events.EpochDone) -> TrialState:
        trial = self.trials[event.trial]
        trial.rows.append(event)
        trial.stalls.clear()
        if trial.peeks:
            self._reads.append(_reading(trial, str(event.epoch), trial.started.rule))
        if event.epoch:  # else a baseline, which is scored and not trained
            cell = self.cells[trial.id.cell]
            cell.slowest = max(cell.slowest, event.metrics.get("seconds", 0.0))
            if not is_closed_set(trial.id.cell.protocol):  # which chooses nothing
                cell.best = max(event.score, cell.best or 0.0)
            self.epochs += 1
            self._recent.append(event.at)
            while self._recent[0] <= event.at - PACE_WINDOW:
                self._recent.popleft()
        return trial

    def _end(self, event: events.TrialEnded) -> TrialState:
        trial = self.trials[event.trial]
        trial.ended = event
        self._peeking.pop(event.trial, None)
        self.outcomes[event.outcome] += 1
        cell = self.cells[trial.id.cell]
        cell.ended += 1
        cell.failed += event.outcome in events.LOST
        cell.diverged_in_a_row = cell.diverged_in_a_row + 1 if event.outcome == "diverged" else 0
        return trial

    @property
    def began(self) -> int:
        """Return when its first line was written, in milliseconds."""
        return self.identity.at if self.identity else 0

    @property
    def ended(self) -> int:
        """Return how many trials have ended."""
        return self.outcomes.total()

    @property
    def failed(self) -> int:
        """Return how many trials have ended and left nothing."""
        return sum(self.outcomes[outcome] for outcome in events.LOST)

    def open_trials(self) -> list[TrialState]:
        """Return the trials that have started and not ended, in that order."""
        return [trial for trial in self.trials.values() if not trial.ended]

    def epochs_per_minute(self) -> float:
        """Return the pace of the last ten minutes of the last driver."""
        times = self._recent
        if len(times) < 2 or times[-1] <= times[0]:
            return 0.0
        return 60_000 * (len(times) - 1) / (times[-1] - times[0])

    def test_readings(self) -> list[AuditLine]:
        """Return every reading of the test classes, in the ledger's order.

        A final trial's readings are on record before they happen, so one that was cut off counts,
        even if it never happened. A trial that peeks reads with every epoch; the epoch that it is
        in now, or was in when its driver died, counts as well.
        """
        return [*self._reads, *self._cut_off()]

    def _cut_off(self) -> Iterator[AuditLine]:
        for trial in self._peeking.values():
            if not trial.trained:
                yield _reading(trial, str(trial.epoch + 1), trial.started.rule)


def versions_text(code: Mapping[str, str]) -> str:
    """Return the versions of Python and of libraries in one line."""
    return " ".join(f"{name}={version}" for name, version in code.items() if name != "sources")


def _reading(trial: TrialState, epoch: str, rule: str) -> AuditLine:
    return AuditLine(str(trial.id.cell), trial.id.name, trial.started.seed, epoch, rule)
