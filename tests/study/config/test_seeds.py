"""Replicates have seeds of their own, also where other studies have neighbouring ones."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from study.config.keys.key_types import SEED, SEEDS
from study.config.plan import expand
from study.config.seeds import first_seeds, replicate_of, split_seed
from tests.conftest import MakeConfig

FAR = SEED - SEEDS


def test_the_first_replicate_has_the_seeds_that_a_study_names() -> None:
    assert [split_seed(own, 1) for own in (0, 7, SEED)] == [0, 7, SEED]
    assert [first_seeds(own, 1) for own in (0, 7, FAR)] == [(0,), (7,), (FAR,)]


def test_further_seeds_are_the_same_on_every_machine_and_in_every_version() -> None:
    """Others would give a study other splits when it is resumed."""
    assert split_seed(0, 2) == 5_836_529_245_451_711_556
    assert first_seeds(0, 3) == (0, 1_653_440_756, 158_459_779)


@pytest.mark.parametrize("step", [1, 100, SEEDS, 1_000_000])
def test_no_two_replicates_of_neighbouring_studies_share_a_split_or_a_seed(step: int) -> None:
    owns = range(0, 40 * step, step)
    splits = [
        split_seed(own, replicate, further=further)
        for own, replicate, further in product(owns, range(1, 11), range(3))
    ]
    assert len({*splits}) == len(splits)
    seeds = [first + k for own in owns for first in first_seeds(own, 10) for k in range(2)]
    assert len({*seeds}) == len(seeds) - 39 * (step == 1)  # a search's seed is the next study's own


@given(st.integers(0, FAR), st.integers(1, 60), st.data())
def test_a_seed_belongs_to_one_replicate(own: int, replicates: int, data: st.DataObject) -> None:
    firsts = first_seeds(own, replicates)
    assert firsts[0] == own
    assert len(firsts) == replicates
    replicate, place = data.draw(st.integers(1, replicates)), data.draw(st.integers(0, SEEDS - 1))
    seed = firsts[replicate - 1] + place
    assert replicate_of(seed, firsts) == replicate
    assert seed <= SEED
    assert firsts[:-1] == first_seeds(own, max(1, replicates - 1))[: replicates - 1], "it may grow"


def test_studies_with_neighbouring_split_seeds_share_no_split(config: MakeConfig) -> None:
    plans = [expand(config(searches=3, split_seed=seed)) for seed in (0, 1, 2)]
    splits = [
        plan.splits("sketches", "fixed_validation", replicate=replicate)
        for plan in plans
        for replicate in plan.replicates
    ]
    assert len({*splits}) == 9
