"""Laws over every protocol."""

import re
import subprocess
import sys

import pytest

from study.config.protocols import (
    PROTOCOLS,
    ClosedSet,
    Default,
    FixedValidation,
    KFold,
    StudyProtocol,
    check_splits,
    find_protocol,
    make_protocol,
)
from tests.support import ROOT
from trainables.contract import LawError, Split

TRAIN, TEST = tuple(range(50)), tuple(range(50, 100))
EXAMPLES: dict[str, StudyProtocol] = {
    "default": Default(),
    "fixed_validation": FixedValidation(val_fraction=0.1, split_seed=3),
    "k_fold": KFold(folds=4, fold_order="shuffled", split_seed=3),
    "closed_set": ClosedSet(train_share=0.5),
}
KEYS = {"val_fraction": 0.1, "split_seed": 0, "folds": 4, "fold_order": "shuffled"}


def test_every_protocol_has_an_example() -> None:
    assert EXAMPLES.keys() == PROTOCOLS.keys()


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_train_and_select_classes_are_disjoint(name: str) -> None:
    for split in EXAMPLES[name].splits(TRAIN, TEST):
        assert not set(split.train) & set(split.select)
        assert not set(split.train) & set(split.test)


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_all_splits_share_the_test_classes(name: str) -> None:
    assert {split.test for split in EXAMPLES[name].splits(TRAIN, TEST)} == {TEST}


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_sealed_split_has_no_test_classes_and_one_that_selects_on_them_cannot_be_sealed(
    name: str,
) -> None:
    for split in EXAMPLES[name].splits(TRAIN, TEST):
        if EXAMPLES[name].rule == "best-on-test":
            with pytest.raises(LawError, match="who selects on test classes peeks"):
                split.sealed()
        else:
            assert split.sealed().test == ()
            assert not set(split.sealed().select) & set(TEST)


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_protocol_says_it_peeks_exactly_when_it_selects_on_test_classes(name: str) -> None:
    protocol = EXAMPLES[name]
    touches = any(set(split.select) & set(TEST) for split in protocol.splits(TRAIN, TEST))
    assert touches == (protocol.rule == "best-on-test")


def test_only_the_closed_set_may_hold_nothing_out() -> None:
    nothing = (Split(TRAIN, (), TEST),)
    check_splits(nothing, TRAIN, TEST, rule=ClosedSet.rule)
    for name, protocol in EXAMPLES.items():
        if name != "closed_set":
            with pytest.raises(LawError, match="two classes on every side"):
                check_splits(nothing, TRAIN, TEST, rule=protocol.rule)


def test_fixed_validation_covers_the_train_classes_and_nothing_else() -> None:
    (split,) = EXAMPLES["fixed_validation"].splits(TRAIN, TEST)
    assert sorted(split.train + split.select) == list(TRAIN)
    assert len(split.select) == 5


def test_the_split_depends_on_its_seed_alone() -> None:
    one, same, other = (FixedValidation(0.2, seed).splits(TRAIN, TEST) for seed in (0, 0, 1))
    assert one == same != other


@pytest.mark.parametrize("fraction", [0.001, 0.02, 0.04])
def test_two_classes_at_least_are_held_out(fraction: float) -> None:
    (split,) = FixedValidation(fraction, 0).splits(TRAIN, TEST)
    assert len(split.select) == 2


@pytest.mark.parametrize("fraction", [0.98, 0.999])
def test_fewer_than_two_classes_to_train_on_are_refused_with_the_cure(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"two must be left to train on; choose 0.96 or less"):
        FixedValidation(fraction, 0).splits(TRAIN, TEST)
    assert len(FixedValidation(0.96, 0).splits(TRAIN, TEST)[0].train) == 2


def test_three_train_classes_are_too_few_for_any_fraction() -> None:
    with pytest.raises(
        ValueError,
        match=r"holds out 2 of 3 train classes, but two must be left to train on; add classes",
    ):
        FixedValidation(0.1, 0).splits((0, 1, 2), (3, 4))


@pytest.mark.parametrize("order", ["shuffled", "consecutive"])
@pytest.mark.parametrize("folds", [2, 3, 4, 10, 25])
def test_k_folds_hold_every_train_class_out_exactly_once_and_differ_by_one_class_at_most(
    folds: int, order: str
) -> None:
    splits = KFold(folds, order, 0).splits(TRAIN, TEST)
    assert len(splits) == folds
    assert sorted(c for split in splits for c in split.select) == list(TRAIN)
    assert all(sorted(split.train + split.select) == list(TRAIN) for split in splits)
    sizes = [len(split.select) for split in splits]
    assert max(sizes) - min(sizes) <= 1


def test_consecutive_folds_are_runs_of_classes_and_shuffled_ones_depend_on_their_seed() -> None:
    first, *_ = KFold(4, "consecutive", 0).splits(range(100), range(100, 200))
    assert first.select == tuple(range(25))
    one, same, other = (KFold(4, "shuffled", seed).splits(TRAIN, TEST) for seed in (0, 0, 1))
    assert one == same != other
    assert KFold(4, "consecutive", 0).splits(TRAIN, TEST) == KFold(4, "consecutive", 1).splits(
        TRAIN, TEST
    )


@pytest.mark.parametrize(
    ("folds", "classes", "sentence"),
    [
        (
            4,
            6,
            "Each of 4 folds holds out two classes at least, but there are 6 train classes; use 3 "
            "or fewer.",
        ),
        (1, 50, "use two or more, of four classes or more"),
        (2, 3, "but there are 3 train classes; use two or more, of four classes or more"),
    ],
)
def test_folds_that_the_classes_do_not_fill_are_refused(
    folds: int, classes: int, sentence: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        KFold(folds, "shuffled", 0).splits(range(classes), TEST)


def test_a_number_after_the_name_replaces_its_key() -> None:
    assert make_protocol("fixed_validation", KEYS) == FixedValidation(0.1, 0)
    assert make_protocol("fixed_validation:0.3", KEYS) == FixedValidation(0.3, 0)
    assert make_protocol("k_fold:10", KEYS) == KFold(10, "shuffled", 0)
    assert find_protocol("k_fold:10") is KFold


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("k_fold:many", "k_fold:many: what follows the colon is folds, a number; write k_fold:4."),
        (
            "default:3",
            "default takes no number, but got default:3; leave out what follows the colon.",
        ),
        ("k_folds", "Did you mean 'k_fold'?"),
    ],
)
def test_what_is_no_protocol_is_refused_with_the_cure(name: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        make_protocol(name, KEYS)


@pytest.mark.parametrize("fraction", ["0", "1", "1.5", "-0.1"])
def test_a_share_after_the_name_is_between_0_and_1(fraction: str) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        make_protocol(f"fixed_validation:{fraction}", KEYS).splits(TRAIN, TEST)


GOOD = FixedValidation(0.1, 0).splits(TRAIN, TEST)[0]


@pytest.mark.parametrize(
    ("splits", "law"),
    [
        ([Split(GOOD.train, GOOD.select[:1], TEST)], "two classes on every side"),
        ([Split(GOOD.train, GOOD.select, TEST[1:])], "official test classes"),
        ([Split(GOOD.train[1:], GOOD.select, TEST)], "no train class is lost"),
        ([Split((*GOOD.train, 777), GOOD.select, TEST)], "only train classes are trained on"),
        ([GOOD, GOOD], "held out exactly once"),
        ([Split(TRAIN, TEST, TEST)], "who selects on test classes peeks"),
    ],
)
def test_a_division_that_breaks_a_law_is_noticed_at_run_time(splits: list[Split], law: str) -> None:
    check_splits([GOOD], TRAIN, TEST, rule="selected-on-validation")
    check_splits([Split(TRAIN, TEST, TEST)], TRAIN, TEST, rule="best-on-test")
    with pytest.raises(LawError, match=law):
        check_splits(splits, TRAIN, TEST, rule="selected-on-validation")


def test_the_laws_hold_without_asserts_too() -> None:
    """python -O takes every assert away."""
    code = """
from trainables.contract import LawError, Split
from study.config.protocols import Default, check_splits
for broken in (
    lambda: Split((0, 1), (1, 2), (3, 4)),
    lambda: Default().splits((0, 1), (2, 3))[0].sealed(),
    lambda: check_splits(
        Default().splits((0, 1), (2, 3)), (0, 1), (2, 3), rule="selected-on-validation"
    ),
):
    try:
        broken()
    except LawError:
        print("refused")
"""
    done = subprocess.run(
        [sys.executable, "-O", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["refused"] * 3
