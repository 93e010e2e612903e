"""Cut a broken ledger back to its last good line, and keep what was cut off."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from analysis.record.events import AnyEvent, LedgerRepaired, decode
from analysis.record.ledger import LEDGER, Ledger, LedgerReader, whole_bytes
from analysis.record.state import StudyState
from analysis.tracking.cursor import CURSOR, read_cursor
from study.driver.folder import write_readings
from study.driver.lease import Lease
from trainables.outputs.disk import replace_bytes


@dataclass(frozen=True)
class Repair:
    """Say what a repair did. unreadable: lines of which nobody knows what they said."""

    kept: int
    cut: int
    unreadable: int
    trials: int  # ends of trials that were cut off
    epochs: int
    copy: Path  # of the broken ledger


def repair(folder: Path) -> Repair | None:
    """Cut the study's ledger back; return None if nothing is wrong with it.

    Raise ValueError if a driver runs, another version wrote it, or not even the first line is good.
    """
    with Lease(folder):
        return _repair(folder)


def _repair(folder: Path) -> Repair | None:
    reader, good = LedgerReader(folder), list[AnyEvent]()
    try:
        while found := reader.read(limit=1):
            good += found
    except ValueError as error:
        if not good:
            raise ValueError(
                f"Not even the first line of {reader.path} is good ({error}), so nothing can be "
                f"saved; `fairtrial delete {folder.name}` removes the study."
            ) from None
    if reader.offset == whole_bytes(reader.path):
        return None
    whole = reader.path.read_bytes()
    lines = whole[reader.offset :].splitlines()
    cut = [event for line in lines if (event := _decoded(line))]
    before, after = StudyState(good), _with(good, cut)
    copy = _free(folder)
    replace_bytes(copy, whole)
    if read_cursor(folder).byte > reader.offset:
        (folder / CURSOR).unlink()
    replace_bytes(reader.path, whole[: reader.offset])
    ledger = Ledger(folder)
    ledger.append(LedgerRepaired(lines=len(lines), reads=_lost_readings(before, after)))
    ledger.close()
    write_readings(folder, StudyState(LedgerReader(folder).read()))
    return Repair(
        len(good),
        len(lines),
        len(lines) - len(cut),
        after.ended - before.ended,
        after.epochs - before.epochs,
        copy,
    )


def _decoded(line: bytes) -> AnyEvent | None:
    with suppress(ValueError):
        return decode(line)
    return None


def _with(good: list[AnyEvent], cut: list[AnyEvent]) -> StudyState:
    """Return the state as it would be with the lines that are cut off."""
    state = StudyState(good)
    for event in cut:
        with suppress(KeyError):  # of a trial whose start is among the unreadable lines
            state.apply(event)
    return state


def _lost_readings(before: StudyState, after: StudyState) -> list[tuple[str, str, int, str, str]]:
    """Return the readings of test classes that only the lines that are cut off tell."""
    lost = Counter(after.test_readings()) - Counter(before.test_readings())
    return [(line.cell, line.trial, line.seed, line.epoch, line.rule) for line in lost.elements()]


def _free(folder: Path) -> Path:
    """Return a name for a copy of the broken ledger that no earlier one has."""
    names = (folder / f"{LEDGER}.broken-{number}" for number in count(1))
    return next(path for path in names if not path.exists())
