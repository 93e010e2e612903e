"""A Ray of our own comes up on a busy machine too, and its slots keep the user's niceness."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from study.cluster import local_ray as module
from study.cluster.local_ray import STARTS, prepare_environment, start_ray
from tests.support.waiting import await_that


@pytest.fixture
def no_shared_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start that failed leaves this process's Ray; here that may be the one that all tests
    share.
    """
    monkeypatch.setattr(module.ray, "shutdown", lambda: None)


class LateAgents:
    """Starts a process each time, and fails as Ray does where its agents are late; comes up at the
    third try.
    """

    def __init__(self) -> None:
        self.left: list[subprocess.Popen[bytes]] = []

    def __call__(self) -> str:
        words = [sys.executable, "-c", "import time; time.sleep(600)", "raylet"]
        self.left.append(process := subprocess.Popen(words))
        # A process that has just begun has no command line yet; Ray's live for seconds by then.
        await_that(lambda: "raylet" in psutil.Process(process.pid).cmdline())
        if len(self.left) < 3:
            raise Exception("The current node timed out during startup.")
        return "up"


def test_a_ray_that_does_not_come_up_is_started_again_and_what_it_left_is_ended(
    no_shared_ray: None,
) -> None:
    start, said = LateAgents(), list[str]()
    try:
        assert start_ray(start, said.append) == "up"
        assert [psutil.pid_exists(process.pid) for process in start.left] == [False, False, True]
        assert len(said) == 2
        assert said[0].startswith(
            "Ray did not start (The current node timed out during startup.), perhaps because "
            "this machine is busy;"
        )
    finally:
        start.left[-1].kill()
        start.left[-1].wait()


def test_a_ray_that_never_comes_up_is_given_up_with_its_own_words(no_shared_ray: None) -> None:
    said: list[str] = []

    def start() -> None:
        raise Exception("no raylet")

    with pytest.raises(Exception, match="no raylet"):
        start_ray(start, said.append)
    assert len(said) == STARTS - 1


def test_a_start_that_cannot_succeed_is_not_tried_again(no_shared_ray: None) -> None:
    def start() -> None:
        raise ValueError("num_cpus must be positive")

    with pytest.raises(ValueError, match="must be positive"):
        start_ray(start, print)


def test_slots_keep_the_users_niceness_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "RAY_worker_niceness"
    monkeypatch.setenv(name, "")  # so that it is as before after the test
    monkeypatch.delenv(name)
    prepare_environment()
    assert os.environ[name] == "0"
    monkeypatch.setenv(name, "5")
    prepare_environment()
    assert os.environ[name] == "5"
