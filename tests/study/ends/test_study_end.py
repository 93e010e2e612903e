"""Every end has an exit code and one sentence with the command that goes on."""

from __future__ import annotations

import errno
import os
import signal
import tempfile
from pathlib import Path
from typing import Any, get_args

import pytest

from study.ends import study_end
from study.ends.study_end import TRACEBACK, Kind, StudyEnd, end_in, end_of
from study.errors import BUG, NO_PLACE, TIME_IS_UP

AGAIN = "fairtrial run mine --resume --set studies=/data"


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_end_says_in_one_sentence_how_to_go_on(kind: Kind) -> None:
    end = StudyEnd(kind, "what happened")
    said = end.sentence(AGAIN)
    assert f"`{AGAIN}`" in said
    assert "\n" not in said
    assert kind == "interrupted" or "what happened" in said
    assert end.code in (130, BUG, NO_PLACE, TIME_IS_UP)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_an_end_before_the_first_line_asks_nobody_to_resume(kind: Kind) -> None:
    said = StudyEnd(kind, "what happened").sentence(None)
    assert said.endswith("No trial had begun, and nothing is left behind.")
    assert "--resume" not in said


def test_only_signals_have_the_exit_code_of_a_signal() -> None:
    codes = {StudyEnd("interrupted", signal=number).code for number in (2, 15, signal.SIGHUP)}
    assert codes == {130, 143, 129}
    assert {StudyEnd(kind).code for kind in ("disk_full", "ray_died", "wrong_node")} == {4}  # type: ignore[arg-type]


def test_an_error_that_speaks_of_a_full_disk_names_it(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/scratch/x on node-7")
    assert end_of(full, tmp_path) == StudyEnd(
        "disk_full", "No space left on device: /scratch/x on node-7"
    )
    assert end_in("KeyError: 'disk'", tmp_path) is None


def test_a_full_disk_is_found_when_the_error_does_not_speak_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tune reads back an empty error.pkl that it wrote on a full disk: EOFError."""

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(study_end.tempfile, "TemporaryFile", full)
    assert end_of(EOFError("Ran out of input"), tmp_path) == StudyEnd(
        "disk_full", f"No space left on device: {tmp_path}"
    )


def test_what_nobody_knows_is_written_down_and_named(tmp_path: Path) -> None:
    try:
        raise ZeroDivisionError("division\n by zero")
    except ZeroDivisionError as error:
        end = end_of(error, tmp_path)
    assert end.kind == "bug"
    assert end.about == (
        f"ZeroDivisionError: division by zero; its traceback is in {tmp_path / TRACEBACK}"
    )
    assert "test_what_nobody_knows" in (tmp_path / TRACEBACK).read_text()
    assert not list(Path(tempfile.gettempdir()).glob("probe*"))
