"""A ledger that anyone changed is found out; one that ended early is not."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.record.events import CheckpointAudited, encode
from analysis.record.ledger import LEDGER, Ledger, LedgerReader


def event(number: int) -> CheckpointAudited:
    return CheckpointAudited(trial="t", metrics={"number": number / 10})


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """A ledger of two drivers."""
    for half in (range(5), range(5, 10)):
        writer = Ledger(tmp_path)
        for number in half:
            writer.append(event(number))
        writer.close()
    return tmp_path / LEDGER


def lines(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda text: b"".join(change(text.splitlines(keepends=True)))


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "a score": lambda text: text.replace(b"0.5", b"0.9"),
    "a time": lambda text: text.replace(b'"at":1', b'"at":2', 1),
    "a line less": lines(lambda all_: all_[:3] + all_[4:]),
    "a line twice": lines(lambda all_: all_[:3] + all_[2:]),
    "two lines in the other order": lines(lambda all_: [*all_[:3], all_[4], all_[3], *all_[5:]]),
    "a line of nobody": lines(lambda all_: [*all_[:3], encode(event(7)) + b"\n", *all_[3:]]),
    "a beginning": lines(lambda all_: all_[1:]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found_and_the_cure_is_named(ledger: Path, change: str) -> None:
    ledger.write_bytes(CHANGES[change](ledger.read_bytes()))
    with pytest.raises(ValueError, match="cannot be read at byte") as told:
        LedgerReader(ledger.parent).read()
    home = ledger.parent
    assert f"`fairtrial repair {home.name} --studies {home.parent}`" in str(told.value)


def test_any_changed_byte_is_found(ledger: Path) -> None:
    whole, draw = ledger.read_bytes(), random.Random(0)
    for place in range(0, len(whole) - 1, 3):  # without the last line's end, which a crash takes
        other = draw.choice([byte for byte in range(32, 127) if byte != whole[place]])
        ledger.write_bytes(whole[:place] + bytes([other]) + whole[place + 1 :])
        with pytest.raises(ValueError, match="cannot be read at byte"):
            LedgerReader(ledger.parent).read()


def test_a_reader_that_starts_in_the_middle_checks_from_there(ledger: Path) -> None:
    first = LedgerReader(ledger.parent)
    assert len(first.read(limit=4)) == 4
    assert len(LedgerReader(ledger.parent, first.offset).read()) == 6
    whole = ledger.read_bytes()
    ledger.write_bytes(whole[: first.offset] + whole[first.offset :].replace(b"0.7", b"0.8"))
    with pytest.raises(ValueError, match="checksum does not fit"):
        LedgerReader(ledger.parent, first.offset).read()


def test_a_ledger_from_before_checksums_is_read_and_goes_on_with_them(tmp_path: Path) -> None:
    (tmp_path / LEDGER).write_bytes(b"".join(encode(event(n)) + b"\n" for n in range(3)))
    writer = Ledger(tmp_path)
    writer.append(event(3))
    writer.close()
    assert len(LedgerReader(tmp_path).read()) == 4
    text = (tmp_path / LEDGER).read_bytes()
    (tmp_path / LEDGER).write_bytes(text + encode(event(4)) + b"\n")
    with pytest.raises(ValueError, match="no checksum"):
        LedgerReader(tmp_path).read()
