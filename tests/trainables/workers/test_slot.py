"""A slot serves trial after trial, as Tune's own Trainable, without a cluster."""

from __future__ import annotations

import math
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import trainables.workers.slot
from tests.support.specs import TRAINING, final, search
from trainables.contract import ARTIFACTS, UNTRAINED, Cell, Outputs, TrialSpec, WrongNode
from trainables.outputs.artifacts import epoch_of
from trainables.training import fit
from trainables.workers.slot import Slot
from trainables.workers.versions import shared_code
from trainables.workers.worker import Worker

EPOCHS = TRAINING.epochs


def slot(spec: TrialSpec) -> Slot:
    return Slot({"spec": spec})


def test_a_step_is_an_epoch_and_the_last_one_says_done() -> None:
    here = slot(search("contrastive"))
    results = [here.step() for _ in range(EPOCHS)]
    assert [result["epoch"] for result in results] == list(range(1, len(results) + 1))
    assert [result["done"] for result in results] == [False] * (len(results) - 1) + [True]
    assert not [name for name in results[-1]["metrics"] if name.startswith("test/")]


def test_a_search_trial_out_of_memory_is_done_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError

    here = slot(search("contrastive"))
    assert not here.step()["out_of_memory"]
    monkeypatch.setattr(here.worker.learner.fits[0], "train_epoch", exhausted)
    result = here.step()
    assert (result["done"], result["out_of_memory"], result["diverged"], result["score"]) == (
        True,
        True,
        False,
        0.0,
    )


def test_a_final_trial_says_what_it_will_read_and_reads_in_the_step_after() -> None:
    here = slot(replace(final("contrastive"), outputs=Outputs(last=True, embeddings=False)))
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
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = slot(final("contrastive"))
    here.step()
    monkeypatch.setattr(here.worker.learner.fits[0], "train_epoch", lambda number: math.nan)
    lost = here.step()
    assert (lost["diverged"], lost["done"], lost["reads"]) == (
        True,
        False,
        [("1", "selected-on-validation")],
    )
    assert here.step()["done"]


@pytest.mark.parametrize("place", ["_build_network", "_build_objective"])
def test_a_search_trial_too_large_to_be_built_is_done_and_a_final_one_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(fit, place, exhausted)
    here = slot(search("contrastive"))
    result = here.step()
    assert (result["epoch"], result["done"], result["out_of_memory"], result["score"]) == (
        1,
        True,
        True,
        0.0,
    )
    here.save_checkpoint(str(tmp_path))
    assert epoch_of(tmp_path) == 1
    with pytest.raises(torch.OutOfMemoryError):
        slot(final("contrastive")).step()


def test_a_search_trial_that_has_no_room_for_its_best_weights_is_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError

    here = slot(search("contrastive"))
    here.step()
    monkeypatch.setattr(here.worker.learner, "_keep_best", exhausted)
    result = here.step()
    assert (result["epoch"], result["done"], result["out_of_memory"], result["score"]) == (
        2,
        True,
        True,
        0.0,
    )
    here.save_checkpoint(str(tmp_path))
    assert epoch_of(tmp_path) == 2
    again = slot(search("contrastive"))
    again.load_checkpoint(str(tmp_path))
    assert again.step()["out_of_memory"]  # the result of before


def test_a_reset_slot_gives_what_a_fresh_one_gives(tmp_path: Path) -> None:
    used = slot(search("triplet"))
    used.step()
    assert used.reset_config({"spec": search("proxy_anchor")})
    fresh = slot(search("proxy_anchor"))
    for _ in range(2):
        ours, theirs = used.step(), fresh.step()
        assert {**ours["metrics"], "seconds": 0} == {**theirs["metrics"], "seconds": 0}


def test_a_restored_slot_goes_on_and_a_finished_one_tells_its_last_row_again(
    tmp_path: Path,
) -> None:
    whole, part = slot(final("contrastive")), slot(final("contrastive"))
    results = [whole.step() for _ in range(EPOCHS + 1)]
    whole.save_checkpoint(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"state.pt", "seal.json", *ARTIFACTS[:2]}
    part.load_checkpoint(str(tmp_path))
    assert part.step()["reads"]  # it will read them again, and says so
    again = part.step()
    assert again["done"]
    assert (again["epoch"], again["score"]) == (results[-1]["epoch"], results[-1]["score"])
    assert again["metrics"]["test/recall_at_1"] == results[-1]["metrics"]["test/recall_at_1"]


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
    assert here.reset_config({"spec": search("triplet")})
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
    here = slot(search("contrastive"))
    here.step()

    def half(folder: Path, saved: object) -> None:
        (folder / "state.pt").write_text("half")
        raise RuntimeError("unexpected pos 704 vs 598")

    def full(path: Path, data: bytes) -> int:
        raise OSError(probe, os.strerror(probe or 0))

    monkeypatch.setattr(trainables.workers.slot, "write_checkpoint", half)
    if probe:
        monkeypatch.setattr(Path, "write_bytes", full)
    place = tmp_path / "temporary"
    place.mkdir()
    with pytest.raises((RuntimeError, OSError), match=says):
        here.save_checkpoint(str(place))
    assert not place.exists(), "half a checkpoint does not fill the disk"
