"""The audit of a study: one line for each time that test classes were read, by whom and under which rule, as its ledger tells it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from analysis.readings import AUDIT
from study.ledger import Event, events
from study.protocols import peeks
from trainables.contract import PEEKING, Cell
from trainables.disk import replace_text

COLUMNS = ("cell", "trial", "seed", "epoch", "rule")
Line = tuple[str, str, int, str, str]


def readings(told: Iterable[Event]) -> Iterator[Line]:
    """In the ledger's order. A final trial's are told before they happen: one that was cut off counts, whether it came to it or not.

    A trial that peeks reads with every epoch; the one that it was in when its driver went, or is in now, counts as well.
    """
    given: dict[str, Event] = {}
    peeking: dict[str, int] = {}  # trials that have not ended -> their last epoch

    def line(key: str, epoch: str, rule: str) -> Line:
        return str(Cell(**given[key]["cell"])), given[key]["name"], given[key]["seed"], epoch, rule

    def cut_off() -> Iterator[Line]:
        yield from (line(key, str(last + 1), PEEKING) for key, last in peeking.items() if last < given[key]["epochs"])

    for event in told:
        kind, key = event["event"], event.get("key", "")
        if kind == "trial":
            given[key] = event
            if peeks(event["cell"]["protocol"]):
                peeking[key] = 0
        elif kind == "row" and key in peeking:
            peeking[key] = event["epoch"]
            yield line(key, str(event["epoch"]), PEEKING)
        elif kind == "reading":
            yield from (line(key, epoch, rule) for epoch, rule in event["reads"])
        elif kind == "end":
            peeking.pop(key, None)
        elif kind == "resumed":
            yield from cut_off()
    yield from cut_off()


def write_readings(folder: Path) -> None:
    """readings.csv anew. A disk that is full is no reason to fail: the ledger has it all, and the next report writes it."""
    told = events(folder)
    if told and told[0]["event"] == "study" and "splits" not in told[0]:  # an earlier version told of final trials in the file alone
        return
    lines = list(readings(told))
    if not lines:
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([COLUMNS, *lines])
    with suppress(OSError):
        replace_text(folder / AUDIT, text.getvalue())
