"""Export the record to MLflow: a thread follows the ledger and writes what it says."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import chain

import msgspec

from analysis.record import events
from analysis.record.commands import resuming
from analysis.record.kept_files import LostArtifact
from analysis.record.ledger import LedgerReader
from analysis.record.record import Record
from analysis.record.specs import read_shared
from analysis.record.state import Follower, StudyState, TrialState
from analysis.tracking import Tracker, TrackingError, forget_moved, redact, shown
from analysis.tracking.cursor import Cursor, read_cursor, save_cursor
from analysis.tracking.experiment import DatasetInput
from analysis.tracking.store import one_line
from analysis.tracking.study_page import STUDY
from analysis.tracking.write import ENDED, SPEC, STARTED, Point, Status
from study.config.plan import StudyPlan
from study.config.split_files import digest, splits_text
from study.driver.checkpoints import drop_checkpoints, kept_outputs
from study.driver.folder import config_yaml, mlflow_files, tracking_uri
from trainables.contract import Cell, TrialSpec

CHUNK = 500  # events that are written together
GATHERING = 5.0  # seconds in which epochs gather: MLflow takes as long for one as for ten
LAST_WAIT = 30.0  # seconds that the end of a study waits for an MLflow that is away
RETRY = 2.0  # seconds between two attempts to reach it
SILENCE = 30.0  # seconds of failed attempts before a message

Action = Callable[[], None]


class MlflowMirror(Follower):
    """Export the ledger to MLflow, following the file, not the driver's memory.

    So nothing waits for MLflow, and a new driver continues where the last one was cut off.
    """

    def __init__(
        self, plan: StudyPlan, record: Record, *, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.plan, self.record, self.say = plan, record, say
        self.folder, self.resumed = record.folder, bool(record.past)
        self.cursor = read_cursor(self.folder)
        self.state = StudyState(record.past[: self.cursor.events])
        self.actions: list[Action] = []  # what the last event asks for
        self.points: dict[str, list[Point]] = {}  # epochs of this chunk, by trial
        self.opened = False
        self.complete = False  # whether MLflow has everything
        self.refusal: TrackingError | None = None  # of the start
        self.failure: Exception | None = None  # of the last attempt
        self.closing, self.patient = False, True
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self.thread.start()

    def wait_until_ready(self) -> None:
        """Return when the experiment exists. Raise TrackingError if a new study cannot make it."""
        self.ready.wait()
        if self.refusal:
            raise self.refusal

    def close(self, *, patient: bool = True) -> None:
        """Write what is left, and mark runs that have not ended as KILLED.

        patient: wait for an MLflow that is away. Raise TrackingError if something could not be
        written.
        """
        with self.record.ledger.news:
            self.closing, self.patient = True, patient
            self.record.ledger.news.notify_all()
        self.thread.join()
        if isinstance(self.failure, LostArtifact):
            raise TrackingError(str(self.failure)) from self.failure
        if not self.complete:
            cause = self.refusal or self.failure
            why = one_line(cause) if cause else "its thread ended"
            raise TrackingError(
                f"Not everything reached MLflow ({why}), but nothing is lost: "
                f"`{resuming(self.folder)}` writes the rest when MLflow is back."
            ) from cause

    def _work(self) -> None:
        try:
            self._open()
        except TrackingError as error:
            is_for_good = isinstance(error.__cause__, ValueError)
            if is_for_good or not self.resumed:
                self.refusal = error
                return
        finally:
            self.ready.set()
        try:
            # What is resumed needs no MLflow to train, so it may come later.
            self.complete = self._insist(self._open) and self._follow_ledger()
        except Exception as error:
            self.failure = error

    def _open(self) -> None:
        """Open the store, unless it is open."""
        if not self.opened:
            config, uri = self.plan.config, tracking_uri(self.plan.config)
            if self.resumed:
                forget_moved(uri, config.name)
            files = mlflow_files(config)
            self.tracker = Tracker(uri, config.name, artifacts=files, resumed=self.resumed)
            self.opened = True

    def _follow_ledger(self) -> bool:
        """Write until the study is over. Return False if MLflow did not come back."""
        if self.cursor.byte and not self.tracker.knows(self.state.trials):
            self.cursor, self.state = Cursor(), StudyState()  # of another store, or an older copy
        if not self._insist(lambda: self.tracker.mark(self._open_runs(), "RUNNING")):
            return False
        reader = LedgerReader(self.folder, self.cursor.byte)
        while chunk := self._next(reader):
            cursor = Cursor(reader.offset, self.cursor.events + len(chunk))
            save: Action = partial(save_cursor, self.folder, cursor)
            if not all(self._insist(action) for action in chain(self._actions(chunk), [save])):
                return False
            self.cursor = cursor
        if not self.state.drivers:  # it ended before its first line, as when Ray does not start
            return self._insist(self.tracker.discard)
        return self._insist(lambda: self.tracker.mark(self._open_runs(), "KILLED"))

    def _next(self, reader: LedgerReader) -> list[events.AnyEvent]:
        """Wait for further events; return none only when no more will come."""
        ledger = self.record.ledger
        while True:
            closing = self.closing  # before the read: what is written later is read next time
            chunk = reader.read(limit=CHUNK, end=ledger.size)
            if chunk or closing:
                return chunk
            with ledger.news:
                ledger.news.wait_for(lambda: self.closing or ledger.size != reader.offset)
                ledger.news.wait_for(lambda: self.closing, timeout=GATHERING)

    def _insist(self, write: Action) -> bool:
        """Try until it is written. Return False if the study is over and MLflow stays away."""
        began, said, deadline = time.monotonic(), False, None
        while True:
            try:
                write()
                self.failure = None
                return True
            except LostArtifact:  # no second attempt would help
                raise
            except Exception as error:
                self.failure = error
            if not said and time.monotonic() - began > SILENCE:
                self.say(
                    f"MLflow has taken nothing for {SILENCE:g} s ({one_line(self.failure)}); the "
                    "study continues and keeps trying."
                )
                said = True
            if self.closing:
                deadline = deadline or time.monotonic() + LAST_WAIT * self.patient
                if time.monotonic() >= deadline:
                    return False
            time.sleep(RETRY)

    def _actions(self, chunk: Sequence[events.AnyEvent]) -> Iterator[Action]:
        """Yield what to write, in order; epochs of one trial go together."""
        for event in chunk:
            self.state.apply(event, self)
            actions, self.actions = self.actions, []
            yield from actions
        points, self.points = self.points, {}
        for trial, mine in points.items():
            yield partial(self.tracker.log_points, trial, mine)

    @cached_property
    def cells(self) -> dict[Cell, TrialSpec]:
        """Return the spec of a final trial of every cell, baselines too."""
        plan = self.plan
        trained = {cell: plan.spec(cell, "final", plan.config.seed, {}) for cell in plan.cells}
        return trained | {spec.cell: spec for spec in plan.baseline_specs()}

    def _open_runs(self) -> list[str]:
        """Return the runs that have begun and not ended: cells first, then trials."""
        if not self.state.drivers or self.state.finished:
            return []
        trials = [trial.started.trial for trial in self.state.open_trials()]
        return [*map(str, self.state.cells), *trials, STUDY]

    def study_started(self, event: events.StudyStarted) -> None:
        self.actions.append(self._describe)

    def study_resumed(self, event: events.StudyResumed) -> None:
        if event.grows:
            known = [*map(str, self.state.cells)]
            self.actions.append(partial(self.tracker.mark, known, "RUNNING"))
            self.actions.append(self._describe)

    def trial_started(self, trial: TrialState) -> None:
        cell = trial.id.cell
        if self.state.cells[cell].started == 1:  # a cell's run begins with its first trial
            self.actions.append(partial(self._start_cell, cell, trial.started.at))
        self.actions.append(partial(self._start_trial, trial))

    def epoch_done(self, trial: TrialState) -> None:
        row = trial.rows[-1]
        points = self.points.setdefault(row.trial, [])
        points += [(name, value, row.epoch, row.at) for name, value in row.metrics.items()]

    def trial_ended(self, trial: TrialState) -> None:
        points = self.points.pop(trial.started.trial, [])
        self.actions.append(partial(self._end_trial, trial, points))

    def checkpoint_audited(self, trial: TrialState) -> None:
        audit = trial.audit
        assert audit is not None
        points = [(name, value, 0, audit.at) for name, value in audit.metrics.items()]
        self.actions.append(partial(self.tracker.log_points, audit.trial, points))

    def study_finished(self, event: events.StudyFinished) -> None:
        for cell in self.state.cells:
            self.actions.append(partial(self._end_cell, cell))
        self.actions.append(self._describe)

    def _describe(self) -> None:
        answer = shown.answer_so_far(self.state)
        self.tracker.describe(shown.question(self.state.config), answer=answer)

    def _start_cell(self, cell: Cell, at: int) -> None:
        """Create the parent run of a cell, with the config and its splits."""
        spec = self.cells[cell]
        config = self.state.config
        tags = shown.tags(self.state, cell, label=self.plan.label(cell), rule=spec.rule)
        tags |= {"split": digest(spec.splits), **shown.describe_cell(config, cell, spec.rule)}
        files = {
            "config.yaml": redact(config_yaml(self.plan.config)),
            "splits.json": splits_text(cell.dataset, cell.protocol, spec.splits),
        }
        self.tracker.start_cell(
            str(cell),
            name=shown.cell_name(config, cell),
            params=shown.params(config, cell),
            tags=tags,
            files=files,
            dataset=self.datasets[cell.dataset],
            at=at,
        )

    def _start_trial(self, trial: TrialState) -> None:
        started, cell, config = trial.started, trial.id.cell, self.state.config
        tags = shown.tags(self.state, cell, label=started.label, rule=started.rule) | {
            "trial": trial.id.name,
            "phase": trial.id.phase,
            "replicate": trial.id.replicate,
            "seed": started.seed,
            "tuned": started.tuned,
            STARTED: events.encode(started).decode(),
            **shown.describe_trial(trial),
        }
        self.tracker.start_trial(
            started.trial,
            cell=str(cell),
            name=shown.trial_name(config, trial.id),
            params={**shown.params(config, cell), **started.setting},
            tags=tags | ({"extended": "after-test"} if started.extended else {}),
            files={SPEC: read_shared(self.folder, started.spec)},
            dataset=self.datasets[cell.dataset],
            at=started.at,
        )

    def _end_trial(self, trial: TrialState, points: Sequence[Point]) -> None:
        """Give its files to the run, and remove checkpoints that a driver did not get to remove."""
        ended = trial.ended
        assert ended is not None
        about = msgspec.structs.replace(ended, metrics={})  # those are in the run's metrics
        tags = {**shown.ended_tags(trial), ENDED: events.encode(about).decode()}
        points = [*points, *shown.chosen_points(trial.rows)]
        status: Status = "FINISHED" if trial.succeeded else "FAILED"
        files = kept_outputs(self.folder, trial.id, self.plan.config) if trial.succeeded else []
        self.tracker.end(ended.trial, status, points=points, tags=tags, files=files, at=ended.at)
        drop_checkpoints(self.folder, trial.id)

    def _end_cell(self, cell: Cell) -> None:
        """Give the parent run the means of its final trials, as of the last of them.

        A study that grew by no final trial adds no point.
        """
        mine = [trial for trial in self.state.trials.values() if trial.id.cell == cell]
        at = max((trial.ended.at for trial in mine if trial.ended), default=0)
        self.tracker.end(str(cell), "FINISHED", points=shown.final_means(mine), at=at)

    @cached_property
    def datasets(self) -> dict[str, DatasetInput]:
        refs = map(self.plan.dataset_ref, self.plan.config.dataset)
        return {ref.dataset: shown.dataset_input(ref) for ref in refs}
