"""MLflow as the mirror of the ledger: a thread follows the file and writes what it tells, however long MLflow is away."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import chain, islice
from pathlib import Path
from statistics import fmean
from typing import Any

import yaml

from analysis.tracking import Tracker, TrackingError, redact
from analysis.tracking.store import FILES
from analysis.tracking.write import Point, Status, told
from study.config import StudyConfig
from study.cursor import cursor, save_cursor
from study.ledger import LEDGER, Event, Ledger, read
from study.preflight import tracking_uri
from study.splits import digest, splits_text
from study.storage import Lost, config_yaml, drop_checkpoints, kept, leaves
from trainables.contract import PEEKING, Cell, TrialSpec
from trainables.datasets.catalogue import index
from trainables.versions import commit, libraries

CHUNK = 500  # events that are written together
PAUSE = 5.0  # seconds in which rows come together before they are written: MLflow takes as long for one as for ten
PATIENCE = 30.0  # seconds that the end of a study waits for an MLflow that is away
RETRY = 2.0  # seconds between two tries to reach it
SILENCE = 30.0  # seconds of tries that fail before anyone is told
DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # libyaml's, where it is

Action = Callable[[], None]


class Mirror:
    """Reads the file, not the driver's memory: nothing waits for MLflow, and a new driver goes on where the last one was cut off."""

    def __init__(
        self, config: StudyConfig, folder: Path, ledger: Ledger, *, resumed: bool, say: Callable[[str], None] = lambda text: None
    ) -> None:
        self.config, self.folder, self.ledger, self.resumed, self.say = config, folder, ledger, resumed, say
        self.offset = cursor(folder)
        self.behind = True  # it may not have everything
        self.open: dict[str, None] = {}  # runs that have begun and not ended, in that order
        self.finals: dict[str, dict[int, Event]] = {}  # cell -> seed -> end, for the parent runs
        self.given: dict[str, Event] = {}  # every trial, as the ledger tells of it
        for event, end in read(folder / LEDGER):
            if end <= self.offset:
                self._follow(event)
        self.refusal: TrackingError | None = None  # of the start
        self.failure: Exception | None = None  # of the last try
        self.closing, self.waits = False, True
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._work, name="mirror", daemon=True)
        self.thread.start()

    def wait_until_ready(self) -> None:
        """Until the experiment exists; raises a TrackingError with what stood in the way."""
        self.ready.wait()
        if self.refusal:
            raise self.refusal

    def close(self, *, waits: bool = True) -> None:
        """Write what is left; runs that have not ended are KILLED. A TrackingError says what could not be written.

        waits: for an MLflow that is away.
        """
        with self.ledger.news:
            self.closing, self.waits = True, waits
            self.ledger.news.notify_all()
        self.thread.join()
        if isinstance(self.failure, Lost):
            raise TrackingError(str(self.failure)) from self.failure
        if self.behind and not self.refusal:  # that one was told at the start
            why = told(self.failure) if self.failure else "its thread ended"
            raise TrackingError(
                f"Not everything reached MLflow ({why}), but nothing is lost: "
                f"`fairtrial run {self.config.name} --resume` writes the rest when it is back."
            ) from self.failure

    def _work(self) -> None:
        uri, name, files = tracking_uri(self.config), self.config.name, files_folder(self.config)
        try:
            self.tracker = Tracker(uri, name, artifacts=files, resumed=self.resumed)
        except TrackingError as error:
            self.refusal = error
            return
        finally:
            self.ready.set()
        try:
            self.behind = not self._follow_ledger()
        except Exception as error:
            self.failure = error

    def _follow_ledger(self) -> bool:
        """Until the study is over; False: MLflow did not come back."""
        if self.offset and not self.tracker.knows(self.given):  # another store, or an older copy, than the one that the cursor speaks of
            self.offset = 0
        if not self._insist(lambda: self.tracker.mark(self.open, "RUNNING")):
            return False
        while chunk := self._next():
            save: Action = partial(save_cursor, self.folder, chunk[-1][1])
            if not all(self._insist(action) for action in chain(self._actions(chunk), [save])):
                return False
            self.offset = chunk[-1][1]
        return self._insist(lambda: self.tracker.mark(self.open, "KILLED"))

    def _next(self) -> list[tuple[Event, int]]:
        """What the ledger has beyond the cursor; returns when there is something, or nothing more will come."""
        while True:
            closing = self.closing  # before the look: what is written later is looked for again
            chunk = list(islice(read(self.folder / LEDGER, self.offset, self.ledger.size), CHUNK))
            if chunk or closing:
                return chunk
            with self.ledger.news:
                self.ledger.news.wait_for(lambda: self.closing or self.ledger.size != self.offset)
                self.ledger.news.wait_for(lambda: self.closing, timeout=PAUSE)

    def _insist(self, write: Action) -> bool:
        """Try until it is written; False: the study is over and MLflow did not come back."""
        began, said, deadline = time.monotonic(), False, None
        while True:
            try:
                write()
                self.failure = None
                return True
            except Lost:
                raise
            except Exception as error:
                self.failure = error
            if not said and time.monotonic() - began > SILENCE:
                self.say(f"MLflow has taken nothing for {SILENCE:g} s ({told(self.failure)}); the study goes on, and it is tried again.")
                said = True
            if self.closing:
                deadline = deadline or time.monotonic() + PATIENCE * self.waits
                if time.monotonic() >= deadline:
                    return False
            time.sleep(RETRY)

    def _actions(self, chunk: list[tuple[Event, int]]) -> Iterator[Action]:
        """What to write, in order, each part by itself; rows of one trial go together."""
        rows: dict[str, list[Point]] = {}
        for event, _ in chunk:
            if event["event"] == "row":
                points = rows.setdefault(event["key"], [])
                points += [(name, value, event["epoch"], event["at"]) for name, value in event["metrics"].items()]
            elif event["event"] == "trial":
                yield partial(self._start_trial, event)
            elif event["event"] == "study":
                yield from (partial(self._start_cell, event, cell, spec) for cell, spec in _cells(self.config).items())
            elif event["event"] == "end":
                yield partial(self._end_trial, event, rows.pop(event["key"], []))
            elif event["event"] == "resumed" and event.get("grows"):
                yield partial(self.tracker.mark, list(map(str, _cells(self.config))), "RUNNING")
            elif event["event"] == "audit":
                yield partial(self.tracker.log, event["key"], event["metrics"], at=event["at"])
            elif event["event"] == "finished":
                yield from (partial(self._end_cell, event, cell) for cell in map(str, _cells(self.config)))
            self._follow(event)
        for key, points in rows.items():
            yield partial(self.tracker.log_points, key, points)

    def _follow(self, event: Event) -> None:
        """What is open, and what the final trials measured."""
        kind = event["event"]
        if kind == "study" or (kind == "resumed" and event.get("grows")):
            self.open |= dict.fromkeys(str(cell) for cell in _cells(self.config))
        elif kind == "trial":
            self.open[event["key"]] = None
            self.given[event["key"]] = event
        elif kind == "end":
            self.open.pop(event["key"], None)
            given = self.given[event["key"]]
            if given["name"].startswith("final-") and event["outcome"] != "failed":
                self.finals.setdefault(str(Cell(**given["cell"])), {})[given["seed"]] = event
        elif kind == "finished":
            self.open.clear()

    def _start_cell(self, event: Event, cell: Cell, spec: TrialSpec) -> None:
        """The parent run of a cell, with the resolved config and its splits."""
        tags = {**_tags(self.config, cell, spec.rule), "split": digest(spec.splits)}
        files = {"config.yaml": redact(config_yaml(self.config)), "splits.json": splits_text(cell.dataset, cell.protocol, spec.splits)}
        self.tracker.start_cell(str(cell), params=asdict(cell), tags=tags, files=files, at=event["at"])

    def _start_trial(self, event: Event) -> None:
        spec, name = self.config.spec_again(event), event["name"]
        tags = {**_tags(self.config, spec.cell, spec.rule), "trial": name, "phase": spec.phase, "seed": spec.seed, "tuned": spec.tuned}
        tags |= {"split": digest(spec.splits), "folds": len(spec.splits)} | ({"extended": "after-test"} if event["extended"] else {})
        self.tracker.start_trial(
            event["key"],
            cell=str(spec.cell),
            name=f"{self.config.label(spec.cell)} {name}",
            params={**asdict(spec.cell), **spec.setting},
            tags=tags,
            files={"trial.yaml": yaml.dump(json.loads(json.dumps(spec.as_dict())), Dumper=DUMPER, sort_keys=False)},
            at=event["at"],
        )

    def _end_trial(self, event: Event, points: list[Point]) -> None:
        """What the trial left goes to its run; checkpoints that a driver did not get to remove go."""
        tags = {"outcome": event["outcome"], "epochs": event.get("epoch", 0), "nodes": " ".join(event["nodes"])}
        tags |= {"error": event["error"]} if "error" in event else {}
        status: Status = "FAILED" if event["outcome"] == "failed" else "FINISHED"
        files = self._left(event["key"]) if status == "FINISHED" else []
        self.tracker.end(event["key"], status, points=points, tags=tags, files=files, at=event["at"])
        drop_checkpoints(self.folder, event["key"])

    def _left(self, key: str) -> list[Path]:
        name = self.given[key]["name"]
        try:
            return kept(self.folder, key, leaves(name, self.config))
        except Lost:
            if name.startswith("search-"):  # only an audit would want it
                return []
            raise

    def _end_cell(self, event: Event, cell: str) -> None:
        """A parent run gets the means of its final trials, as of the last of them: a study that grew by none adds no point."""
        ends = list(self.finals.get(cell, {}).values())
        finals = [end["metrics"] for end in ends]
        names = [name for name in finals[0] if name.startswith("test/")] if finals else []
        at = max((end["at"] for end in ends), default=0)
        means = [(name, fmean(final[name] for final in finals if name in final), len(finals), at) for name in names]
        self.tracker.end(cell, "FINISHED", points=means, at=event["at"])


def files_folder(config: StudyConfig) -> Path | None:
    """Of what the study's runs have; None: the store's server keeps it."""
    served = (config.tracking_uri or "").startswith("http")
    return None if served else Path(config.studies).absolute() / FILES / config.name


def _cells(config: StudyConfig) -> dict[Cell, TrialSpec]:
    """Of every cell, baselines too, the spec of a final trial."""
    return {cell: config.spec(cell, "final", config.seed, {}) for cell in config.cells()} | {
        spec.cell: spec for spec in config.baseline_specs()
    }


def _tags(config: StudyConfig, cell: Cell, rule: str) -> dict[str, Any]:
    tags = {"study": config.name, "cell": str(cell), "label": config.label(cell), "rule": rule, "peeks": rule == PEEKING}
    code = {"git": commit(), "versions": " ".join(f"{name}={number}" for name, number in libraries().items())}
    return {**tags, **asdict(cell), "data": index(config.origin(cell.dataset)).fingerprint, **code}
