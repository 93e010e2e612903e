"""A checkpoint counts when every rank has written and sealed its part, and not before."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.waiting import await_that
from trainables.outputs import checkpoints as module
from trainables.outputs.checkpoints import (
    BEST,
    FOLD,
    KEEP,
    SEAL,
    Abandoned,
    CheckpointPart,
    HashingFile,
    KnownWeights,
    checkpoints_in,
    epoch_of,
    new_checkpoint,
    newest_whole,
    read_checkpoint,
    remove_old,
    write_part,
)


def part(epoch: int, *, best: int = 1, number: int = 0, parts: int = 1) -> CheckpointPart:
    """One rank's part: each rank has the split of its own number."""
    network = {"weight": torch.full((3, 2), float(epoch))}
    return CheckpointPart(
        number,
        parts,
        folds={number: {"network": network, "optimizer": {"state": {0: torch.ones(2)}}}},
        weights={number: {"weight": torch.full((3, 2), float(best))}},
        best=[(0.5, best)] * parts,
        rows=[{"epoch": 1 + i, "folds": [{"map_at_r": 0.1}]} for i in range(epoch)],
    )


def write(home: Path, *parts: CheckpointPart, known: dict[int, KnownWeights] | None = None) -> Path:
    folder = new_checkpoint(home)
    for each in parts:
        write_part(folder, each, known={} if known is None else known)
    return folder


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = write(tmp_path, part(3, best=2))
    assert epoch_of(folder) == 3
    state = read_checkpoint(folder, [0])
    torch.testing.assert_close(state["folds"][0]["fit"], part(3).folds[0])
    torch.testing.assert_close(state["folds"][0]["weights"], part(3, best=2).weights[0])
    assert state["rows"] == part(3).rows
    assert state["best"] == [[0.5, 2]]


def test_ranks_write_their_own_parts_and_all_of_them_are_needed(tmp_path: Path) -> None:
    first, second = part(2, number=0, parts=2), part(2, number=1, parts=2)
    folder = write(tmp_path, second)
    assert epoch_of(folder) is None
    write_part(folder, first, known={})
    assert epoch_of(folder) == 2
    assert sorted(path.name for path in folder.iterdir()) == [
        *("best-0.pt", "best-1.pt", "fold-0.pt", "fold-1.pt", "seal-0.json", "seal-1.json")
    ]
    # A rank reads its own splits, and no others.
    (folder / FOLD.format(0)).unlink()
    assert read_checkpoint(folder, [1])["folds"].keys() == {1}


def test_parts_of_different_epochs_are_no_checkpoint(tmp_path: Path) -> None:
    folder = write(tmp_path, part(2, number=0, parts=2), part(3, number=1, parts=2))
    assert epoch_of(folder) is None


@pytest.mark.parametrize("name", [FOLD, BEST, SEAL])
@pytest.mark.parametrize("harm", ["gone", "empty", "cut"])
def test_a_checkpoint_that_is_not_all_there_is_passed_over(
    tmp_path: Path, name: str, harm: str
) -> None:
    older, newer = write(tmp_path, part(2)), write(tmp_path, part(3))
    assert newest_whole([older, newer]) == newer
    file = newer / name.format(0)
    whole = file.read_bytes()
    file.unlink()
    if harm != "gone":
        file.write_bytes(whole[: -10 if harm == "cut" else 0])
    assert newest_whole([older, newer]) == older


def test_a_checkpoint_beyond_the_record_is_passed_over(tmp_path: Path) -> None:
    folders = [write(tmp_path, part(epoch)) for epoch in (2, 4, 6)]
    assert [newest_whole(folders, epoch=epoch) for epoch in (1, 2, 5, 6)] == [
        None,
        folders[0],
        folders[1],
        folders[2],
    ]


def written(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the files that are written from now on."""
    names, real = [], module._write

    def note(path: Path, *words: Any) -> str:
        names.append(path.name)
        return real(path, *words)

    monkeypatch.setattr(module, "_write", note)
    return names


def test_best_weights_are_written_when_they_have_changed_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names, known = written(monkeypatch), dict[int, KnownWeights]()
    best = {1: 1, 2: 1, 3: 1, 4: 4, 5: 4, 6: 4}
    folders = [write(tmp_path, part(epoch, best=best[epoch]), known=known) for epoch in best]
    # After a best epoch the state itself has the weights.
    assert [name for name in names if name == BEST.format(0)] == [BEST.format(0)] * 2
    assert len(names) == 6 + 2
    for folder, chosen in zip(folders, best.values(), strict=True):
        weights = read_checkpoint(folder, [0])["folds"][0]["weights"]
        assert weights["weight"].unique().tolist() == [chosen]
        assert epoch_of(folder) is not None


def test_the_newest_sealed_checkpoints_stay_and_older_ones_go(tmp_path: Path) -> None:
    folders = [write(tmp_path, part(epoch)) for epoch in (1, 2, 3, 4)]
    (folders[1] / SEAL.format(0)).unlink()
    unsealed = new_checkpoint(tmp_path)
    remove_old(tmp_path)
    assert checkpoints_in(tmp_path) == [*folders[-KEEP:], unsealed]


def test_a_link_survives_the_checkpoint_that_it_came_from(tmp_path: Path) -> None:
    known: dict[int, KnownWeights] = {}
    for epoch in (2, 3, 4, 5):
        last = write(tmp_path, part(epoch), known=known)
        remove_old(tmp_path)
    assert newest_whole(checkpoints_in(tmp_path)) == last


def test_a_full_disk_is_named_with_its_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch itself says "unexpected pos"."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(HashingFile, "_write", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*saved_000001 on "):
        write(tmp_path, part(1))


def test_what_is_not_wanted_any_more_is_not_written_to_its_end(tmp_path: Path) -> None:
    asked = iter([True, True, False])
    with pytest.raises(Abandoned):
        write_part(new_checkpoint(tmp_path), part(2), known={}, wanted=lambda: next(asked))
    assert newest_whole(checkpoints_in(tmp_path)) is None


def test_nothing_is_written_for_a_trial_whose_folder_is_gone(tmp_path: Path) -> None:
    folder = new_checkpoint(tmp_path / "trial")
    (tmp_path / "trial").rename(tmp_path / "trial.gone")
    with pytest.raises(FileNotFoundError):
        write_part(folder, part(2), known={})
    assert not (tmp_path / "trial").exists()


def test_two_processes_never_write_one_checkpoint(tmp_path: Path) -> None:
    """A slot that was taken for dead may still write beside the one that took its place."""
    assert [new_checkpoint(tmp_path).name for _ in range(3)] == [
        *("saved_000001", "saved_000002", "saved_000003")
    ]
    assert new_checkpoint(tmp_path / "new").parent == tmp_path / "new"


KILLED = """
    import sys, time
    import torch
    from pathlib import Path
    from trainables.outputs.checkpoints import CheckpointPart, HashingFile
    from trainables.outputs.saver import Saver

    home, stage = Path(sys.argv[1]), sys.argv[2]
    real = HashingFile._write

    def slow(file, chunk):
        real(file, chunk)
        file.file.flush()
        if Path(file.file.name).parent.name == "saved_000002" and stage in file.file.name:
            (home / "mark").touch()
            time.sleep(60)

    HashingFile._write = slow
    saver = Saver()
    for epoch in (2, 3):
        weights = {"weight": torch.full((1000,), float(epoch))}
        part = CheckpointPart(
            0, 1, {0: {"network": weights}}, {0: weights}, [(0.5, epoch - 1)], [{}] * epoch
        )
        (folder := home / f"saved_{epoch - 1:06}").mkdir(parents=True)
        saver.save(folder, part)
    saver.thread.join()
"""


@pytest.mark.parametrize("stage", ["fold-0", "best-0"])
def test_a_process_killed_while_it_writes_leaves_nothing_that_is_taken_for_whole(
    tmp_path: Path, stage: str
) -> None:
    words = [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path), stage]
    process = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        await_that((tmp_path / "mark").exists, lambda: "it ended" if process.poll() else "")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    found = checkpoints_in(tmp_path)
    assert len(found) == 2
    assert any((found[1] / f"{stage}.pt").read_bytes()), "it was being written"
    assert newest_whole(found) == found[0]
    assert epoch_of(found[0]) == 2


def test_a_part_says_how_far_it_is() -> None:
    assert replace(part(3), rows=[]).epoch == 0
