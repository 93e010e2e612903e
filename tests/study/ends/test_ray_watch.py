"""The watch on Ray, with a server and a process in the place of Ray's own."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import psutil
import pytest

from study.ends import ray_watch
from study.ends.interrupts import Interrupted
from study.ends.ray_watch import RayWatch
from study.ends.study_end import StudyEnd
from tests.support import ROOT
from tests.support.waiting import PATIENCE, await_that

AGAIN = "fairtrial run x --resume"


def alone(end: StudyEnd) -> None:
    raise AssertionError("the main thread ends by itself")


def wait_after(death: Callable[[], object]) -> None:
    death()
    time.sleep(PATIENCE)


class PretendRay:
    """A server that takes connections, and a process beside it."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.raylet = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    @property
    def gcs_address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> PretendRay:
        self.port = self.server.getsockname()[1]
        return self

    def __exit__(self, *error: object) -> None:
        self.server.close()
        self.raylet.kill()
        self.raylet.wait()


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Iterator[PretendRay]:
    with PretendRay() as pretend:
        context = SimpleNamespace(gcs_address=pretend.gcs_address)
        monkeypatch.setattr(ray_watch.ray, "get_runtime_context", lambda: context)
        monkeypatch.setattr(ray_watch, "_raylet", lambda: psutil.Process(pretend.raylet.pid))
        monkeypatch.setattr(ray_watch, "LOOK", 0.02)
        yield pretend


def test_nothing_happens_while_ray_lives(pretend: PretendRay) -> None:
    with RayWatch(own=True, again=AGAIN, rescue=alone) as watch:
        time.sleep(0.2)
    assert watch.end is watch.look() is None


def test_the_main_thread_is_interrupted_when_the_raylet_dies(pretend: PretendRay) -> None:
    watch = RayWatch(own=True, again=AGAIN, rescue=alone)
    with pytest.raises(Interrupted) as told, watch:
        wait_after(pretend.raylet.kill)
    assert told.value.end == watch.end == StudyEnd("ray_died", "its raylet has ended")
    watch.close()


def test_the_main_thread_is_interrupted_when_the_server_of_our_own_ray_dies(
    pretend: PretendRay,
) -> None:
    watch = RayWatch(own=True, again=AGAIN, rescue=alone)
    with pytest.raises(Interrupted) as told, watch:
        wait_after(pretend.server.close)
    about = f"its server at {pretend.gcs_address} does not answer"
    assert told.value.end == StudyEnd("ray_died", about)
    watch.close()


def test_the_server_of_a_cluster_may_be_away_for_a_while(
    pretend: PretendRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_watch, "AWAY", 0.5)
    watch = RayWatch(own=False, again=AGAIN, rescue=alone)
    began = time.monotonic()
    with pytest.raises(Interrupted), watch:
        wait_after(pretend.server.close)
    assert time.monotonic() - began > 0.5
    watch.close()


def test_after_the_watch_a_death_interrupts_nobody(pretend: PretendRay) -> None:
    before = signal.getsignal(ray_watch.WAKE)
    with RayWatch(own=True, again=AGAIN, rescue=alone) as watch:
        pass
    pretend.raylet.kill()
    time.sleep(0.2)
    assert watch.end is None
    assert signal.getsignal(ray_watch.WAKE) == before


def test_a_main_thread_that_hangs_in_a_call_to_a_dead_ray_is_left_with_the_sentence() -> None:
    """It blocks signals, as a call does that waits for a dead Ray."""
    code = f"""
import signal, sys, time
from unittest import mock
from study.ends import ray_watch
from tests.study.ends.test_ray_watch import PretendRay
import psutil
ray_watch.LOOK, ray_watch.LEAVE = 0.02, 0.3
with PretendRay() as pretend:
    ray_watch.ray = mock.Mock(get_runtime_context=lambda: pretend)
    ray_watch._raylet = lambda: psutil.Process(pretend.raylet.pid)
    signal.pthread_sigmask(signal.SIG_BLOCK, [ray_watch.WAKE])
    rescue = lambda end: print(end.kind, flush=True)
    with ray_watch.RayWatch(own=True, again="{AGAIN}", rescue=rescue):
        pretend.raylet.kill()
        time.sleep({PATIENCE})
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (4, "ray_died\n")
    assert done.stderr == (
        f"\nfairtrial: Ray died (its raylet has ended). Nothing is lost: `{AGAIN}` resumes it.\n"
    )


@pytest.mark.ray
def test_the_raylet_of_this_node_is_found(local_ray: object) -> None:
    found = ray_watch._raylet()
    assert found is not None
    assert found.name() == "raylet"
    with RayWatch(own=False, again=AGAIN, rescue=alone) as watch:
        await_that(lambda: watch.look() is None)
    assert watch.end is None
