"""Start a Ray of our own on this machine, again if it was too slow, and stop it."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import psutil
import ray

STARTS = 4  # attempts to start a local Ray: on a busy machine its agents miss Ray's limit of 30 s
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")
# Ends the agents of a Ray whose driver was killed: they would live on for a minute. It reads from a
# pipe whose other end only the driver holds.
GUARD = 'read _; kill -9 "$@"'
Started = TypeVar("Started")


def prepare_environment() -> None:
    """Set what a Ray of our own reads when it starts; what the user has set stays."""
    os.environ.setdefault("RAY_worker_niceness", "0")  # added to the driver's; Ray says 15


def start_ray(start: Callable[[], Started], say: Callable[[str], None]) -> Started:
    """Call `start` until it succeeds, at most STARTS times, and return its result.

    Kill what a failed attempt left running.
    """
    for attempt in range(1, STARTS):
        before = set(psutil.Process().children())
        try:
            return start()
        except (ValueError, PermissionError):  # a second start would not help
            raise
        except Exception as error:
            why = " ".join(str(error).split())
            say(
                f"Ray did not start ({why}), perhaps because this machine is busy; starting it "
                f"again ({attempt} of {STARTS - 1})."
            )
            left = [
                each
                for process in set(psutil.Process().children()) - before
                for each in _ray_family(process)
            ]
            ray.shutdown()
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=10)
    return start()


class Agents:
    """Let the agents of our own Ray end with it, also when it or this process is killed."""

    def __init__(self) -> None:
        self.found: list[psutil.Process] = []
        self.guard: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        """Find them, and start the process that ends them if this one is killed."""
        family = psutil.Process().children(recursive=True)
        self.found = [each for each in family if _name(each) in AGENTS]
        self.guard = subprocess.Popen(
            ["/bin/sh", "-c", GUARD, "guard", *(str(each.pid) for each in self.found)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is not meant for it
        )

    def end(self) -> None:
        """End those that are left."""
        if self.guard:
            self.guard.kill()
            self.guard.communicate()
            self.guard = None
        for agent in self.found:
            with suppress(psutil.NoSuchProcess):
                agent.kill()
        self.found = []


agents = Agents()


def stop_ray() -> None:
    """Stop the Ray of this process.

    Another thread that frees a Ray object at that moment, as a garbage collection there might, ends
    the process.
    """
    gc.disable()
    try:
        ray.shutdown()
        agents.end()
    finally:
        gc.enable()


def _name(process: psutil.Process) -> str:
    with suppress(psutil.NoSuchProcess):
        return str(process.name())
    return ""


def _ray_family(process: psutil.Process) -> list[psutil.Process]:
    """Return a process of Ray with all that it started; nothing if it is not Ray's, or gone."""
    with suppress(psutil.NoSuchProcess):
        if any("ray" in word for word in process.cmdline()):
            return [process, *process.children(recursive=True)]
    return []
