"""Whoever waits sees that time passes."""

from __future__ import annotations

import io
import threading

import pytest
from rich.console import Console

from study.view import heartbeat
from study.view.heartbeat import Heartbeat, shown_busy


class Lines:
    """Collect lines, and wait until there are some."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.came = threading.Semaphore(0)

    def __call__(self, text: str) -> None:
        self.lines.append(text)
        self.came.release()


@pytest.mark.parametrize("stage", ["Starting Ray", "Ranking the losses"])
def test_without_a_terminal_work_that_takes_time_says_so_again_and_again(
    stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "SILENCE", 0.01)
    out = Lines()
    with shown_busy(Console(file=io.StringIO()), stage, say=out):
        for _ in range(3):
            assert out.came.acquire(timeout=240)
    assert set(out.lines) == {f"{stage} ..."}


def test_a_line_postpones_the_next_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    heart = Heartbeat()
    now[0] += 2.0
    assert heart._left() == pytest.approx(0.5)
    heart.heard()
    assert heart._left() == pytest.approx(2.5)


def test_the_log_of_a_night_has_fewer_signs_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(heartbeat.time, "monotonic", lambda: now[0])
    heart = Heartbeat()
    for passed, silence in [(200, 2.5), (250, 2.5), (28_800, 288)]:
        now[0] = 100.0 + passed
        heart.heard()
        assert heart._left() == pytest.approx(silence)
