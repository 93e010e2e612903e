"""A team divides rows between its ranks."""

import numpy as np
import pytest

from trainables.distributed.team import ALONE, Team


@pytest.mark.parametrize("world", [1, 2, 3, 5, 12, 16])
@pytest.mark.parametrize("total", [1, 12, 13])
def test_parts_are_disjoint_consecutive_and_differ_by_one_row_at_most(world, total):
    rows = np.random.default_rng(0).permutation(100)[:total]
    parts = [Team(rank, world).part(rows) for rank in range(world)]
    assert np.concatenate(parts).tolist() == rows.tolist()
    assert [len(part) for part in parts] == Team(0, world).counts(total)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_who_is_alone_hears_itself():
    assert ALONE.gather_objects({"loss": 1.0}) == [{"loss": 1.0}]
