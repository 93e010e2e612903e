"""End a running study in order: on Ctrl-C, SIGTERM, a closed terminal, or a request."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Literal

from study.ends.study_end import StudyEnd

Request = Literal["stop", "cancel"]
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Report what ends a study before the first trial, or after the last."""

    def __init__(self, end: StudyEnd) -> None:
        super().__init__(end)
        self.end = end


@contextmanager
def raised() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt like Ctrl-C, before a study starts and after it ends."""

    def came(number: int, frame: FrameType | None) -> None:
        _leave_terminal(number)
        raise Interrupted(StudyEnd("interrupted", signal=number))

    with _handled(came):
        yield


@contextmanager
def _handled(came: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Handle signals by `came` inside.

    Only the main thread can; elsewhere the caller must handle them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, came) for number in _heard()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _heard() -> list[int]:
    """Return the signals to handle; nohup ignores SIGHUP, and that is what its user wants."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _leave_terminal(number: int) -> None:
    """After SIGHUP print nowhere: the terminal is gone, and every line to it would be an error."""
    if number == signal.SIGHUP:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)


class Interrupts:
    """End the study in order at the first signal, and at once at the second.

    Either way, nothing that was measured is lost. again: the command that resumes the study.
    """

    def __init__(self, again: str = "--resume") -> None:
        self.again = again
        self.end: StudyEnd | None = None  # end now, in order, because of this
        self.due: StudyEnd | None = None  # what the next signal means
        self.stopping = False  # let running trials finish
        self.orderly = False  # the caller checks `end`

    def ask(self, request: Request) -> None:
        """Do what another process requests."""
        self.stopping = True
        if request == "cancel" and self.orderly:
            self.end = self.end or StudyEnd("interrupted", signal=signal.SIGTERM)
        elif request == "cancel" or not self.orderly:  # the study waits for nodes, or for Ray
            os.kill(os.getpid(), signal.SIGTERM)

    @contextmanager
    def limited(self, hours: float | None) -> Iterator[None]:
        """End the study inside in order after so many hours; None: whenever it ends by itself."""
        if hours is None:
            yield
            return
        about = f"max_hours={hours:g} {'has' if hours == 1 else 'have'} passed"
        clock = threading.Timer(3600 * hours, self._time_is_up, [StudyEnd("time_is_up", about)])
        clock.daemon = True
        clock.start()
        try:
            yield
        finally:
            clock.cancel()

    def _time_is_up(self, end: StudyEnd) -> None:
        self.stopping = True
        if self.orderly:
            self.end = self.end or end
        else:  # the study waits for nodes, or for Ray
            self.due = end
            os.kill(os.getpid(), signal.SIGTERM)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Handle signals for the study inside."""
        with _handled(self._came):
            yield

    @contextmanager
    def starting_ray(self) -> Iterator[None]:
        """Restore our handlers after Ray has replaced them.

        Ray's handler raises SystemExit at SIGTERM; treat that as our signal.
        """
        try:
            yield
        except SystemExit as leaves:
            if leaves.code == signal.SIGTERM:
                self._came(signal.SIGTERM, None)
            raise
        finally:
            if threading.current_thread() is threading.main_thread():
                for number in _heard():
                    signal.signal(number, self._came)

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """Let signals only set `end` inside, where the caller checks it; outside, they raise."""
        self.orderly = True
        try:
            yield
        finally:
            self.orderly = False

    def _came(self, number: int, frame: FrameType | None) -> Any:
        _leave_terminal(number)
        if self.end:
            said = f"\nfairtrial: ended at once; `{self.again}` continues from here.\n"
            os.write(sys.stderr.fileno(), said.encode())
            os._exit(128 + number)
        self.end = self.due or StudyEnd("interrupted", signal=number)
        self.stopping = True
        if not self.orderly:
            raise Interrupted(self.end)
