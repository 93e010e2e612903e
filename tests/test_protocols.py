"""Laws over every protocol."""

import pytest

from study.protocols import PROTOCOLS, Default, Divides, FixedValidation

TRAIN, TEST = tuple(range(50)), tuple(range(50, 100))
EXAMPLES: dict[str, Divides] = {"default": Default(), "fixed_validation": FixedValidation(val_fraction=0.1, split_seed=3)}


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
def test_a_sealed_split_has_no_test_classes(name: str) -> None:
    assert all(split.sealed().test == () for split in EXAMPLES[name].splits(TRAIN, TEST))


@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_a_protocol_says_it_peeks_exactly_when_it_selects_on_test_classes(name: str) -> None:
    protocol = EXAMPLES[name]
    touches = any(set(split.select) & set(TEST) for split in protocol.splits(TRAIN, TEST))
    assert touches == (protocol.rule == "best-on-test")


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
    with pytest.raises(ValueError, match=r"holds out 2 of 3 train classes, but two must be left to train on; add classes"):
        FixedValidation(0.1, 0).splits((0, 1, 2), (3, 4))
