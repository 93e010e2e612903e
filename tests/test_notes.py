"""The sentence about the interval names the variation that it contains, and no other."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from analysis.notes import notes
from analysis.places import places
from tests.support.made import FOLDS, HITS, RATIO, Made, final, rows_of

FIXED, RESPLIT = "the split and the searched setting are held fixed.", "each seed has a split of its own"


def said(*made: Made, **columns: str) -> str:
    rows = rows_of(list(made))
    (place,) = places(rows.trials)
    return " ".join(notes(place.trained(rows.finals).assign(**columns)))


def finals(protocol: str, role: str = "final") -> list[Made]:
    return [final("triplet", protocol, role, seed) for seed in (1, 2)]


def test_with_a_split_for_every_seed_the_interval_contains_that() -> None:
    text = said(*finals(RATIO), *finals("default"))
    assert RESPLIT in text
    assert "the searched setting is held fixed" in text
    assert "the split and" not in text


def test_with_one_split_it_is_held_fixed() -> None:
    text = said(*(replace(one, split="one") for one in finals(RATIO)))
    assert FIXED in text
    assert RESPLIT not in text
    assert "folds" not in text


def test_two_losses_with_a_split_each_are_not_two_splits_of_one() -> None:
    made = [replace(one, split="a") for one in finals(RATIO)] + [replace(one, split="b", loss="contrastive") for one in finals(RATIO)]
    assert FIXED in said(*made)


def test_a_refit_has_its_own_split_and_is_no_second_one() -> None:
    made = [replace(one, split="one") for one in finals(RATIO)] + [replace(one, split="all") for one in finals(RATIO, "refit")]
    text = said(*made)
    assert FIXED in text
    assert "Refit: trained anew on all train classes" in text


def test_folds_share_the_train_classes() -> None:
    text = said(*finals(FOLDS))
    assert FIXED in text
    assert "The models of the 2 folds share most train classes: they are averaged, not resampled." in text
    assert "(separated); concatenated" in text


def test_without_a_search_no_setting_was_searched() -> None:
    assert "the split and the setting are held fixed" in said(*(replace(one, split="one", tuned=False) for one in finals(RATIO)))


@pytest.mark.parametrize(("tuned", "picked"), [(True, "its setting, its epoch or both were picked"), (False, "its epoch was picked")])
def test_the_mark_says_what_test_feedback_chose(tuned: bool, picked: str) -> None:
    assert picked in said(*(replace(one, tuned=tuned) for one in finals("default")))


@pytest.mark.parametrize(("role", "kept"), [("final", "best"), ("published", "best"), ("refit", "last")])
def test_diverged_trials_are_told_by_what_they_were(role: str, kept: str) -> None:
    assert (RATIO, role) in HITS
    text = said(*finals(RATIO, role), outcome="diverged")
    assert f"2 of the {role} trials of triplet under {RATIO} diverged; they count with their {kept} epoch before that." in text


def test_the_last_epoch_of_a_diverged_trial_is_told_to_be_that_of_its_breakdown() -> None:
    both = finals(RATIO)
    rows = rows_of(both)
    (place,) = places(rows.trials)
    trials = place.trained(rows.finals).assign(outcome=["diverged", "finished"], **{"last/recall_at_1": 0.0})
    text = " ".join(notes(trials))
    broke = f"1 of the final trials of triplet under {RATIO} diverged; they count with their best epoch before that"
    assert f"{broke}, and at the last epoch with the weights with which they broke down." in text
    assert f"{broke}." in " ".join(notes(trials.drop(columns="last/recall_at_1")))


@pytest.mark.parametrize(("seeds", "told"), [(1, "hold no variation"), (2, "too narrow"), (3, "too narrow"), (7, "too narrow"), (8, "")])
def test_of_few_seeds_the_intervals_are_told_to_be_too_narrow(seeds: int, told: str) -> None:
    text = said(*(final("triplet", RATIO, "final", seed) for seed in range(seeds)))
    assert told in text
    assert ("too narrow" in text) == (2 <= seeds < 8)


def test_a_study_from_before_trials_told_more_still_has_its_notes() -> None:
    rows = rows_of(finals(RATIO))
    old = rows.finals.drop(columns=["tuned", "split"])
    assert isinstance(old, pd.DataFrame)
    assert "the split and the setting are held fixed" in " ".join(notes(old))
