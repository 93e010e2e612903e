"""How far MLflow is: right, or at the beginning."""

from __future__ import annotations

from pathlib import Path

import pytest

from study.cursor import CURSOR, cursor, save_cursor
from study.ledger import LEDGER


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / LEDGER).write_bytes(b'{"a":1}\n{"b":2}\n')
    return tmp_path


def test_what_was_saved_is_read(folder: Path) -> None:
    assert cursor(folder) == 0
    for byte in (8, 16):
        save_cursor(folder, byte)
        assert cursor(folder) == byte


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "3", '{"byte": "x"}', '{"byte": null}', '{"byte": 9}', '{"byte": 999}', '{"byte": -4}', "{}"]
)
def test_one_that_cannot_be_right_is_at_the_beginning(folder: Path, text: str) -> None:
    (folder / CURSOR).write_text(text)
    assert cursor(folder) == 0


def test_without_a_ledger_it_is_at_the_beginning(tmp_path: Path) -> None:
    save_cursor(tmp_path, 8)
    assert cursor(tmp_path) == 0
