"""A line of the ledger is there whole or not at all."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest

from analysis.record.events import CheckpointAudited
from analysis.record.ledger import LEDGER, Ledger, LedgerReader, has_begun, whole_bytes


def event(number: int) -> CheckpointAudited:
    return CheckpointAudited(trial=f"ü{number}", metrics={"number": number})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    ledger = Ledger(tmp_path)
    for number in range(3):
        ledger.append(event(number))
    return ledger


def numbers(folder: Path) -> list[float]:
    found = LedgerReader(folder).read()
    return [each.metrics["number"] for each in found if isinstance(each, CheckpointAudited)]


def test_events_are_read_back_in_order(ledger: Ledger, tmp_path: Path) -> None:
    assert numbers(tmp_path) == [0, 1, 2]
    assert all(each.at > 1_700_000_000_000 for each in LedgerReader(tmp_path).read())
    assert LedgerReader(tmp_path / "nowhere").read() == []


def test_a_ledger_cut_at_any_byte_is_a_beginning_and_goes_on(
    ledger: Ledger, tmp_path: Path
) -> None:
    whole = (tmp_path / LEDGER).read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for byte in range(len(whole) + 1):
        (tmp_path / LEDGER).write_bytes(whole[:byte])
        there = sum(end <= byte for end in ends)
        assert numbers(tmp_path) == list(range(there))
        assert has_begun(tmp_path) == bool(there)
        assert whole_bytes(tmp_path / LEDGER) == ([0, *ends])[there]
        Ledger(tmp_path).append(event(99))
        assert numbers(tmp_path) == [*range(there), 99]


def test_a_reader_reads_only_what_is_new(ledger: Ledger, tmp_path: Path) -> None:
    reader = LedgerReader(tmp_path)
    assert len(reader.read()) == 3
    assert reader.read() == []
    ledger.append(event(3))
    (new,) = reader.read()
    assert isinstance(new, CheckpointAudited)
    assert new.metrics == {"number": 3}
    assert reader.offset == ledger.size


def test_a_reader_stops_at_its_limit_and_at_the_end_it_is_given(
    ledger: Ledger, tmp_path: Path
) -> None:
    reader = LedgerReader(tmp_path)
    assert len(reader.read(limit=1)) == 1
    first = reader.offset
    assert len(LedgerReader(tmp_path).read(end=first)) == 1
    assert len(reader.read()) == 2


def test_a_line_broken_in_the_middle_is_no_crash_and_is_told(
    ledger: Ledger, tmp_path: Path
) -> None:
    text = (tmp_path / LEDGER).read_text().replace('"number":1', '"number:1')
    (tmp_path / LEDGER).write_text(text)
    with pytest.raises(ValueError, match="cannot be read at byte"):
        numbers(tmp_path)


def test_after_a_write_that_failed_nothing_more_is_taken(
    ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        ledger.append(event(3))
    # There is room again, but a hole in the story would be worse than its end.
    ledger.append(event(4))
    assert "No space left" in str(ledger.failure)
    assert numbers(tmp_path) == [0, 1, 2]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a disk that is always full")
def test_a_disk_that_is_really_full_is_told(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.file.close()
    ledger.file = open("/dev/full", "ab", buffering=0)  # noqa: SIM115
    ledger.append(event(0))
    assert "No space left" in str(ledger.failure)


def test_a_disk_that_refuses_the_mending_of_a_line_too_is_told(
    ledger: Ledger, tmp_path: Path
) -> None:
    """It was made read-only under the study, or it breaks: a callback of Tune must not raise."""

    class Gone(io.FileIO):
        def write(self, line: object) -> int:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(tmp_path))

        def truncate(self, size: int | None = None) -> int:
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    ledger.file.close()
    ledger.file = Gone(tmp_path / LEDGER, "ab")
    ledger.append(event(3))
    assert "Read-only file system" in str(ledger.failure)
    assert numbers(tmp_path) == [0, 1, 2]
