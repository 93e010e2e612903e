"""What an ended trial left stays as it was written, or its loss is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.record import kept_files
from analysis.record.kept_files import KEPT, LostArtifact, keep, kept, kept_file
from analysis.record.trial_id import TrialId
from tests.support.events import CELL
from tests.support.record import leave_outputs
from trainables.contract import ARTIFACTS
from trainables.outputs.artifacts import SEAL

FINAL = TrialId(CELL, "final", 1)
FOLD = {"weights": {}, "queries": {"refit": {"image": [1], "class": [1]}}, "embeddings": None}


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return leave_outputs(tmp_path / "ray" / "1" / FINAL.folder, 2, {0: FOLD})


def names(folder: Path) -> list[str]:
    return [path.name for path in kept(folder, FINAL, ARTIFACTS)]


def test_what_was_kept_is_there_when_the_trials_folder_is_gone(
    outputs: Path, tmp_path: Path
) -> None:
    keep(tmp_path, FINAL, ARTIFACTS, outputs=outputs)
    for path in outputs.iterdir():
        path.unlink()
    assert names(tmp_path) == ["best.pt", "queries.csv"]
    found = kept_file(tmp_path, str(FINAL), "queries.csv")
    assert found == kept(tmp_path, FINAL, ARTIFACTS)[1]
    assert kept_file(tmp_path, str(FINAL), "embeddings.npz") is None


def test_a_kill_leaves_all_of_it_or_nothing(
    outputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after each file; the next attempt begins anew."""
    real, calls = kept_files.link, iter(range(100))

    def dies(file: Path, target: Path) -> None:
        real(file, target)
        if next(calls) < 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(kept_files, "link", dies)
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            keep(tmp_path, FINAL, ARTIFACTS, outputs=outputs)
        assert not (tmp_path / KEPT / FINAL.folder).exists()
    keep(tmp_path, FINAL, ARTIFACTS, outputs=outputs)
    assert names(tmp_path) == ["best.pt", "queries.csv"]
    assert [path.name for path in (tmp_path / KEPT).iterdir()] == [FINAL.folder]


HARMS: dict[str, Callable[[Path], object]] = {
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_file_that_is_not_as_it_was_written_is_lost(
    outputs: Path, tmp_path: Path, harm: str
) -> None:
    keep(tmp_path, FINAL, ARTIFACTS, outputs=outputs)
    HARMS[harm](tmp_path / KEPT / FINAL.folder / "queries.csv")
    with pytest.raises(LostArtifact, match=r"queries.csv is not as it was sealed; put back a copy"):
        kept(tmp_path, FINAL, ARTIFACTS)
    assert [path.name for path in kept(tmp_path, FINAL, ["best.pt"])] == ["best.pt"]


def test_nothing_is_kept_of_outputs_that_lack_it(outputs: Path, tmp_path: Path) -> None:
    for missing in (None, leave_outputs(tmp_path / "other", 2)):
        with pytest.raises(LostArtifact, match=r"/final-1 has not left a whole best\.pt"):
            keep(tmp_path, FINAL, ARTIFACTS, outputs=missing)
    assert not (tmp_path / KEPT).exists()


def test_what_was_kept_without_its_seal_is_lost(outputs: Path, tmp_path: Path) -> None:
    keep(tmp_path, FINAL, ARTIFACTS, outputs=outputs)
    (tmp_path / KEPT / FINAL.folder / SEAL).unlink()
    with pytest.raises(LostArtifact, match="put back a copy"):
        kept(tmp_path, FINAL, ARTIFACTS)
