"""Read how far studies are from their records and leases alone: no Ray, no MLflow, no waiting."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis.record.ledger import LEDGER, LedgerReader
from analysis.record.state import StudyState
from analysis.tracking.cursor import read_cursor
from study.driver.folder import studies_in
from study.driver.lease import LEASE, REQUEST, Holder, holder

Progress = Literal["waiting", "running", "stopping", "interrupted", "finished", "unreadable"]


@dataclass
class StudyStatus:
    """Hold how far a study is. behind: bytes of the ledger that MLflow does not have yet.

    error: why an unreadable study cannot be read.
    """

    name: str
    folder: Path
    state: Progress
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
    cells: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""


class StudyWatch:
    """Look at one study again and again; each look reads only what is new in its ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.reader, self.state = folder, LedgerReader(folder), StudyState()

    def look(self) -> StudyStatus:
        """Return how far the study is. Raise ValueError if it has not begun, or its ledger is
        broken.
        """
        driver = holder(self.folder)
        for event in self.reader.read():
            try:
                self.state.apply(event)
            except KeyError as error:
                raise ValueError(f"{self.reader.path} lacks the start of trial {error}.") from None
        state, folder = self.state, self.folder
        if not state.drivers and driver:  # its first line comes when a trial fits the cluster
            since = (folder / LEASE).stat().st_mtime
            return StudyStatus(folder.name, folder, "waiting", str(driver), updated=since)
        if not state.drivers:
            raise ValueError(f"{folder} holds no study that has begun; `fairtrial run` starts one.")
        return StudyStatus(
            folder.name,
            folder,
            self._progress(driver),
            driver=str(driver or ""),
            began=state.began / 1000,
            updated=state.updated / 1000,
            total=state.total,
            ended=state.ended,
            failed=state.failed,
            outcomes=dict(state.outcomes),
            epochs=state.epochs,
            epochs_per_minute=state.epochs_per_minute(),
            behind=(folder / LEDGER).stat().st_size - read_cursor(folder).byte,
            drivers=state.drivers,
            cells=[
                {"cell": str(cell), **asdict(progress), "running": progress.open if driver else 0}
                for cell, progress in state.cells.items()
            ],
        )

    def _progress(self, driver: Holder | None) -> Progress:
        if driver:
            asked = self.state.stopping or (self.folder / REQUEST).exists()
            return "stopping" if asked else "running"
        return "finished" if self.state.finished else "interrupted"


class FolderWatch:
    """Look at all studies of a folder again and again, with one reader for each."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.watches: dict[Path, StudyWatch] = {}

    def look(self) -> list[StudyStatus]:
        """Return how far each study is that is there now, the last one written first."""
        known = self.watches
        self.watches = {
            folder: known.get(folder) or StudyWatch(folder) for folder in studies_in(self.root)
        }
        return [status for each in list(self.watches.values()) if (status := self._look(each))]

    def _look(self, watch: StudyWatch) -> StudyStatus | None:
        """Return how far a study is, or why nobody can say; None if it was just removed."""
        folder = watch.folder
        try:
            return watch.look()
        except (ValueError, OSError) as error:
            del self.watches[folder]  # what its reader has read is lost
            with suppress(OSError):
                updated = (folder / LEDGER).stat().st_mtime
                return StudyStatus(
                    folder.name, folder, "unreadable", updated=updated, error=str(error)
                )
        return None


def status_of(folder: Path) -> StudyStatus:
    """Return how far a study is. Raise ValueError if it has not begun, or its ledger is broken."""
    return StudyWatch(folder).look()
