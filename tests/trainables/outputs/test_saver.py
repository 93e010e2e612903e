"""A trial is saved as it is at that moment, while its training goes on."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.pretend_gpu import pretend_gpu
from tests.support.specs import search
from tests.support.waiting import await_that
from trainables.inputs.features import load_data
from trainables.outputs.checkpoints import (
    CheckpointPart,
    HashingFile,
    checkpoints_in,
    epoch_of,
    new_checkpoint,
    read_checkpoint,
)
from trainables.outputs.saver import HostCopy, SaveProgress, Saver
from trainables.training.learner import Learner
from trainables.workers.worker import checkpoint_part


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """A disk that takes nothing until the event is set."""
    opened, real = threading.Event(), HashingFile._write

    def wait(file: HashingFile, chunk: Any) -> None:
        assert opened.wait(60)
        real(file, chunk)

    monkeypatch.setattr(HashingFile, "_write", wait)
    yield opened
    opened.set()


def finish(saver: Saver) -> None:
    await_that(lambda: not saver.progress().is_busy)


def part(epoch: int, value: float = 1.0) -> CheckpointPart:
    network = {"weight": torch.full((4,), value)}
    best = [(0.5, max(1, epoch - 1))]
    return CheckpointPart(0, 1, {0: {"network": network}}, {0: network}, best, [{}] * epoch)


def test_what_is_written_is_the_state_of_its_moment_although_training_goes_on(
    tmp_path: Path, gate: threading.Event
) -> None:
    learner = Learner(spec := search("proxy_anchor", epochs=3), load_data(spec))
    learner.epoch()
    saver, folder = Saver(), new_checkpoint(tmp_path)
    saved = checkpoint_part(learner)
    assert saved is not None
    saver.save(folder, saved)
    later = [learner.epoch(), learner.epoch()]  # before a byte is on the disk
    assert saver.progress().is_busy
    gate.set()
    finish(saver)
    again = Learner(spec, load_data(spec))
    again.load(read_checkpoint(folder, [0]))
    assert len(again.rows) == 1
    rows = [again.epoch(), again.epoch()]
    assert [(row.loss, row.select) for row in rows] == [(row.loss, row.select) for row in later]


def test_the_best_weights_are_those_of_their_epoch_whatever_the_network_becomes(
    tmp_path: Path,
) -> None:
    learner = Learner(spec := search("contrastive", epochs=4), load_data(spec))
    saver = Saver()
    for _ in range(4):
        learner.epoch()
        saved = checkpoint_part(learner)
        assert saved is not None
        saver.save(folder := new_checkpoint(tmp_path), saved)
        finish(saver)
        state = read_checkpoint(folder, [0])
        torch.testing.assert_close(state["folds"][0]["weights"], learner.weights[0], rtol=0, atol=0)
        assert [tuple(best) for best in state["best"]] == learner.best


def test_memory_is_used_again_from_save_to_save() -> None:
    host, state = HostCopy(), {"a": [torch.zeros(3), 2, None], "b": {0: torch.ones(2)}}
    first, event = host.take(state)
    assert event is None, "nothing comes from a GPU"
    where = first["a"][0].data_ptr()
    state["a"][0].fill_(7)
    assert first["a"][0].tolist() == [0, 0, 0]
    second, _ = host.take(state)
    assert (second["a"][0].data_ptr(), second["a"][0].tolist()) == (where, [7, 7, 7])
    assert second["a"][1:] == [2, None]
    assert host.take({"a": [torch.zeros(5)]})[0]["a"][0].shape == (5,)
    assert len(host.buffers) == 1, "what the next trial does not have is freed"


def test_a_copy_lies_in_memory_as_the_original_does() -> None:
    """A fused optimiser steps through weights and moments side by side, and asks no strides."""
    state = {"a": torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)}
    copy, _ = HostCopy().take(state)
    assert copy["a"].stride() == state["a"].stride()
    assert torch.equal(copy["a"], state["a"])


def test_from_a_gpu_it_is_copied_into_pinned_memory_and_the_host_waits_for_nothing() -> None:
    with pretend_gpu() as gpu:
        state = {"a": torch.arange(6.0, device="cuda"), "step": torch.tensor(3.0)}
        gpu.syncs.clear()
        host = HostCopy()
        copy, event = host.take(state)
        assert not gpu.syncs
        assert gpu.is_pinned(copy["a"])
        assert not gpu.is_pinned(copy["step"])
        assert event is not None
        event.synchronize()
        state["a"].fill_(9)
        assert (copy["a"].device.type, copy["a"].tolist()) == ("cpu", [0, 1, 2, 3, 4, 5])
        again, _ = host.take(state)
        assert again["a"].data_ptr() == copy["a"].data_ptr(), "pinned memory is used again"


def test_a_disk_that_is_full_is_told_by_the_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(HashingFile, "_write", full)
    saver = Saver()
    saver.save(new_checkpoint(tmp_path), part(1))
    finish(saver)
    assert "No space left on device: '" in str(saver.progress().error)
    saver.forget()
    assert saver.progress() == SaveProgress()


def test_a_trial_that_is_over_is_not_written_to_its_end(
    tmp_path: Path, gate: threading.Event
) -> None:
    saver, folder = Saver(), new_checkpoint(tmp_path)
    saver.save(folder, part(1))
    threading.Timer(0.1, gate.set).start()
    saver.forget()
    assert epoch_of(folder) is None
    assert saver.progress() == SaveProgress()
    saver.save(other := new_checkpoint(tmp_path), part(2))
    finish(saver)
    assert epoch_of(other) == 2


def test_a_folder_that_was_removed_is_no_error(tmp_path: Path, gate: threading.Event) -> None:
    """The driver removes what an ended trial saved, while its slot may still write."""
    saver, folder = Saver(), new_checkpoint(tmp_path / "trial")
    saver.save(folder, part(1))
    (tmp_path / "trial").rename(tmp_path / "gone")
    gate.set()
    finish(saver)
    assert saver.progress().error is None
    assert not checkpoints_in(tmp_path / "trial")


def test_a_group_is_as_far_as_its_slowest_rank() -> None:
    full = OSError(errno.ENOSPC, "full")
    ranks = [SaveProgress(False, 1.0), SaveProgress(True, 3.0), SaveProgress(False, 2.0, full)]
    assert SaveProgress.of_all(ranks) == SaveProgress(True, 3.0, full)
    assert SaveProgress.of_all(ranks[:1]) == SaveProgress(False, 1.0)
