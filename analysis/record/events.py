"""Define the events of a study: one typed, frozen class for each kind of line in the ledger."""

from __future__ import annotations

import time
from typing import Any, Literal

import msgspec

from search_spaces import Value

VERSION = 2  # of the ledger; version 1 was written by Fair Trial 0.5 and earlier

Outcome = Literal[
    "finished", "stopped early", "out of patience", "diverged", "out of memory", "stalled", "failed"
]
LOST: tuple[Outcome, ...] = ("stalled", "failed")  # outcomes of trials that leave nothing


def _now() -> int:
    return int(time.time() * 1000)


class Event(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="event"
):
    """Record that something happened. at: milliseconds since 1970. trial: the trial's identity as
    text.
    """

    at: int = msgspec.field(default_factory=_now)


class StudyStarted(Event, frozen=True, tag="study_started"):
    """Open the ledger: record everything that identifies a study, and how many trials it plans."""

    version: int
    config: dict[str, Any]
    code: dict[str, str]
    data: dict[str, str]
    splits: dict[str, str]
    weights: dict[str, str]
    total: int
    commit: str = ""


class StudyResumed(Event, frozen=True, tag="study_resumed"):
    """Record a further driver. grows: the keys of the config that are larger than before."""

    grows: dict[str, int]
    code: dict[str, str]
    total: int
    commit: str = ""


class TrialStarted(Event, frozen=True, tag="trial_started"):
    """Record that a trial was handed out. spec: the digest of the file with what it shares with
    others.

    extended: it belongs to what a study grew by after test classes had been read.
    """

    trial: str
    label: str
    seed: int
    setting: dict[str, Value]
    tuned: bool
    epochs: int
    rule: str
    spec: str
    extended: bool


class EpochDone(Event, frozen=True, tag="epoch_done"):
    """Record one epoch of a trial. score: the best selection score so far, which searchers see."""

    trial: str
    epoch: int
    score: float
    metrics: dict[str, float]
    diverged: bool = False
    out_of_memory: bool = False
    out_of_patience: bool = False


class EpochRepeated(Event, frozen=True, tag="epoch_repeated"):
    """Record that an epoch ran again after a loss and came out otherwise. The first time counts.

    metrics: those that differ.
    """

    trial: str
    epoch: int
    score: float
    metrics: dict[str, float]


class TestRead(Event, frozen=True, tag="test_read"):
    """Announce that test classes will be read: the epoch and the rule of each reading."""

    trial: str
    reads: list[tuple[str, str]]


class TrialEnded(Event, frozen=True, tag="trial_ended"):
    """Record that a trial is over. nodes: where it ran, by rank. devices: models of GPUs, or CPU.

    A trial that went on elsewhere has the devices of all its workers under the last driver.
    """

    trial: str
    outcome: Outcome
    epoch: int = 0
    score: float | None = None
    metrics: dict[str, float] = {}
    chosen_epoch: float | None = None
    nodes: list[str] = []
    devices: list[str] = []
    error: str = ""


class TrialStalled(Event, frozen=True, tag="trial_stalled"):
    """Record that a trial made no progress for so many seconds, so that its slot is ended."""

    trial: str
    seconds: float


class CheckpointAudited(Event, frozen=True, tag="checkpoint_audited"):
    """Record the test scores of a search trial's kept checkpoint."""

    trial: str
    metrics: dict[str, float]


class StudyStopping(Event, frozen=True, tag="study_stopping"):
    """Record that nothing more is started."""


class StudyFinished(Event, frozen=True, tag="study_finished"):
    """Record that every trial has ended."""


class LedgerRepaired(Event, frozen=True, tag="ledger_repaired"):
    """Record that broken lines were cut off here. reads: readings of test classes among them, each
    as cell, trial, seed, epoch and rule; they happened, so they count.
    """

    lines: int
    reads: list[tuple[str, str, int, str, str]] = []


AnyEvent = (
    StudyStarted
    | StudyResumed
    | TrialStarted
    | EpochDone
    | EpochRepeated
    | TestRead
    | TrialEnded
    | TrialStalled
    | CheckpointAudited
    | StudyStopping
    | StudyFinished
    | LedgerRepaired
)

encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(AnyEvent)


class BrokenLine(ValueError):
    """Report a line that is not as it was written."""


def decode(line: bytes) -> AnyEvent:
    """Return the event of one line. Raise BrokenLine if it has none, ValueError if another version
    wrote it.
    """
    try:
        event: AnyEvent = _decoder.decode(line)
    except msgspec.MsgspecError as error:
        if b'"event":"study"' in line[:20]:
            raise ValueError(
                "it was written by Fair Trial 0.5 or earlier; install fairtrial==0.5 to resume "
                "or read it"
            ) from None
        raise BrokenLine(str(error)) from None
    if isinstance(event, StudyStarted) and event.version != VERSION:
        raise ValueError(
            f"its version is {event.version}, but this version of Fair Trial reads {VERSION}; "
            f"install fairtrial=={event.code.get('fairtrial', 'the version that wrote it')}"
        )
    return event
