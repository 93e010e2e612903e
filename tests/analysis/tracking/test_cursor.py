"""How far MLflow is: right, or at the beginning."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.record.ledger import LEDGER
from analysis.tracking.cursor import CURSOR, Cursor, read_cursor, save_cursor


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / LEDGER).write_bytes(b'{"a":1}\n{"b":2}\n')
    return tmp_path


def test_what_was_saved_is_read(folder: Path) -> None:
    assert read_cursor(folder) == Cursor()
    for cursor in (Cursor(8, 1), Cursor(16, 2)):
        save_cursor(folder, cursor)
        assert read_cursor(folder) == cursor


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"byte": "x", "events": 1}',
        '{"byte": null, "events": 1}',
        '{"byte": 9, "events": 1}',
        '{"byte": 999, "events": 1}',
        '{"byte": -4, "events": 1}',
        "{}",
        '{"byte": 8}',
    ],
)
def test_one_that_cannot_be_right_is_at_the_beginning(folder: Path, text: str) -> None:
    (folder / CURSOR).write_text(text)
    assert read_cursor(folder) == Cursor()


def test_without_a_ledger_it_is_at_the_beginning(tmp_path: Path) -> None:
    save_cursor(tmp_path, Cursor(8, 1))
    assert read_cursor(tmp_path) == Cursor()
