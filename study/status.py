"""Where the studies of a folder stand, from their ledgers and leases alone: no Ray, no MLflow, no waiting."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from study.cursor import cursor
from study.lease import LEASE, REQUEST, holder
from study.ledger import LEDGER, Event, events
from study.protocols import peeks
from trainables.contract import Cell

State = Literal["waiting", "running", "stopping", "interrupted", "finished"]
WINDOW = 600.0  # seconds over which the pace is taken


@dataclass
class CellStatus:
    """How far one cell is."""

    cell: str
    given: int = 0
    ended: int = 0
    failed: int = 0
    best: float | None = None  # selection score of its best trial so far
    peeks: bool = False  # that score is of the test classes

    @property
    def running(self) -> int:
        return self.given - self.ended


@dataclass
class StudyStatus:
    """How far a study is. behind: bytes of the ledger that MLflow does not have yet."""

    name: str
    folder: Path
    state: State
    driver: str = ""
    began: float = 0.0
    updated: float = 0.0
    total: int = 0
    ended: int = 0
    failed: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)
    epochs: int = 0
    epochs_per_minute: float = 0.0
    behind: int = 0
    drivers: int = 0
    cells: list[CellStatus] = field(default_factory=list)


def status_of(folder: Path) -> StudyStatus:
    """ValueError: this is no study's folder, or its ledger is broken."""
    told, driver, cells = events(folder), holder(folder), dict[str, CellStatus]()
    if not told and driver:  # its first line comes when there is room for a trial
        return StudyStatus(folder.name, folder, "waiting", str(driver), updated=(folder / LEASE).stat().st_mtime)
    if not told:
        raise ValueError(f"{folder} holds no study that has begun; `fairtrial run` begins one.")
    names: dict[str, CellStatus] = {}
    ends = [event for event in told if event["event"] == "end"]
    for event in told:
        if event["event"] == "trial":
            name = str(Cell(**event["cell"]))
            cell = names[event["key"]] = cells.setdefault(name, CellStatus(name, peeks=peeks(event["cell"]["protocol"])))
            cell.given += 1
        elif event["event"] == "row" and event["epoch"]:
            cell = names[event["key"]]
            cell.best = max(event["score"], cell.best or 0.0)
        elif event["event"] == "end":
            names[event["key"]].ended += 1
            names[event["key"]].failed += event["outcome"] == "failed"
    outcomes = Counter(event["outcome"] for event in ends)
    return StudyStatus(
        folder.name,
        folder,
        _state(folder, told, driven=driver is not None),
        driver=str(driver or ""),
        began=told[0]["at"] / 1000,
        updated=told[-1]["at"] / 1000,
        total=next(event["total"] for event in reversed(told) if "total" in event),
        ended=len(ends),
        failed=outcomes["failed"],
        outcomes=dict(outcomes),
        epochs=sum(event["event"] == "row" and event["epoch"] > 0 for event in told),
        epochs_per_minute=_pace(told),
        behind=(folder / LEDGER).stat().st_size - cursor(folder),
        drivers=sum(event["event"] in ("study", "resumed") for event in told),
        cells=list(cells.values()),
    )


def is_finished(told: Sequence[Event]) -> bool:
    """Return whether a study came to its end and has begun nothing since."""
    turns = [event["event"] for event in told if event["event"] in ("study", "resumed", "trial", "finished")]
    return turns[-1:] == ["finished"]


def _state(folder: Path, told: list[Event], *, driven: bool) -> State:
    if driven:
        last = next(event["event"] for event in reversed(told) if event["event"] in ("study", "resumed", "stopping"))
        return "stopping" if last == "stopping" or (folder / REQUEST).exists() else "running"
    return "finished" if is_finished(told) else "interrupted"


def _pace(told: list[Event]) -> float:
    """Epochs per minute in the last ten minutes of the last driver."""
    last = max(i for i, event in enumerate(told) if event["event"] in ("study", "resumed"))
    times = [event["at"] / 1000 for event in told[last:] if event["event"] == "row" and event["epoch"]]
    times = [at for at in times if at > times[-1] - WINDOW]
    return 60 * (len(times) - 1) / (times[-1] - times[0]) if len(times) > 1 and times[-1] > times[0] else 0.0


def studies_in(root: Path) -> list[Path]:
    """The folders of all studies that have begun or wait for room, the one that was written to last first."""
    return sorted(
        (path.parent for path in root.glob(f"[!.]*/{LEDGER}") if path.stat().st_size or holder(path.parent)),
        key=lambda path: (path / LEDGER).stat().st_mtime,
        reverse=True,
    )


def find_study(root: Path, name: str | None) -> Path:
    """The study of this name, or the one that was written to last."""
    known = {path.name: path for path in studies_in(root)}
    if name in known:
        return known[name]
    if name is None and known:
        return next(iter(known.values()))
    there = f"It holds: {', '.join(sorted(known))}." if known else "`fairtrial run quickstart` makes one."
    raise ValueError(f"{root} holds no study{f' {name!r}' if name else ''}. {there}")


def clock(seconds: float) -> str:
    """3 s ago, 5 min ago, 2 h ago."""
    ago = max(0.0, time.time() - seconds)
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if ago >= 2 * size:
            return f"{ago / size:.0f} {unit} ago"
    return f"{ago:.0f} s ago"
