"""A page that a process of its own writes is the page that this one would write, or none."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from analysis import read_study
from analysis.report.page import write_page
from analysis.report.page_process import PageProcess
from tests.support.synthetic_study import everything, write_study

CONFIG = "name: made\nselect_metric: map_at_r\n"


def started() -> PageProcess:
    found = PageProcess()
    found._start()
    assert found._process
    return found


@pytest.mark.slow
def test_the_page_of_another_process_is_the_same_to_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = started()
    monkeypatch.chdir(tmp_path)
    home = write_study(Path("there"), everything())
    here = Path(shutil.copytree(home, Path("here") / home.name))
    other.ask(home, CONFIG)
    mine = write_page(read_study(here), folder=here, config_yaml=CONFIG, maps=False)
    found = other.answer()
    other.close()
    assert found
    assert (found.rankings, found.fairness) == (mine.rankings, mine.fairness)
    assert [path.relative_to(home) for path in found.files] == [
        path.relative_to(here) for path in mine.files
    ]
    for theirs, ours in zip(found.files, mine.files, strict=True):
        assert theirs.read_bytes() == ours.read_bytes(), ours.name


def test_a_process_that_died_gives_no_page(tmp_path: Path) -> None:
    dead = started()
    assert dead._process
    os.kill(dead._process.pid, signal.SIGKILL)
    dead._process.wait()
    dead.ask(tmp_path, CONFIG)
    assert dead.answer() is None
    dead.close()


def test_a_folder_without_a_study_gives_no_page(tmp_path: Path) -> None:
    lost = started()
    lost.ask(tmp_path, CONFIG)
    assert lost.answer() is None
    lost.close()


def test_a_process_that_nobody_asks_ends_with_its_driver() -> None:
    idle = started()
    assert idle.answer() is None, "nobody asked"
    assert idle._process
    assert idle._pipe
    idle._pipe.close()  # as when the driver is killed
    assert idle._process.wait(timeout=240) == 0


def test_without_a_process_there_is_no_page(tmp_path: Path) -> None:
    none = PageProcess()
    none.start_later(3600)
    none.ask(tmp_path, CONFIG)
    assert none.answer() is None
    none.close()
