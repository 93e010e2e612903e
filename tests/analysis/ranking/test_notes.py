"""The sentence about the interval names the variation that it contains, and no other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from analysis.ranking.comparisons import comparisons
from analysis.ranking.notes import AVERAGED, ONE_SEARCH, SOME_ALONE, notes, validation_notes
from analysis.ranking.ranking import rankings
from analysis.ranking.readings import unit_of
from tests.support.synthetic_study import (
    FOLDS,
    HITS,
    RATIO,
    SyntheticTrial,
    final,
    rows_of,
    spec,
)


def said(*made: SyntheticTrial, **columns: str) -> str:
    rows = rows_of(list(made))
    (comparison,) = comparisons(rows.trials)
    unit = unit_of(rows.trials)
    return " ".join(notes(comparison.trained(rows.finals).assign(**columns), unit=unit))


def finals(protocol: str, role: str = "final") -> list[SyntheticTrial]:
    return [final("triplet", protocol, role, seed) for seed in (1, 2)]


def replicates(protocol: str, *, split: bool = True, **changes: Any) -> list[SyntheticTrial]:
    return [
        final("triplet", protocol, "final", 1, replicate=each, **changes)
        if not split
        else final("triplet", protocol, "final", 1, replicate=each, split=f"{each}", **changes)
        for each in (1, 2, 3)
    ]


def test_with_several_replicates_the_interval_contains_splits_searches_and_weights() -> None:
    text = said(*replicates(RATIO))
    assert (
        "95% interval; it contains how test classes, splits, searches and initial weights vary, "
        "over 3 replicates." in text
    )
    assert ONE_SEARCH not in text
    assert AVERAGED not in text


def test_a_replicate_of_the_default_setup_has_only_what_it_repeats() -> None:
    text = said(*replicates(RATIO), *replicates("default", split=False, tuned=False))
    assert (
        f"Under {RATIO} it contains how test classes, splits, searches and initial weights vary, "
        "over 3 replicates. Under default it contains how test classes and initial weights vary, "
        "over 3 replicates." in text
    )


def test_with_one_split_for_all_replicates_splits_are_not_repeated() -> None:
    text = said(*replicates(RATIO, split=False))
    assert "how test classes, searches and initial weights vary, over 3 replicates" in text
    assert "all of them have the same split, so splits are not repeated." in text


def test_without_a_search_none_is_repeated() -> None:
    assert "how test classes, splits and initial weights vary" in said(
        *replicates(RATIO, tuned=False)
    )


def test_reproductions_of_a_replicate_are_averaged_and_are_no_replicates() -> None:
    again = [replace(one, number=2) for one in replicates(RATIO)]
    text = said(*replicates(RATIO), *again)
    assert "over 3 replicates" in text
    assert AVERAGED in text


@pytest.mark.parametrize("count", [1, 2])
def test_with_one_search_one_sentence_says_what_the_interval_lacks(count: int) -> None:
    text = said(*finals(RATIO)[:count])
    assert text.count(ONE_SEARCH) == 1
    if count == 1:
        assert "it contains how test classes vary: there is one seed." in text
    else:
        assert "the 2 seeds of one search and one split count as replicates" in text


def test_one_finished_replicate_of_several_is_one_search_and_some_of_them_are_told() -> None:
    first, *rest = replicates(RATIO)
    text = said(first, *(replace(one, status="FAILED") for one in rest))
    assert "there is one replicate." in text
    assert ONE_SEARCH in text
    other = replace(first, loss="contrastive")
    text = said(first, *rest, other)
    assert "over 1 to 3 replicates" in text
    assert SOME_ALONE in text
    assert ONE_SEARCH not in text


def test_two_losses_with_a_split_each_are_not_two_splits_of_one() -> None:
    made = [replace(one, split="a") for one in replicates(RATIO)]
    made += [replace(one, split="b", loss="contrastive") for one in made]
    assert "splits are not repeated" in said(*made)


def test_a_refit_has_its_own_split_and_is_no_second_one() -> None:
    made = replicates(RATIO, split=False)
    made += [final("triplet", RATIO, "refit", 1, replicate=each, split="all") for each in (1, 2, 3)]
    text = said(*made)
    assert "splits are not repeated" in text
    assert "Refit: trained anew on all train classes" in text


def test_folds_share_the_train_classes() -> None:
    text = said(*finals(FOLDS))
    assert (
        "The models of the 2 folds share most train classes: they are averaged, not counted as "
        "replicates." in text
    )
    assert "(separated); concatenated" in text


def test_without_a_search_a_single_replicate_holds_its_split_fixed() -> None:
    assert "the 2 seeds of one split count as replicates" in said(
        *(replace(one, tuned=False) for one in finals(RATIO))
    )


@pytest.mark.parametrize(("held", "warned"), [(2, True), (9, True), (10, False)])
def test_few_validation_classes_are_the_first_note(held: int, warned: bool) -> None:
    split = {"train": list(range(50)), "select": list(range(50, 50 + held)), "test": [99]}
    yaml = {**spec(RATIO), "splits": [split]}
    made = [replace(one, trial_yaml=yaml) for one in finals(RATIO)]
    (ranking,) = rankings(rows_of([*made, *finals("default")]))
    assert bool(ranking.warnings) == warned
    if warned:
        assert ranking.notes[0] == ranking.warnings[0]
        assert f"WARNING: {RATIO} chose on {held} classes of sketches" in ranking.notes[0]


@pytest.mark.parametrize(("recall", "warned"), [(0.99, True), (0.97, False)])
def test_saturated_validation_is_warned_of(recall: float, warned: bool) -> None:
    frame = pd.DataFrame(
        {
            "cell": ["a", "b", "c"],
            "protocol": RATIO,
            "dataset": "photos",
            "rule": "selected-on-validation",
            "peeks": [False, False, True],
            "select/recall_at_1": [recall, recall, 0.3],
        }
    )
    found = validation_notes(frame, {})
    assert bool(found) == warned
    if warned:
        assert found[0].startswith("WARNING: validation is saturated: half of all trials under")
        assert "99.0% or more on the held-out classes of photos" in found[0]


@pytest.mark.parametrize(
    ("tuned", "picked"),
    [(True, "its setting, its epoch or both were picked"), (False, "its epoch was picked")],
)
def test_the_mark_says_what_test_feedback_chose(tuned: bool, picked: str) -> None:
    assert picked in said(*(replace(one, tuned=tuned) for one in finals("default")))


@pytest.mark.parametrize(
    ("role", "kept"), [("final", "best"), ("published", "best"), ("refit", "last")]
)
def test_diverged_trials_are_told_by_what_they_were(role: str, kept: str) -> None:
    assert (RATIO, role) in HITS
    text = said(*finals(RATIO, role), outcome="diverged")
    assert (
        f"2 of the {role} trials of triplet under {RATIO} diverged; they count with their {kept} "
        f"epoch before that." in text
    )


def test_the_last_epoch_of_a_diverged_trial_is_told_to_be_that_of_its_breakdown() -> None:
    both = finals(RATIO)
    rows = rows_of(both)
    (comparison,) = comparisons(rows.trials)
    trials = comparison.trained(rows.finals).assign(
        outcome=["diverged", "finished"], **{"last/recall_at_1": 0.0}
    )
    text = " ".join(notes(trials, unit="seed"))
    broke = (
        f"1 of the final trials of triplet under {RATIO} diverged; they count with their best "
        "epoch before that"
    )
    assert f"{broke}, and at the last epoch with the weights with which they broke down." in text
    assert f"{broke}." in " ".join(notes(trials.drop(columns="last/recall_at_1"), unit="seed"))


def test_a_study_from_before_trials_told_more_still_has_its_notes() -> None:
    rows = rows_of(finals(RATIO))
    old = rows.finals.drop(columns=["tuned", "split"])
    assert isinstance(old, pd.DataFrame)
    assert "the 2 seeds of one split count as replicates" in " ".join(notes(old, unit="seed"))


@pytest.mark.parametrize("lost", [1, 3])
def test_searches_that_chose_nothing_are_counted(lost: int) -> None:
    made = [
        replace(one, tuned=one.replicate > lost, loss="contrastive") for one in replicates(RATIO)
    ]
    made += [replace(one, role="search", number=0, queries={}) for one in made]
    (ranking,) = rankings(rows_of(made))
    told = f"contrastive under {RATIO}: in {lost} of 3 searches no search trial had a score"
    assert any(note.startswith(told) for note in ranking.notes)
    number = ranking.rows[0].validation["recall_at_1"]
    assert number.setting == ("published" if lost == 3 else "tuned")
