"""A damaged record is cut back to what is good, and nothing that happened goes untold."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from analysis.record.ledger import LEDGER, LedgerReader
from analysis.record.state import StudyState
from analysis.tracking.cursor import Cursor, read_cursor, save_cursor
from study.__main__ import app
from study.driver.folder import READINGS
from study.driver.lease import Lease
from study.driver.repair import repair
from tests.conftest import MakeConfig
from tests.study.driver.test_resume import Play, story, study


@pytest.fixture
def played(config: MakeConfig, tmp_path: Path) -> Path:
    """A study that ran to its end, without Ray."""
    Play(study(config), tmp_path / "mine").to_the_end()
    return tmp_path / "mine"


def harm(folder: Path, share: float) -> int:
    """Change one line of the ledger, and return how many lines are before it."""
    lines = (folder / LEDGER).read_bytes().splitlines(keepends=True)
    place = int(share * len(lines))
    lines[place] = lines[place].replace(b'"at":1', b'"at":9', 1)
    (folder / LEDGER).write_bytes(b"".join(lines))
    return place


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_repaired_study_goes_on_and_does_what_an_undisturbed_one_does(
    config: MakeConfig, played: Path, tmp_path: Path, share: float
) -> None:
    Play(study(config), tmp_path / "whole").to_the_end()
    size = (played / LEDGER).stat().st_size
    save_cursor(played, Cursor(size, len(LedgerReader(played).read())))
    before = StudyState(LedgerReader(played).read()).test_readings()
    good = harm(played, share)
    broken = (played / LEDGER).read_bytes()

    done = repair(played)

    assert done
    assert (done.kept, done.kept + done.cut) == (good, broken.count(b"\n"))
    assert done.copy.read_bytes() == broken
    assert read_cursor(played) == Cursor(), "MLflow starts again"
    after = StudyState(LedgerReader(played).read()).test_readings()
    assert set(before) <= set(after), "what was read was read"
    assert (played / READINGS).read_text().count("\n") == 1 + len(after)
    assert repair(played) is None
    Play(study(config), played).to_the_end()
    assert story(played) == story(tmp_path / "whole")


def test_a_record_that_is_good_or_merely_torn_stays_as_it_is(played: Path) -> None:
    assert repair(played) is None
    whole = (played / LEDGER).read_bytes()
    (played / LEDGER).write_bytes(whole[:-10])
    assert repair(played) is None
    assert (played / LEDGER).read_bytes() == whole[:-10]


def test_lines_that_nobody_can_read_are_counted(played: Path) -> None:
    lines = (played / LEDGER).read_bytes().splitlines(keepends=True)
    (played / LEDGER).write_bytes(b"".join([*lines[:-3], b"\x00\xff\n", *lines[-3:]]))
    done = repair(played)
    assert done
    assert (done.cut, done.unreadable) == (4, 1)


def test_the_command_says_what_is_lost_and_how_to_go_on(played: Path) -> None:
    root = ["--studies", str(played.parent)]
    good = harm(played, 0.5)
    shown = CliRunner().invoke(app, ["status", *root])
    assert "unreadable" in shown.stdout
    shown = CliRunner().invoke(app, ["repair", "mine", *root])
    assert shown.exit_code == 0, shown.output
    assert f"Kept {good} lines and cut off " in shown.stdout
    assert f"run mine --resume --set studies={played.parent}" in shown.stdout
    shown = CliRunner().invoke(app, ["repair", "mine", *root])
    assert shown.stdout == "Nothing is wrong with the record of mine.\n"


def test_nothing_can_be_kept_of_a_record_whose_first_line_is_broken(played: Path) -> None:
    harm(played, 0.0)
    before = (played / LEDGER).read_bytes()
    with pytest.raises(ValueError, match="Not even the first line"):
        repair(played)
    assert (played / LEDGER).read_bytes() == before


def test_the_record_of_a_running_study_is_left_alone(played: Path) -> None:
    harm(played, 0.5)
    before = (played / LEDGER).read_bytes()
    with Lease(played):
        shown = CliRunner().invoke(app, ["repair", "mine", "--studies", str(played.parent)])
    assert shown.exit_code in (2, 4)
    assert (played / LEDGER).read_bytes() == before
