"""Notice within seconds that Ray has died, and interrupt what waits for it."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Self

import psutil
import ray

from study.ends.interrupts import Interrupted
from study.ends.study_end import StudyEnd

LOOK = 1.0  # seconds between two looks
ANSWER = 5.0  # seconds in which a server that lives takes a connection
# Seconds without an answer after which the server of a cluster counts as dead: it may start again,
# and Ray itself gives up after 60. Our own never starts again.
AWAY = 30.0
# Seconds in which the main thread must come out of its call after Ray's death, and then end.
LEAVE, LAST_WAIT = 4.0, 30.0
WAKE = signal.SIGUSR2


class RayWatch:
    """Watch Ray inside `with`: raise Interrupted in the main thread once it is dead.

    A call to a dead Ray waits for a minute, and then ends the process without a word of ours. So if
    the main thread hangs in one, call `rescue`, print the end and leave. own: whether this process
    started it. again: the command that resumes the study.
    """

    def __init__(self, *, own: bool, again: str, rescue: Callable[[StudyEnd], object]) -> None:
        self.own, self.again, self.rescue = own, again, rescue
        self.end: StudyEnd | None = None
        self.server = ray.get_runtime_context().gcs_address
        self.raylet = _raylet()
        self.over, self.closed = threading.Event(), threading.Event()
        self.answered = time.monotonic()
        self.thread = threading.Thread(target=self._watch, name="ray", daemon=True)
        self.is_main = threading.current_thread() is threading.main_thread()

    def __enter__(self) -> Self:
        if self.is_main:  # only there can a signal be handled
            self.before = signal.signal(WAKE, self._raise)
            self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        if self.is_main:
            signal.signal(WAKE, self.before)

    def close(self) -> None:
        """Note that nothing waits for Ray any more."""
        self.over.set()
        self.closed.set()

    def look(self, *, patience: float = 0.0) -> StudyEnd | None:
        """Return Ray's death; None if it lives. patience: seconds that a server may be away."""
        if self._answers():
            self.answered = time.monotonic()
        elif time.monotonic() - self.answered >= patience:
            return StudyEnd("ray_died", f"its server at {self.server} does not answer")
        if self.raylet and not _lives(self.raylet):
            return StudyEnd("ray_died", "its raylet has ended")
        return None

    def _raise(self, number: int, frame: FrameType | None) -> None:
        assert self.end, "nobody else sends this signal"
        raise Interrupted(self.end)

    def _watch(self) -> None:
        while not self.over.wait(LOOK):
            if end := self.look(patience=0.0 if self.own else AWAY):
                self._interrupt(end)
                return

    def _answers(self) -> bool:
        host, _, port = self.server.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), ANSWER).close()
        except ConnectionRefusedError:
            return False
        except OSError:
            return self.own  # this machine is only busy
        return True

    def _interrupt(self, end: StudyEnd) -> None:
        self.end = end
        silence_ray()
        signal.pthread_kill(threading.main_thread().ident or 0, WAKE)
        has_left = self.over.wait(LEAVE)
        if not has_left:
            with suppress(Exception):
                self.rescue(end)
        if not (has_left and self.closed.wait(LAST_WAIT)):
            said = f"\nfairtrial: {end.sentence(self.again)}\n"
            os.write(sys.stderr.fileno(), said.encode())
            os._exit(end.code)


def silence_ray() -> None:
    """Let Ray print nothing more: one sentence of ours says it all."""
    logging.getLogger("ray").setLevel(logging.CRITICAL)


def _raylet() -> psutil.Process | None:
    """Return the process of this node's raylet, by the socket that is on its command line."""
    here = ray.get_runtime_context().get_node_id()
    names = [node["RayletSocketName"] for node in ray.nodes() if node["NodeID"] == here]
    for process in psutil.process_iter(["name", "cmdline"]):
        words = " ".join(process.info["cmdline"] or ())
        if process.info["name"] == "raylet" and any(name in words for name in names):
            return process
    return None


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False
