"""A line of the ledger is there whole or not at all."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from study.ledger import LEDGER, Ledger, events, read


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path / LEDGER)
    for number in range(3):
        ledger.note("row", number=number, text="ü")
    return ledger


def numbers(folder: Path) -> list[int]:
    return [event["number"] for event in events(folder)]


def test_what_was_noted_is_read_back_in_order(ledger: Ledger, tmp_path: Path) -> None:
    assert numbers(tmp_path) == [0, 1, 2]
    assert all(event["at"] > 1_700_000_000_000 for event in events(tmp_path))
    assert events(tmp_path / "nowhere") == []


def test_a_ledger_cut_at_any_byte_is_a_beginning_and_goes_on(ledger: Ledger, tmp_path: Path) -> None:
    whole = (tmp_path / LEDGER).read_bytes()
    ends = [end for _, end in read(tmp_path / LEDGER)]
    for byte in range(len(whole) + 1):
        (tmp_path / LEDGER).write_bytes(whole[:byte])
        there = sum(end <= byte for end in ends)
        assert numbers(tmp_path) == list(range(there))
        Ledger(tmp_path / LEDGER).note("row", number=99)
        assert numbers(tmp_path) == [*range(there), 99]


def test_a_reader_begins_where_it_was(ledger: Ledger, tmp_path: Path) -> None:
    (_, first), *_ = read(tmp_path / LEDGER)
    assert [event["number"] for event, _ in read(tmp_path / LEDGER, first)] == [1, 2]


def test_a_line_broken_in_the_middle_is_no_crash_and_is_told(ledger: Ledger, tmp_path: Path) -> None:
    text = (tmp_path / LEDGER).read_text().replace('"number":1', '"number:1')
    (tmp_path / LEDGER).write_text(text)
    with pytest.raises(ValueError, match="is broken before byte"):
        events(tmp_path)


def test_after_a_write_that_failed_nothing_more_is_taken(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ledger.note("row", number=3)
    ledger.note("row", number=4)  # there is room again, but a hole in the story would be worse than its end
    assert "No space left" in str(ledger.failure)
    assert numbers(tmp_path) == [0, 1, 2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is always full")
def test_a_disk_that_is_really_full_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / LEDGER)
    ledger.file.close()
    ledger.file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
    ledger.note("row", number=0)
    assert "No space left" in str(ledger.failure)


def test_a_disk_that_refuses_the_mending_of_a_line_too_is_told(ledger: Ledger, tmp_path: Path) -> None:
    """It was made read-only under the study, or it breaks: a callback of Tune must not raise."""

    class Gone(io.FileIO):
        def write(self, line: object) -> int:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))

        def truncate(self, size: int | None = None) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    ledger.file.close()
    ledger.file = Gone(tmp_path / LEDGER, "ab")
    ledger.note("row", number=3)
    assert "Read-only file system" in str(ledger.failure)
    assert numbers(tmp_path) == [0, 1, 2]
