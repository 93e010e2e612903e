"""Break down one real `fairtrial run quickstart`: what a user waits for, from Enter to the prompt.

It runs on a terminal of its own in a fresh studies folder, with further options of `fairtrial run`
as they are. Times are those of the lines on the terminal and of the events in the ledger. A gap
between trials is the time from a trial's end to the next start of its slot's trial, without work.
`FAIRTRIAL_DATA` names the folder of decoded images and features; an empty one makes a first run.
"""

from __future__ import annotations

import argparse
import os
import pty
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from analysis.record.events import AnyEvent, EpochDone, TrialEnded, TrialStarted
from analysis.record.ledger import LedgerReader

ROW = "{:<66}{:>22}"
CODES = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]")  # of a terminal


@dataclass(frozen=True)
class Breakdown:
    """Hold the seconds of one run, counted from Enter."""

    first_line: float
    study_starts: float
    first_epoch: float
    trials: int
    trial_seconds: float  # mean
    gap: float  # median, of a slot between two trials
    last_trial: float
    prompt: float
    silence: float  # the longest
    silence_from: float  # when it began


def break_down(
    began: float, output: Sequence[float], events: Sequence[AnyEvent], prompt: float
) -> Breakdown:
    """Return the times of a run. began, output, prompt: seconds since 1970."""
    at = [event.at / 1000 - began for event in events]
    times = list(zip(events, at, strict=True))
    starts = {event.trial: when for event, when in times if isinstance(event, TrialStarted)}
    ends = {event.trial: when for event, when in times if isinstance(event, TrialEnded)}
    life = [began, *output, prompt]
    silence, silent_from = max((b - a, a - began) for a, b in pairwise(life))
    return Breakdown(
        first_line=output[0] - began,
        study_starts=min(starts.values()),
        first_epoch=next(when for event, when in times if isinstance(event, EpochDone)),
        trials=len(ends),
        trial_seconds=statistics.fmean(ends[trial] - starts[trial] for trial in ends),
        gap=_gap(sorted(starts.values()), sorted(ends.values())),
        last_trial=max(ends.values()),
        prompt=prompt - began,
        silence=silence,
        silence_from=silent_from,
    )


def _gap(starts: list[float], ends: list[float]) -> float:
    """Return the median time from an end to the start that follows it."""
    found = [min((s for s in starts if s >= end), default=None) for end in ends]
    gaps = [s - end for s, end in zip(found, ends, strict=True) if s is not None]
    return statistics.median(gaps) if gaps else 0.0


def run(words: Sequence[str], studies: Path) -> tuple[float, list[float], float, bytes]:
    """Run the study on a terminal; return when it began, when it wrote, when it ended, and what."""
    ours, theirs = pty.openpty()
    began, output, text = time.time(), list[float](), b""
    command = [sys.executable, "-m", "study", "run", "quickstart", "--set", f"studies={studies}"]
    process = subprocess.Popen(
        [*command, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=_environment()
    )
    os.close(theirs)
    while True:
        try:
            chunk = os.read(ours, 65536)
        except OSError:  # the terminal is closed
            break
        if not chunk:
            break
        output.append(time.time())
        text += chunk
    if process.wait():
        raise SystemExit(CODES.sub(b"", text).decode())
    return began, output, time.time(), text


def _environment() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}


def show(what: str, amount: str) -> None:
    print(ROW.format(what, amount), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    _, words = parser.parse_known_args()
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f} at the start")
    with tempfile.TemporaryDirectory() as place:
        began, output, prompt, text = run(words, Path(place))
        (ledger,) = Path(place).glob("*/ledger.jsonl")
        found = break_down(began, output, LedgerReader(ledger.parent).read(), prompt)
    show("Enter to the first line", f"{found.first_line:.1f} s")
    for stage in re.findall(rb"\[(\d\d:\d\d)\] ([^\r\n]+)", CODES.sub(b"", text)):
        print(f"    [{stage[0].decode()}] {stage[1].decode().strip()}")
    show("Enter to the first trial's start", f"{found.study_starts:.1f} s")
    show("Enter to the first epoch's end", f"{found.first_epoch:.1f} s")
    show(f"{found.trials} trials, each in the mean", f"{found.trial_seconds:.2f} s")
    show("from a trial's end to the next start, median", f"{found.gap:.3f} s")
    show("all trials", f"{found.last_trial - found.study_starts:.1f} s")
    show("last trial to the prompt", f"{found.prompt - found.last_trial:.1f} s")
    silent = f"longest time without a sign of life, {found.silence_from:.0f} s after Enter"
    show(silent, f"{found.silence:.1f} s")
    show("Enter to the prompt", f"{found.prompt:.1f} s")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    show("driver", f"{used.ru_utime + used.ru_stime:.1f} core-seconds")
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
