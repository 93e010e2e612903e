"""A slot serves trial after trial, as Tune's own Trainable, without a cluster."""

from __future__ import annotations

import errno
import math
import os
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import trainables.workers.slot
from tests.support.specs import TRAINING, final, search
from tests.support.waiting import await_that
from trainables.contract import ARTIFACTS, UNTRAINED, Cell, Outputs, TrialSpec, WrongNode
from trainables.outputs.artifacts import OUTPUTS, epoch_of, read_state
from trainables.outputs.checkpoints import HashingFile, Saving, checkpoints_in
from trainables.outputs.checkpoints import epoch_of as sealed_epoch_of
from trainables.outputs.saver import SaveProgress
from trainables.training import fit
from trainables.workers.slot import Slot
from trainables.workers.versions import shared_code
from trainables.workers.worker import Worker

EPOCHS = TRAINING.epochs


def slot(spec: TrialSpec, saving: Saving | None = None) -> Slot:
    return Slot(given(spec, saving))


def given(spec: TrialSpec, saving: Saving | None = None) -> dict[str, Any]:
    """What Tune gives to a slot; trials that are as short as these are not saved in between."""
    return {"spec": spec, "saving": saving or Saving("nowhere", seconds=3600)}


def saves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the epochs after which the next slots save their trial from now on."""
    epochs: list[int] = []
    monkeypatch.setattr(Worker, "save", lambda self, _: epochs.append(len(self.learner.rows)))
    return epochs


class Planted:
    """Makes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_tunes_restore_runs_nothing_that_somebody_planted(tmp_path: Path) -> None:
    checkpoint, ran = tmp_path / "checkpoint", tmp_path / "ran"
    checkpoint.mkdir()
    (checkpoint / "_dict_checkpoint.pkl").write_bytes(pickle.dumps(Planted(ran)))
    slot(search("contrastive")).restore(str(checkpoint))
    assert not ran.exists()
    pickle.loads((checkpoint / "_dict_checkpoint.pkl").read_bytes())
    assert ran.exists(), "it would have run"


def test_a_step_is_an_epoch_and_the_last_one_says_done() -> None:
    here = slot(search("contrastive"))
    results = [here.step() for _ in range(EPOCHS)]
    assert [result["epoch"] for result in results] == list(range(1, len(results) + 1))
    assert [result["done"] for result in results] == [False] * (len(results) - 1) + [True]
    assert not [name for name in results[-1]["metrics"] if name.startswith("test/")]


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_a_search_trial_out_of_memory_is_done_and_says_why(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exhausted(*_: object) -> None:
        raise error

    here = slot(search("contrastive"))
    assert not here.step()["out_of_memory"]
    monkeypatch.setattr(here.worker.learner.fits[0], "train_epoch", exhausted)
    monkeypatch.setattr("trainables.workers.slot.device_name", lambda: "Tesla T4")
    result = here.step()
    assert (result["done"], result["out_of_memory"], result["diverged"], result["score"]) == (
        True,
        True,
        False,
        0.0,
    )
    assert result["devices"] == ["Tesla T4"]


def test_a_final_trial_says_what_it_will_read_and_reads_in_the_step_after(
    tmp_path: Path,
) -> None:
    spec = replace(final("contrastive"), outputs=Outputs(last=True, embeddings=False))
    here = slot(spec, Saving(str(tmp_path), 3600))
    results = [here.step() for _ in range(EPOCHS)]
    assert [result.get("reads") is not None for result in results] == [False] * (EPOCHS - 1) + [
        True
    ]
    assert not any(result["done"] for result in results)
    assert not any(here.worker.learner.readings)
    reading = here.step()
    assert reading["done"]
    assert (reading["epoch"], reading["score"]) == (EPOCHS, results[-1]["score"])
    assert ["test/recall_at_1" in result["metrics"] for result in [*results, reading]] == [
        False
    ] * EPOCHS + [True]
    chosen = f"{reading['chosen_epoch']:g}"
    assert results[-1]["reads"] == [(chosen, "selected-on-validation"), (str(EPOCHS), "last-epoch")]


def test_a_final_trial_that_diverged_says_what_it_will_read_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = slot(final("contrastive"), Saving(str(tmp_path), 3600))
    here.step()
    monkeypatch.setattr(here.worker.learner.fits[0], "train_epoch", lambda number: math.nan)
    lost = here.step()
    assert (lost["diverged"], lost["done"], lost["reads"]) == (
        True,
        False,
        [("1", "selected-on-validation")],
    )
    assert here.step()["done"]


@pytest.mark.parametrize("place", ["network_of", "objective_of"])
def test_a_search_trial_too_large_to_be_built_is_done_and_a_final_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(fit, place, exhausted)
    here = slot(search("contrastive"), Saving(str(tmp_path), 3600))
    result = here.step()
    assert (result["epoch"], result["done"], result["out_of_memory"], result["score"]) == (
        1,
        True,
        True,
        0.0,
    )
    here.save_checkpoint("")
    assert epoch_of(tmp_path / OUTPUTS) == 1
    with pytest.raises(torch.OutOfMemoryError):
        slot(final("contrastive")).step()


def test_a_search_trial_that_has_no_room_for_its_best_weights_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError

    here = slot(search("contrastive"), Saving(str(tmp_path), 3600))
    here.step()
    monkeypatch.setattr(here.worker.learner, "_keep_best", exhausted)
    result = here.step()
    assert (result["epoch"], result["done"], result["out_of_memory"], result["score"]) == (
        2,
        True,
        True,
        0.0,
    )
    here.save_checkpoint("")
    assert epoch_of(tmp_path / OUTPUTS) == 2
    again = slot(search("contrastive"))
    again.worker.load(read_state(tmp_path / OUTPUTS))
    assert again.step()["out_of_memory"]  # the result of before


def test_a_reset_slot_gives_what_a_fresh_one_gives(tmp_path: Path) -> None:
    used = slot(search("triplet"))
    used.step()
    assert used.reset_config(given(search("proxy_anchor")))
    fresh = slot(search("proxy_anchor"))
    for _ in range(2):
        ours, theirs = used.step(), fresh.step()
        assert {**ours["metrics"], "seconds": 0} == {**theirs["metrics"], "seconds": 0}


def test_a_final_trial_leaves_its_files_and_one_that_is_tried_again_reads_again_and_says_so(
    tmp_path: Path,
) -> None:
    saving = Saving(str(tmp_path), 3600)
    whole = slot(final("contrastive"), saving)
    results = [whole.step() for _ in range(EPOCHS + 1)]
    whole.save_checkpoint("")
    assert {path.name for path in (tmp_path / OUTPUTS).iterdir()} == {"seal.json", *ARTIFACTS[:2]}
    (saved,) = checkpoints_in(tmp_path)  # before it read
    await_that(lambda: sealed_epoch_of(saved) == EPOCHS)
    part = slot(final("contrastive"), replace(saving, start=(str(saved),), epoch=EPOCHS))
    assert part.step()["reads"]
    again = part.step()
    assert again["done"]
    assert (again["epoch"], again["score"]) == (results[-1]["epoch"], results[-1]["score"])
    assert again["metrics"]["test/recall_at_1"] == results[-1]["metrics"]["test/recall_at_1"]


def test_a_slot_continues_from_the_newest_checkpoint_that_is_on_record(tmp_path: Path) -> None:
    saving = Saving(str(tmp_path), 1e-9)
    whole, part = slot(search("contrastive", epochs=5)), slot(search("contrastive"), saving)
    results = [whole.step() for _ in range(5)]
    for epoch in (1, 2):
        part.step()
        await_that(lambda n=epoch: sealed_epoch_of(checkpoints_in(tmp_path)[-1]) == n)
    start = tuple(map(str, checkpoints_in(tmp_path)))
    again = slot(search("contrastive", epochs=5), replace(saving, start=start, epoch=1))
    for expected in results[1:]:
        assert {**again.step()["metrics"], "seconds": 0} == {**expected["metrics"], "seconds": 0}
    fresh = slot(search("contrastive", epochs=5), replace(saving, start=start, epoch=0))
    assert fresh.step()["epoch"] == 1, "none is on record: it starts over"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the slot, in a list so that a test can move it."""
    now = [1000.0]
    monkeypatch.setattr(trainables.workers.slot.time, "monotonic", lambda: now[0])
    return now


def test_a_trial_is_saved_before_more_than_its_seconds_could_be_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: list[float]
) -> None:
    """Epochs take 10 s and a checkpoint 3 s until it is on the disk, so one is begun at 10 s before
    the 17th second: whatever is killed, whenever, costs at most 30 s.
    """
    epochs, real = saves(monkeypatch), Worker.step

    def step(self: Worker) -> dict[str, Any]:
        clock[0] += 10
        return real(self) | {"saver": SaveProgress(seconds=3.0)}

    monkeypatch.setattr(Worker, "step", step)
    here = slot(search("contrastive", epochs=9), Saving(str(tmp_path), 30))
    while not here.step()["done"]:
        pass
    assert epochs == [2, 4, 6, 8]


def test_epochs_longer_than_that_are_all_saved_unless_the_disk_is_slower_still(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: list[float]
) -> None:
    epochs, real, busy = saves(monkeypatch), Worker.step, iter([False, True, True, False, False])

    def step(self: Worker) -> dict[str, Any]:
        clock[0] += 100
        return real(self) | {"saver": SaveProgress(is_busy=next(busy))}

    monkeypatch.setattr(Worker, "step", step)
    here = slot(search("contrastive", epochs=5), Saving(str(tmp_path), 30))
    while not here.step()["done"]:
        pass
    assert epochs == [1, 4]


def test_a_trial_is_saved_before_it_reads_test_classes_and_a_short_one_not_in_between(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    epochs = saves(monkeypatch)
    here = slot(final("contrastive"), Saving(str(tmp_path), 3600))
    while not here.step()["done"]:
        pass
    assert epochs == [EPOCHS]


def test_a_checkpoint_that_could_not_be_written_fails_the_next_step_and_names_the_disk(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(HashingFile, "_write", full)
    here = slot(search("contrastive", epochs=9), Saving(str(tmp_path), 1e-9))
    assert here.step()["epoch"] == 1
    assert isinstance(here.worker, Worker)
    await_that(lambda: here.worker.saver.progress().error is not None)
    assert here.step()["epoch"] == 2, "an epoch that is there is reported"
    with pytest.raises(OSError, match=r"No space left on device: '.*saved_000001 on "):
        here.step()


def test_an_untrained_network_is_scored_without_an_epoch() -> None:
    spec = final("contrastive", epochs=0)
    untrained = replace(
        spec, cell=Cell("sketches", "tiny", 16, UNTRAINED, "none"), rule="untrained", setting={}
    )
    here = slot(untrained)
    assert here.step()["reads"] == [("0", "untrained")]
    result = here.step()
    assert result["done"]
    assert result["epoch"] == 0
    assert result["metrics"]["test/recall_at_1"] > 0


def test_a_trial_that_cannot_be_built_fails_in_its_step_where_it_is_retried(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = slot(search("contrastive"))
    monkeypatch.setattr(Worker, "build", lambda self: 1 / 0)
    assert here.reset_config(given(search("triplet")))
    with pytest.raises(ZeroDivisionError):
        here.step()


def test_other_data_than_the_driver_saw_are_refused() -> None:
    here = slot(replace(search("contrastive"), fingerprint="0123"))
    with pytest.raises(WrongNode, match="not those that the study was started with"):
        here.step()


def test_other_code_than_the_drivers_is_refused() -> None:
    code = shared_code("contrastive", "tiny")
    assert slot(replace(search("contrastive"), code=code)).step()["epoch"] == 1
    here = slot(replace(search("contrastive"), code=code | {"torch": "9.9", "timm": "1.0"}))
    with pytest.raises(
        WrongNode,
        match=(
            r"but .* has torch \S+ in place of 9\.9, timm None in place of 1\.0; install it "
            r"there"
        ),
    ):
        here.step()


@pytest.mark.parametrize(
    ("probe", "says"),
    [
        (None, "unexpected pos"),
        (28, "No space left on device: '.* on "),
        (30, "Read-only file system: '"),
    ],
)
def test_a_save_that_fails_says_whether_the_disk_was_full_and_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: int | None, says: str
) -> None:
    """torch itself says "unexpected pos" on a full disk."""
    place = tmp_path / "temporary"
    here = slot(search("contrastive"), Saving(str(place), 3600))
    here.step()

    def half(folder: Path, saved: object) -> None:
        folder.mkdir(parents=True)
        (folder / "state.pt").write_text("half")
        raise RuntimeError("unexpected pos 704 vs 598")

    def full(path: Path, data: bytes) -> int:
        raise OSError(probe, os.strerror(probe or 0))

    monkeypatch.setattr(trainables.workers.slot, "write_outputs", half)
    if probe:
        monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises((RuntimeError, OSError), match=says):
        here.save_checkpoint("")
    assert not list(place.iterdir()), "half of the files do not fill the disk"
