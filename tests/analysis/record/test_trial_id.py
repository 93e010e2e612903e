"""A trial's identity is spelt in one way, and read back."""

from __future__ import annotations

from typing import get_args

import pytest

from analysis.record.trial_id import Role, TrialId
from trainables.contract import Cell

CELLS = [
    Cell("cub200", "resnet50", 128, "multi_similarity", "fixed_validation:0.3"),
    Cell("sop", "timm:vit-base/16-224.x", 64, "my.own-losses:Loss@tag-2", "k_fold:4"),
    Cell("sketches", "pixels", 0, "untrained", "none"),
]


@pytest.mark.parametrize("cell", CELLS, ids=str)
@pytest.mark.parametrize("role", get_args(Role))
@pytest.mark.parametrize(("replicate", "turn"), [(1, 1), (1, 3), (2, 1), (12, 3)])
def test_every_identity_is_read_back(cell: Cell, role: Role, replicate: int, turn: int) -> None:
    trial = TrialId(cell, role, 12, replicate=replicate, round=turn)
    assert TrialId.parse(str(trial)) == trial


@pytest.mark.parametrize("text", ["", "cub200", "a/b-1/c/d/best-1", "a/b-x/c/d/final-1"])
def test_what_names_no_trial_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="does not name a trial"):
        TrialId.parse(text)


def test_names_say_role_number_replicate_and_round() -> None:
    final = TrialId(CELLS[0], "final", 2, replicate=3, round=2)
    assert final.name == "final-2-replicate3-round2"
    assert final.refit().name == "refit-2-replicate3-round2"
    assert TrialId(CELLS[0], "search", 0, replicate=2).is_published_setting
    assert TrialId(CELLS[0], "published", 1).refit().name == "published_refit-1"
    assert TrialId(CELLS[0], "search", 0).is_published_setting
    assert not TrialId(CELLS[0], "final", 0).is_published_setting


def test_folders_of_different_trials_are_different_and_plain() -> None:
    folders = {TrialId(cell, "final", n).folder for cell in CELLS for n in (1, 2)}
    assert len(folders) == 6
    assert not any(set(folder) & set("/: ") for folder in folders)


def test_a_folder_is_spelt_as_it_always_was() -> None:
    cell = Cell("sketches", "tiny", 16, "margin@mine", "fixed_validation:0.2")
    spelt = "sketches-tiny-16-margin@mine-fixed_validation-0.2-search-3"
    assert TrialId(cell, "search", 3).folder == spelt
