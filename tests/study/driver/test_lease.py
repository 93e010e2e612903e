"""One driver per study."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from study.driver import lease
from study.driver.lease import LEASE, REQUEST, Lease, ask, holder
from tests.support.waiting import PATIENCE, await_that


def test_a_second_driver_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    with (
        Lease(tmp_path),
        pytest.raises(ValueError, match=f"is being run by process {os.getpid()} on"),
        Lease(tmp_path),
    ):
        raise AssertionError("never gets here")
    assert not list(tmp_path.iterdir())
    with Lease(tmp_path):
        assert str(holder(tmp_path)) == f"process {os.getpid()} on {socket.gethostname()}"


def test_of_many_drivers_at_once_one_begins(tmp_path: Path) -> None:
    """Each in a process of its own, all on the lease of one that was killed; the winner holds it
    until all others have tried.
    """
    leave(tmp_path, pid=2**22 + 1)
    code = f"""
from pathlib import Path
from study.driver.lease import Lease
print("ready", flush=True)
input()
try:
    with Lease(Path({str(tmp_path)!r})):
        print("mine", flush=True)
        input()
except ValueError:
    print("refused", flush=True)
    input()
"""
    drivers = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        for _ in range(6)
    ]
    said = []
    for _ in range(2):  # all are ready before any begins, and all have tried before any ends
        said = [driver.stdout.readline().strip() for driver in drivers if driver.stdout]
        for driver in drivers:
            assert driver.stdin
            driver.stdin.write("\n")
    assert [driver.wait(PATIENCE) for driver in drivers] == [0] * 6
    assert sorted(said) == ["mine"] + ["refused"] * 5


def test_a_driver_whose_draft_was_swept_away_by_a_quicker_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def late(draft: Path, path: Path) -> None:
        if not path.exists():
            leave(tmp_path)
            draft.unlink()
        link(draft, path)

    monkeypatch.setattr(lease.os, "link", late)
    with pytest.raises(ValueError, match="is being run by"), Lease(tmp_path):
        pass


def leave(folder: Path, **changes: Any) -> None:
    me = psutil.Process().create_time()
    held = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "born": me,
        "token": "x",
        "beat": time.time(),
        "space": lease._space(),
    } | changes
    (folder / LEASE).write_text(json.dumps(held))


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": 2**22 + 1},  # no such process
        {"born": 12.0, "beat": 0.0},  # its number was given to another process
    ],
)
def test_the_lease_of_a_dead_driver_is_taken_over(tmp_path: Path, changes: dict[str, Any]) -> None:
    leave(tmp_path, **changes)
    assert holder(tmp_path) is None
    with Lease(tmp_path):
        assert holder(tmp_path)


class Clock:
    """Its own monotonic clock; happens: what others do while one sleeps, by the second."""

    def __init__(self, wall: float, happens: Callable[[float], None] = lambda second: None) -> None:
        self.now, self.wall, self.happens = 0.0, wall, happens

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.wall + self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.happens(self.now)


@pytest.mark.parametrize("skew", [-7200, -90, 0, 90, 7200])
def test_a_driver_on_another_machine_is_believed_while_it_renews_its_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    """Whatever its clock says."""
    leave(tmp_path, host="elsewhere", pid=1, beat=1e9 + skew)
    clock = Clock(
        1e9,
        lambda second: leave(
            tmp_path, host="elsewhere", pid=1, beat=1e9 + skew + second // lease.BEAT
        ),
    )
    monkeypatch.setattr(lease, "time", clock)
    with pytest.raises(ValueError, match="is being run by process 1 on elsewhere"), Lease(tmp_path):
        raise AssertionError("never gets here")
    assert clock.now <= 2 * lease.BEAT, "one renewal is enough"


@pytest.mark.parametrize("skew", [-7200, 0, 7200])
def test_a_driver_on_another_machine_that_renews_nothing_is_dead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: float
) -> None:
    leave(tmp_path, host="elsewhere", beat=1e9 + skew)
    clock, said = Clock(1e9), list[str]()
    monkeypatch.setattr(lease, "time", clock)
    with Lease(tmp_path, say=said.append) as mine:
        assert json.loads((tmp_path / LEASE).read_text())["token"] == mine.mine.token
    assert clock.now >= lease.EXPIRY
    assert len(said) == 1
    assert "process" in said[0]
    assert "on elsewhere still drives" in said[0]


def test_a_driver_that_ends_while_one_looks_leaves_its_study_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, host="elsewhere")
    clock = Clock(1e9, lambda second: (tmp_path / LEASE).unlink(missing_ok=True))
    monkeypatch.setattr(lease, "time", clock)
    with Lease(tmp_path):
        assert clock.now < lease.BEAT


def test_a_lease_that_cannot_be_read_now_is_neither_taken_nor_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Network storage that stumbles says nothing of who drives."""
    asked: list[str] = []
    with Lease(tmp_path, asked.append) as mine:
        with monkeypatch.context() as patch:

            def stumble(path: Path) -> bytes:
                raise OSError(errno.ESTALE, os.strerror(errno.ESTALE), str(path))

            patch.setattr(Path, "read_bytes", stumble)
            with pytest.raises(OSError, match="Stale"):
                mine._renew()
            with pytest.raises(OSError, match="Stale"), Lease(tmp_path):
                raise AssertionError("never gets here")
            assert holder(tmp_path) is None
        assert not asked
        assert not mine.over.is_set()
        assert json.loads((tmp_path / LEASE).read_text())["token"] == mine.mine.token
        assert [path.name for path in tmp_path.iterdir()] == [LEASE], "no draft is left"


def test_a_lease_that_someone_removed_is_put_back(tmp_path: Path) -> None:
    asked: list[str] = []
    with Lease(tmp_path, asked.append) as mine:
        (tmp_path / LEASE).unlink()
        mine._renew()
        assert holder(tmp_path)
    assert not asked


def test_a_lease_of_a_newer_version_is_one(tmp_path: Path) -> None:
    leave(tmp_path, colour="green")
    assert holder(tmp_path)


def test_a_torn_lease_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / LEASE).write_text('{"host": "he')
    with Lease(tmp_path):
        assert holder(tmp_path)


def test_the_holder_renews_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.0)
    monkeypatch.setattr(lease, "POLL", 0.02)
    with Lease(tmp_path) as mine:
        await_that(lambda: json.loads((tmp_path / LEASE).read_text())["beat"] > mine.mine.beat)


def test_a_request_reaches_the_driver_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "POLL", 0.02)
    heard: list[str] = []
    ask(tmp_path, "cancel")  # meant for an earlier driver
    with Lease(tmp_path, heard.append):
        ask(tmp_path, "stop")
        await_that(lambda: heard)
    assert heard == ["stop"]
    assert not (tmp_path / REQUEST).exists()


@pytest.mark.parametrize("odd", [b"\xff\xfe stop", b"", b"dance", b"stop" * 10**5])
def test_a_request_that_is_none_is_passed_over_and_the_next_one_heard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, odd: bytes
) -> None:
    monkeypatch.setattr(lease, "POLL", 0.02)
    heard: list[str] = []
    with Lease(tmp_path, heard.append) as mine:
        (tmp_path / "draft").write_bytes(odd)
        (tmp_path / "draft").replace(tmp_path / REQUEST)
        await_that(lambda: not (tmp_path / REQUEST).exists())
        ask(tmp_path, "stop")
        await_that(lambda: heard)
        assert mine.thread.is_alive()
    assert heard == ["stop"]


def test_a_driver_whose_study_was_taken_from_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its machine slept longer than a lease lasts, and another one went on."""
    monkeypatch.setattr(lease, "BEAT", 0.0)
    monkeypatch.setattr(lease, "POLL", 0.02)
    told = threading.Event()
    with Lease(tmp_path, lambda request: told.set()):
        leave(tmp_path, host="elsewhere")
        assert told.wait(20)
    assert str(holder(tmp_path)).endswith("elsewhere")


def test_a_driver_that_is_dead_but_not_buried_holds_nothing(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    await_that(lambda: psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE)
    leave(tmp_path, pid=child.pid)
    assert holder(tmp_path) is None
    child.wait()
