"""Signals and requests, before a study, while it runs, and after it; the last part on the real
command line.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from analysis.record.events import EpochDone
from analysis.record.ledger import LedgerReader
from study.ends.interrupts import Interrupted, Interrupts, raised
from study.ends.study_end import StudyEnd
from study.errors import TIME_IS_UP
from tests.support import ROOT
from tests.support.waiting import PATIENCE, await_that

SIGNALS = [signal.SIGINT, signal.SIGTERM]  # SIGHUP takes the output with it: see below


TERMINATED = StudyEnd("interrupted", signal=signal.SIGTERM)


def send(number: int) -> None:
    os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", SIGNALS)
def test_outside_of_a_study_a_signal_interrupts_whatever_runs(number: int) -> None:
    before = [signal.getsignal(each) for each in SIGNALS]
    with pytest.raises(Interrupted) as told, raised():
        send(number)
    assert told.value.end == StudyEnd("interrupted", signal=number)
    assert [signal.getsignal(each) for each in SIGNALS] == before


@pytest.mark.parametrize("number", SIGNALS)
def test_while_someone_looks_a_signal_is_noted_and_nothing_is_interrupted(number: int) -> None:
    interrupts = Interrupts()
    with interrupts.watched(), interrupts.obeyed():
        send(number)
    assert (interrupts.end, interrupts.stopping) == (
        StudyEnd("interrupted", signal=number),
        True,
    )


def test_before_anyone_looks_a_signal_interrupts() -> None:
    interrupts = Interrupts()
    with interrupts.watched(), pytest.raises(Interrupted):
        send(signal.SIGTERM)
    assert interrupts.end == TERMINATED


def rays_own(number: int, frame: object) -> None:
    sys.exit(number)


def test_the_handler_that_ray_puts_in_our_place_does_not_stay() -> None:
    interrupts = Interrupts()
    with interrupts.watched():
        with interrupts.starting_ray():
            signal.signal(signal.SIGTERM, rays_own)
        with interrupts.obeyed():
            send(signal.SIGTERM)
        assert interrupts.end == TERMINATED


def test_a_signal_that_rays_own_handler_takes_while_it_starts_is_obeyed() -> None:
    def start() -> None:
        signal.signal(signal.SIGTERM, rays_own)
        send(signal.SIGTERM)

    interrupts = Interrupts()
    with interrupts.watched(), pytest.raises(Interrupted) as told, interrupts.starting_ray():
        start()
    assert told.value.end == interrupts.end == TERMINATED


def test_leaving_for_another_reason_while_ray_starts_stays_what_it_is() -> None:
    interrupts = Interrupts()
    with pytest.raises(SystemExit) as told, interrupts.watched(), interrupts.starting_ray():
        sys.exit(1)
    assert (told.value.code, interrupts.end) == (1, None)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_second_signal_ends_the_process_at_once(number: int) -> None:
    code = f"""
import os
from study.ends.interrupts import Interrupts
interrupts = Interrupts("fairtrial run x --resume")
with interrupts.watched(), interrupts.obeyed():
    os.kill(os.getpid(), {int(number)})
    print("goes on", flush=True)
    os.kill(os.getpid(), {int(number)})
    print("never", flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (128 + number, "goes on\n")
    assert (
        done.stderr
        == "\nfairtrial: ended at once; `fairtrial run x --resume` continues from here.\n"
    )


def test_a_closed_terminal_ends_a_study_in_order_and_nothing_more_is_printed_there() -> None:
    code = """
import os, signal, sys
from study.ends.interrupts import Interrupts
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # these tests may run under nohup
interrupts = Interrupts()
with interrupts.watched(), interrupts.obeyed():
    print("before", flush=True)
    os.kill(os.getpid(), signal.SIGHUP)
    print("nobody sees this", flush=True)
    print("nor this", file=sys.stderr, flush=True)
sys.exit(interrupts.end.signal if interrupts.end else 99)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (signal.SIGHUP, "before\n", "")


def test_a_study_under_nohup_outlives_its_terminal() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interrupts = Interrupts()
        with interrupts.watched(), interrupts.starting_ray(), interrupts.obeyed():
            send(signal.SIGHUP)
        assert not interrupts.end
    finally:
        signal.signal(signal.SIGHUP, before)


def test_stop_lets_running_trials_finish_and_cancel_does_not() -> None:
    interrupts = Interrupts()
    with interrupts.watched(), interrupts.obeyed():
        interrupts.ask("stop")
        assert (interrupts.stopping, interrupts.end) == (True, None)
        interrupts.ask("cancel")
        assert interrupts.end == TERMINATED


@pytest.mark.parametrize("request_", ["stop", "cancel"])
def test_a_study_that_still_waits_for_its_place_is_ended_by_either(request_: str) -> None:
    interrupts = Interrupts()
    with interrupts.watched(), pytest.raises(Interrupted):
        interrupts.ask(request_)  # type: ignore[arg-type]


def until_its_time_is_up(interrupts: Interrupts) -> None:
    """A thousandth of a second is enough for a study that looks."""
    with interrupts.watched(), interrupts.obeyed(), interrupts.limited(1e-3 / 3600):
        await_that(lambda: interrupts.end is not None)


def test_a_study_ends_in_order_when_its_hours_are_over() -> None:
    interrupts = Interrupts()
    until_its_time_is_up(interrupts)
    assert interrupts.stopping
    assert interrupts.end
    assert interrupts.end.code == TIME_IS_UP
    assert interrupts.end.sentence("fairtrial run x --resume") == (
        "max_hours=2.77778e-07 have passed. Nothing is lost: `fairtrial run x --resume` resumes it."
    )


def test_hours_that_are_over_also_end_a_study_that_waits_for_its_place() -> None:
    interrupts = Interrupts()
    with interrupts.watched(), interrupts.limited(1e-3 / 3600), pytest.raises(Interrupted) as told:
        time.sleep(PATIENCE)
    assert told.value.end.kind == "time_is_up"
    assert interrupts.end == told.value.end


def test_a_study_that_ends_before_its_hours_are_over_hears_no_more_of_them() -> None:
    interrupts = Interrupts()
    with interrupts.watched():
        with interrupts.limited(0.2 / 3600):
            pass
        time.sleep(0.4)
    assert interrupts.end is None


def begin(folder: Path, *words: str) -> subprocess.Popen[str]:
    """The README's command on a Ray of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"}
    command = [sys.executable, "-m", "study", "run", "quickstart", "--smoke", *words]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until_rows(process: subprocess.Popen[str], folder: Path, count: int) -> None:
    study = folder / "studies" / "quickstart-smoke"

    def epochs() -> int:
        return sum(isinstance(event, EpochDone) for event in LedgerReader(study).read())

    await_that(
        lambda: epochs() >= count,
        lambda: "" if process.poll() is None else str(process.communicate()),
    )


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_study_on_the_command_line_that_is_terminated_says_how_to_go_on(tmp_path: Path) -> None:
    process = begin(tmp_path)
    until_rows(process, tmp_path, 1)
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, errors
    assert "Interrupted. Nothing is lost: `" in said
    assert "run quickstart-smoke --resume` resumes it." in said
    assert errors == ""


@pytest.mark.ray
@pytest.mark.long
@pytest.mark.timeout(900)
def test_ctrl_c_before_the_first_trial_and_while_it_runs_and_twice(tmp_path: Path) -> None:
    process = begin(tmp_path)
    assert process.stdout
    while "Starting Ray" not in process.stdout.readline():
        assert process.poll() is None
    await_that(lambda: psutil.Process(process.pid).children())  # Ray starts
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "No trial had begun, and nothing is left behind." in said) == (
        143,
        True,
    ), said + errors
    assert not list(tmp_path.glob("studies/*/"))
    process = begin(tmp_path)
    until_rows(process, tmp_path, 1)
    process.send_signal(signal.SIGINT)
    said, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, "--resume` resumes it." in said, errors) == (130, True, "")
    process = begin(tmp_path, "--resume")
    until_rows(process, tmp_path, 4)
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode in (130, 143)
    assert "ended at once" in errors
