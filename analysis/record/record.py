"""Open a study's record to continue it: the ledger, the events so far, and the state."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from analysis.record.events import AnyEvent
from analysis.record.ledger import Ledger, LedgerReader
from analysis.record.state import Follower, StudyState

AnEvent = TypeVar("AnEvent", bound=AnyEvent)


class Record:
    """Note events: each is on the disk before the state and the follower hear about it."""

    def __init__(self, folder: Path, follower: Follower | None = None) -> None:
        self.folder = folder
        self.past = LedgerReader(folder).read()  # before this driver
        self.ledger = Ledger(folder)
        self.state = StudyState(self.past)
        self.follower = follower or Follower()

    @property
    def failure(self) -> OSError | None:
        """Return why the ledger takes no more events; None if it does."""
        return self.ledger.failure

    def note(self, event: AnEvent) -> AnEvent:
        """Write the event down, then apply it. After a failed write nothing takes effect."""
        self.ledger.append(event)
        if not self.failure:
            self.state.apply(event, self.follower)
        return event

    def close(self) -> None:
        self.ledger.close()


def replay(past: Iterable[AnyEvent], follower: Follower) -> None:
    """Send every event to the follower again, in the ledger's order."""
    state = StudyState()
    for event in past:
        state.apply(event, follower)
