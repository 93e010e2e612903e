"""End a running study in order: on Ctrl-C, SIGTERM, a closed terminal, or a request."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from study.driver.lease import Request

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """Report a signal that came before the first trial, or after the last."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def raised() -> Iterator[None]:
    """Let SIGTERM and SIGHUP interrupt like Ctrl-C, before a study starts and after it ends."""

    def came(number: int, frame: FrameType | None) -> None:
        _leave_terminal(number)
        raise Interrupted(number)

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

    Either way, nothing that was measured is lost.
    """

    def __init__(self) -> None:
        self.signal = 0  # the last one received
        self.stopping = False  # let running trials finish
        self.ending = False  # end now, in order
        self.orderly = False  # the caller checks `ending`

    def ask(self, request: Request) -> None:
        """Do what another process requests."""
        self.stopping = True
        if request == "cancel" and self.orderly:
            self.signal, self.ending = signal.SIGTERM, True
        elif request == "cancel" or not self.orderly:  # the study waits for nodes, or for Ray
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
        """Let signals only set `ending` inside, where the caller checks it; outside, they raise."""
        self.orderly = True
        try:
            yield
        finally:
            self.orderly = False

    def _came(self, number: int, frame: FrameType | None) -> Any:
        _leave_terminal(number)
        first, self.signal = not self.ending, number
        self.ending = self.stopping = True
        if not first:
            os.write(
                sys.stderr.fileno(), b"\nfairtrial: ended at once; --resume continues from here.\n"
            )
            os._exit(128 + number)
        if not self.orderly:
            raise Interrupted(number)
