"""A slot serves trial after trial; Tune's own Trainable, without a cluster."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from trainables_helpers import TRAINING, final, search

from trainables.contract import ARTIFACTS, UNTRAINED, Cell, TrialSpec
from trainables.slot import Slot
from trainables.worker import Worker

EPOCHS = TRAINING.epochs


def slot(spec: TrialSpec) -> Slot:
    return Slot({"spec": spec.as_dict()})


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
    assert (result["done"], result["out_of_memory"], result["diverged"], result["score"]) == (True, True, False, 0.0)


def test_only_the_last_step_of_a_final_trial_reads_the_test_classes() -> None:
    here = slot(final("contrastive"))
    results = [here.step() for _ in range(EPOCHS)]
    assert ["test/recall_at_1" in result["metrics"] for result in results] == [False] * (len(results) - 1) + [True]


def test_a_reset_slot_gives_what_a_fresh_one_gives(tmp_path: Path) -> None:
    used = slot(search("triplet"))
    used.step()
    assert used.reset_config({"spec": search("proxy_anchor").as_dict()})
    fresh = slot(search("proxy_anchor"))
    for _ in range(2):
        ours, theirs = used.step(), fresh.step()
        assert {**ours["metrics"], "seconds": 0} == {**theirs["metrics"], "seconds": 0}


def test_a_restored_slot_goes_on_and_a_finished_one_tells_its_last_row_again(tmp_path: Path) -> None:
    whole, part = slot(final("contrastive")), slot(final("contrastive"))
    results = [whole.step() for _ in range(EPOCHS)]
    whole.save_checkpoint(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"state.pt", "seal.json", *ARTIFACTS[:2]}
    part.load_checkpoint(str(tmp_path))
    again = part.step()
    assert again["done"]
    assert (again["epoch"], again["score"]) == (results[-1]["epoch"], results[-1]["score"])
    assert again["metrics"]["test/recall_at_1"] == results[-1]["metrics"]["test/recall_at_1"]


def test_an_untrained_network_is_scored_in_one_step() -> None:
    spec = final("contrastive", epochs=0)
    untrained = replace(spec, cell=Cell("sketches", "tiny", 16, UNTRAINED, "none"), rule="untrained", setting={})
    result = slot(untrained).step()
    assert result["done"]
    assert result["epoch"] == 0
    assert result["metrics"]["test/recall_at_1"] > 0


def test_a_trial_that_cannot_be_built_fails_in_its_step_where_it_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    here = slot(search("contrastive"))
    monkeypatch.setattr(Worker, "build", lambda self: 1 / 0)
    assert here.reset_config({"spec": search("triplet").as_dict()})
    with pytest.raises(ZeroDivisionError):
        here.step()


def test_other_data_than_the_driver_saw_are_refused() -> None:
    here = slot(replace(search("contrastive"), fingerprint="0123"))
    with pytest.raises(ValueError, match="not those that the study was started with"):
        here.step()
