"""How a running study is told to end: Ctrl-C, SIGTERM, a request from elsewhere, a full disk."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from study.lease import Request

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """Before the first trial, or after the last."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


@contextmanager
def raised() -> Iterator[None]:
    """SIGTERM interrupts whatever runs, as Ctrl-C does: while there is no study yet, or no more, to be ended in good order."""

    def came(number: int, frame: FrameType | None) -> None:
        raise Interrupted(number)

    with _handled(came):
        yield


@contextmanager
def _handled(came: Callable[[int, FrameType | None], Any]) -> Iterator[None]:
    """Signals reach only the main thread; in another one the caller minds them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, came) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """The first signal ends the study in good order, the second at once: nothing that was measured is lost either way."""

    def __init__(self) -> None:
        self.signal = 0  # that came
        self.stopping = False  # let running trials finish
        self.ending = False  # end now, in good order
        self.orderly = False  # someone looks at `ending`

    def ask(self, request: Request) -> None:
        """What another process wants."""
        self.stopping = True
        if request == "cancel" and self.orderly:
            self.signal, self.ending = signal.SIGTERM, True
        elif request == "cancel" or not self.orderly:  # it waits for nodes, or for Ray
            os.kill(os.getpid(), signal.SIGTERM)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """From here on a signal is for the study."""
        with _handled(self._came):
            yield

    @contextmanager
    def starting_ray(self) -> Iterator[None]:
        """Ray puts a handler of its own in the place of ours, which leaves with SystemExit: that is obeyed, and ours is put back."""
        try:
            yield
        except SystemExit as leaves:
            if leaves.code == signal.SIGTERM:
                self._came(signal.SIGTERM, None)
            raise
        finally:
            if threading.current_thread() is threading.main_thread():
                for number in SIGNALS:
                    signal.signal(number, self._came)

    @contextmanager
    def obeyed(self) -> Iterator[None]:
        """While someone looks at `ending`; outside, a signal interrupts whatever runs."""
        self.orderly = True
        try:
            yield
        finally:
            self.orderly = False

    def _came(self, number: int, frame: FrameType | None) -> Any:
        first, self.signal = not self.ending, number
        self.ending = self.stopping = True
        if not first:
            os.write(sys.stderr.fileno(), b"\nfairtrial: ended at once; --resume goes on from here.\n")
            os._exit(128 + number)
        if not self.orderly:
            raise Interrupted(number)
