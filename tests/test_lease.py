"""One driver per study."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from study import lease
from study.lease import LEASE, REQUEST, Lease, ask, holder


def test_a_second_driver_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    with Lease(tmp_path), pytest.raises(ValueError, match=f"is being run by process {os.getpid()} on"), Lease(tmp_path):
        raise AssertionError("never gets here")
    assert not list(tmp_path.iterdir())
    with Lease(tmp_path):
        assert str(holder(tmp_path)) == f"process {os.getpid()} on {socket.gethostname()}"


def test_of_many_drivers_at_once_one_begins(tmp_path: Path) -> None:
    """Each in a process of its own, all on the lease of one that was killed."""
    leave(tmp_path, pid=2**22 + 1)
    code = f"""
import sys, time
from pathlib import Path
from study.lease import Lease
try:
    with Lease(Path({str(tmp_path)!r})):
        print("mine", flush=True)
        time.sleep(3)
except ValueError:
    print("refused")
"""
    drivers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(6)]
    said = [driver.communicate(timeout=60)[0].strip() for driver in drivers]
    assert sorted(said) == ["mine"] + ["refused"] * 5


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
        {"host": "elsewhere", "beat": time.time() - lease.EXPIRY - 1},
    ],
)
def test_the_lease_of_a_dead_driver_is_taken_over(tmp_path: Path, changes: dict[str, Any]) -> None:
    leave(tmp_path, **changes)
    assert holder(tmp_path) is None
    with Lease(tmp_path):
        assert holder(tmp_path)


def test_a_driver_on_another_machine_is_believed_while_it_renews_its_lease(tmp_path: Path) -> None:
    leave(tmp_path, host="elsewhere", pid=1, beat=time.time() - lease.EXPIRY / 2)
    assert str(holder(tmp_path)) == "process 1 on elsewhere"


def test_a_torn_lease_is_nobodys(tmp_path: Path) -> None:
    (tmp_path / LEASE).write_text('{"host": "he')
    with Lease(tmp_path):
        assert holder(tmp_path)


def test_the_holder_renews_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "BEAT", 0.0)
    monkeypatch.setattr(lease, "POLL", 0.02)
    with Lease(tmp_path) as mine:
        wait(lambda: json.loads((tmp_path / LEASE).read_text())["beat"] > mine.mine.beat)


def wait(what: Any) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_request_reaches_the_driver_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "POLL", 0.02)
    heard: list[str] = []
    ask(tmp_path, "cancel")  # meant for an earlier driver
    with Lease(tmp_path, heard.append):
        ask(tmp_path, "stop")
        wait(lambda: heard)
    assert heard == ["stop"]
    assert not (tmp_path / REQUEST).exists()


def test_a_driver_whose_study_was_taken_from_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    deadline = time.monotonic() + 30
    while psutil.Process(child.pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    leave(tmp_path, pid=child.pid)
    assert holder(tmp_path) is None
    child.wait()
