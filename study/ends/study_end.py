"""Turn whatever ends a study into a result, an exit code and one sentence."""

from __future__ import annotations

import os
import re
import signal
import tempfile
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from study.errors import BUG, NO_PLACE, TIME_IS_UP
from trainables.contract import WrongNode

if TYPE_CHECKING:  # they import pandas
    from analysis.ranking.fairness import FairnessCheck
    from analysis.ranking.ranking import Ranking

Kind = Literal[
    "interrupted", "time_is_up", "disk_full", "wrong_node", "lost_artifact", "ray_died", "bug"
]
# What a reader must know, and what to do before going on.
WORDS: dict[Kind, tuple[str, str]] = {
    "interrupted": ("Interrupted.", "`{}` resumes it."),
    "time_is_up": ("{}.", "`{}` resumes it."),
    "ray_died": ("Ray died ({}).", "`{}` resumes it."),
    "bug": ("The study met an error that it does not know ({}).", "`{}` resumes it."),
    "disk_full": ("The study cannot continue here ({}).", "fix that, then `{}`."),
    "wrong_node": ("The study cannot continue here ({}).", "fix that, then `{}`."),
    "lost_artifact": ("The study cannot continue here ({}).", "fix that, then `{}`."),
}
CODES: dict[Kind, int] = {"time_is_up": TIME_IS_UP, "bug": BUG}  # all others: NO_PLACE
# A trial's process dies elsewhere, and only the text of its error comes back.
DISK_FULL = re.compile(
    "(No space left on device|Disk quota exceeded|Read-only file system)(?:: '([^']+)')?"
)
WRONG_NODE = re.compile(f"{WrongNode.__name__}: (.+)")
PROBE = 2**20  # bytes that a disk must take, else it is full
TRACEBACK = "error.txt"  # in a study's folder: of an error that it does not know


@dataclass(frozen=True)
class StudyEnd:
    """Say why a driver ended before its study was over. signal: of an interruption."""

    kind: Kind
    about: str = ""
    signal: int = signal.SIGINT

    @property
    def code(self) -> int:
        """Return the exit code."""
        if self.kind == "interrupted":
            return 128 + self.signal
        return CODES.get(self.kind, NO_PLACE)

    @property
    def is_asked_for(self) -> bool:
        """Return whether the user wanted it."""
        return self.kind in ("interrupted", "time_is_up")

    def sentence(self, again: str | None) -> str:
        """Return what happened and how to go on. again: the command; None if nothing had begun."""
        why, cure = (
            words.format(text)
            for words, text in zip(WORDS[self.kind], (self.about, again), strict=True)
        )
        if again is None:
            return f"{why} No trial had begun, and nothing is left behind."
        return f"{why} Nothing is lost: {cure}"


@dataclass(frozen=True)
class StudyResult:
    """Hold how a study ended. end: why it ended before it was over; such a study has no page.

    error: of an end that nobody knows.
    """

    folder: Path
    tracking_uri: str
    trials: int
    failed: int
    end: StudyEnd | None = None
    rankings: list[Ranking] = field(default_factory=list)
    fairness: FairnessCheck | None = None
    page: Path | None = None
    untracked: str = ""  # what MLflow lacks, and why
    error: Exception | None = None

    @property
    def interrupted(self) -> bool:
        """Return whether something is left to do."""
        return self.end is not None


def end_in(text: str, folder: Path) -> StudyEnd | None:
    """Return the end that an error's text speaks of; None if it may be the fault of a trial.

    folder: the study's. What Tune copies without naming the target goes there.
    """
    if found := DISK_FULL.search(text):
        return StudyEnd("disk_full", f"{found[1]}: {found[2] or folder}")
    if found := WRONG_NODE.search(text):
        return StudyEnd("wrong_node", found[1].rstrip("."))
    return None


def end_of(error: Exception, folder: Path) -> StudyEnd:
    """Return the end that an error of the driver means; write down one that nobody knows.

    A full disk also breaks what does not say so: a file that was cut off is read back.
    """
    text = "".join(traceback.format_exception(error))
    return end_in(text, folder) or _full_disk(folder) or _bug(error, text, folder)


def _full_disk(folder: Path) -> StudyEnd | None:
    for place in (folder, Path(tempfile.gettempdir())):
        try:
            with tempfile.TemporaryFile(dir=place) as file:
                file.write(bytes(PROBE))
                file.flush()
                os.fsync(file.fileno())
        except OSError as full:
            return StudyEnd("disk_full", f"{full.strerror}: {place}")
    return None


def _bug(error: Exception, text: str, folder: Path) -> StudyEnd:
    path = folder / TRACEBACK
    with suppress(OSError):
        path.write_text(text)
    what = " ".join(str(error).split())[-200:]
    return StudyEnd("bug", f"{type(error).__name__}: {what}; its traceback is in {path}")
