"""Allow one driver per study: a lease that its holder renews, and requests that others leave for
it.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Self, get_args

import psutil

from study.ends.interrupts import Request
from trainables.outputs.disk import replace_text

LEASE, REQUEST = "driver.json", "request"
# Seconds between renewals, and without one until the holder counts as dead.
BEAT, EXPIRY = 5.0, 60.0
POLL = 0.5  # seconds between checks for a request


@dataclass(frozen=True)
class Holder:
    """Describe the driver of a study.

    born: when its process began, since process numbers are reused.
    """

    host: str
    pid: int
    born: float
    token: str
    beat: float
    space: str = ""  # where its process number is valid: a boot of a machine, a container

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"

    @property
    def here(self) -> bool:
        """Return whether its process number is valid here, so that one can look it up."""
        return (self.host, self.space) == (socket.gethostname(), _space())

    def lives(self) -> bool:
        """Return whether the driver is alive.

        On another machine this compares clocks: good enough to show, not to take its study.
        """
        renewed = time.time() - self.beat < EXPIRY
        if not self.here:
            return renewed
        born = _born(self.pid)
        return born is not None and (
            renewed or abs(born - self.born) < 1
        )  # setting the clock moves create_time()


def _space() -> str:
    parts = []
    for path in ("/proc/sys/kernel/random/boot_id", "/proc/self/ns/pid"):
        with suppress(OSError):
            parts.append(
                os.readlink(path) if os.path.islink(path) else Path(path).read_text().strip()
            )
    return " ".join(parts)


def _born(pid: int) -> float | None:
    """Return when the process began; None if it does not exist or is a zombie."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.NoSuchProcess:
        return None


def holder(folder: Path) -> Holder | None:
    """Return the driver of the study, or None if none is alive."""
    with suppress(OSError):
        found = _read(folder / LEASE)
        return found if found and found.lives() else None
    return None


def _read(path: Path) -> Holder | None:
    """Return the holder; None if there is no lease, or a torn one.

    Raise OSError if it cannot be read now, which says nothing about its holder.
    """
    try:
        found = json.loads(path.read_bytes())
        return Holder(
            **{field.name: found[field.name] for field in fields(Holder) if field.name in found}
        )
    except (FileNotFoundError, ValueError, TypeError):
        return None


def ask(folder: Path, request: Request) -> None:
    """Leave a request for the study's driver, which sees it within a second on any machine."""
    replace_text(folder / REQUEST, request)


class Lease:
    """Keep other drivers from starting: with Lease(folder, obey).

    obey: called once with a request. say: called with why it waits.
    """

    def __init__(
        self,
        folder: Path,
        obey: Callable[[Request], None] = lambda request: None,
        say: Callable[[str], None] = print,
    ) -> None:
        self.folder, self.obey, self.say = folder, obey, say
        self.mine = Holder(
            socket.gethostname(),
            os.getpid(),
            _born(os.getpid()) or 0.0,
            secrets.token_hex(8),
            time.time(),
            _space(),
        )
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> Self:
        self._take()
        (self.folder / REQUEST).unlink(missing_ok=True)
        self.thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        self.thread.join()
        with suppress(OSError):
            if (found := _read(self.folder / LEASE)) and found.token == self.mine.token:
                (self.folder / LEASE).unlink(missing_ok=True)

    def _take(self) -> None:
        """Create the lease file; whoever creates it holds it.

        First move away a dead holder's, which only one of several drivers can do.
        """
        path = self.folder / LEASE
        for _ in range(3):
            draft = self.folder / f"{LEASE}.{self.mine.token}"
            draft.write_text(json.dumps(asdict(self.mine)))
            try:
                os.link(draft, path)
                self._sweep()
                return
            except FileExistsError:
                dead = _read(path)
                if dead and self._lives(dead):
                    raise ValueError(
                        f"The study '{self.folder.name}' is being run by {dead}; `fairtrial status "
                        f"{self.folder.name}` shows it, "
                        f"`fairtrial stop {self.folder.name}` ends it."
                    ) from None
                self._move_away(path, dead)
            except FileNotFoundError:  # the driver that just took the lease swept the draft away
                continue
            finally:
                draft.unlink(missing_ok=True)
        raise ValueError(
            f"The study '{self.folder.name}' is being taken by several drivers at once; try again."
        )

    def _lives(self, other: Holder) -> bool:
        """Return whether the holder is alive.

        Clocks of two machines may differ, so watch it renew its lease by this machine's own clock.
        """
        if other.here:
            return other.lives()
        self.say(f"Checking for {EXPIRY:.0f} seconds whether {other} still drives the study ...")
        began = time.monotonic()
        while time.monotonic() - began < EXPIRY:
            time.sleep(POLL)
            with suppress(OSError):
                now = _read(self.folder / LEASE)
                if (
                    now is None or now.token != other.token
                ):  # it has ended, or another driver was quicker
                    return False
                if now.beat != other.beat:
                    return True
        return False

    def _move_away(self, path: Path, dead: Holder | None) -> None:
        """Move a dead driver's lease away.

        Put it back if another driver was quicker and has taken it by now.
        """
        stale = self.folder / f"{LEASE}.stale-{self.mine.token}"
        with suppress(FileNotFoundError):
            path.rename(stale)
            if _read(stale) != dead:
                with suppress(FileExistsError):
                    os.link(stale, path)
            stale.unlink()

    def _sweep(self) -> None:
        """Remove the drafts of drivers that were killed while they wrote a lease."""
        for path in self.folder.glob(f"{LEASE}.*"):
            if self.mine.token not in path.name:
                path.unlink(missing_ok=True)

    def _keep(self) -> None:
        beaten = time.monotonic()
        while not self.over.wait(POLL):
            try:
                if time.monotonic() - beaten > BEAT:
                    self._renew()
                    beaten = time.monotonic()
                self._look()
            except OSError:  # the disk is full or away: the study itself will say so
                continue

    def _renew(self) -> None:
        draft, path = self.folder / f"{LEASE}.{self.mine.token}", self.folder / LEASE
        draft.write_text(json.dumps(asdict(self.mine) | {"beat": time.time()}))
        try:
            found = _read(path)
            if (
                found and found.token != self.mine.token
            ):  # this machine slept, and another driver resumed the study
                self.over.set()
                self.obey("cancel")
            elif found or path.exists():
                draft.replace(path)
            else:  # another driver is about to take over: whoever creates the file holds it
                os.link(draft, path)
        finally:
            draft.unlink(missing_ok=True)

    def _look(self) -> None:
        path = self.folder / REQUEST
        if path.exists():
            asked = path.read_bytes()
            path.unlink()
            for request in get_args(Request):
                if asked == request.encode():
                    self.obey(request)
