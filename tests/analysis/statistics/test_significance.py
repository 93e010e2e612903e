"""Rank tests equal their textbook form, and need enough independent blocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import wilcoxon

from analysis.statistics import (
    blocks_of,
    friedman,
    mean_ranks,
    nemenyi,
    wilcoxon_holm,
    without_test,
)

VALUES = pd.DataFrame(
    np.random.default_rng(0).normal([0.5, 0.55, 0.7, 0.71], 0.05, (15, 4)), columns=list("abcd")
)


def test_p_values_are_scipys_with_holm_by_hand() -> None:
    raw = {
        pair: wilcoxon(VALUES[pair[0]], VALUES[pair[1]], zero_method="zsplit").pvalue
        for pair in combinations(VALUES, 2)
    }
    found, highest = wilcoxon_holm(VALUES), 0.0
    for step, (pair, p) in enumerate(sorted(raw.items(), key=lambda item: item[1])):
        highest = max(highest, min(1.0, p * (len(raw) - step)))
        assert found.loc[pair] == pytest.approx(highest)
        assert found.loc[pair[::-1]] == pytest.approx(highest)


def test_losses_that_never_differ_have_a_p_value_of_one() -> None:
    same = pd.DataFrame({"a": [0.1, 0.2, 0.3], "b": [0.1, 0.2, 0.3]})
    assert wilcoxon_holm(same).loc["a", "b"] == 1
    assert wilcoxon_holm(same.iloc[:1]).loc["a", "b"] == 1


def test_friedman_is_its_formula() -> None:
    result = friedman(VALUES)
    assert result
    blocks, losses = VALUES.shape
    ranks = [[1 + sum(other > own for other in row) for own in row] for row in VALUES.to_numpy()]
    sums = np.sum(ranks, axis=0)
    assert result.statistic == pytest.approx(
        12 / (blocks * losses * (losses + 1)) * np.sum(sums**2) - 3 * blocks * (losses + 1)
    )
    assert result.mean_ranks.to_dict() == pytest.approx(
        dict(zip(VALUES, sums / blocks, strict=True))
    )
    assert list(result.mean_ranks) == sorted(result.mean_ranks)


def test_the_critical_difference_is_that_of_the_tables() -> None:
    """Demsar 2006: q of 5 classifiers at 0.05 is 2.728, of 10 it is 3.164."""
    assert nemenyi(30, 5) == pytest.approx(2.728 * np.sqrt(5 * 6 / (6 * 30)), abs=1e-3)
    assert nemenyi(12, 10) == pytest.approx(3.164 * np.sqrt(10 * 11 / (6 * 12)), abs=1e-3)


def test_too_few_losses_or_blocks_give_no_test() -> None:
    assert friedman(VALUES[["a", "b"]]) is None
    assert friedman(VALUES.iloc[:11]) is None
    assert friedman(VALUES.iloc[:12]) is not None
    assert friedman(pd.DataFrame()) is None


def test_a_loss_that_is_missing_nearly_everywhere_is_left_out_and_named() -> None:
    holes = VALUES.assign(rare=np.where(np.arange(15) == 0, 0.5, np.nan))
    result = friedman(holes)
    assert result
    assert (result.blocks, result.left_out) == (15, ("rare",))
    assert result.mean_ranks.to_dict() == friedman(VALUES).mean_ranks.to_dict()  # type: ignore[union-attr]
    # With one number missing, its block is left out.
    once = friedman(VALUES.mask(np.arange(15)[:, None] * 4 + np.arange(4) == 0))
    assert once
    assert (once.blocks, once.left_out) == (14, ())


def test_cliques_are_largest_runs_that_no_pair_breaks() -> None:
    base = VALUES["a"].to_numpy()
    turns = np.where(np.arange(15) % 2, 0.01, -0.01)
    result = friedman(
        pd.DataFrame({"one": base, "near": base + turns, "far": base - 1, "farther": base - 2})
    )
    assert result
    (clique,) = result.cliques()
    assert sorted(clique) == ["near", "one"]
    assert len(result.cliques(alpha=0)[0]) == 4


def test_cells_of_one_dataset_are_one_block() -> None:
    """Twelve cells of three datasets are no test; their ranks are averaged by dataset."""
    cells = VALUES.iloc[:12].set_axis([f"{'xyz'[i % 3]}/net-{i}" for i in range(12)])
    assert friedman(blocks_of(cells)) is None
    assert "12 cells of 3 datasets are 3 independent blocks" in without_test(cells)
    for name, row in blocks_of(cells).iterrows():
        for loss in cells:
            ranks = [
                1 + sum(other > mine[loss] for other in mine)
                for cell, mine in cells.iterrows()
                if str(cell).startswith(str(name))
            ]
            assert -row[loss] == pytest.approx(sum(ranks) / 4)


def test_one_cell_has_no_mean_ranks_and_its_dataset_is_counted() -> None:
    cells = VALUES.iloc[:1].set_axis(["sketches/tiny-16"])
    assert mean_ranks(cells).empty
    assert "of 1 dataset are 1 independent block," in without_test(cells)
    # Two cells of which none has every loss are no mean either.
    holes = VALUES.iloc[:2].mask(np.eye(2, 4, dtype=bool)).set_axis(["x/a", "y/b"])
    assert not mean_ranks(holes).isna().any()


def test_two_losses_share_a_letter_exactly_if_no_difference_is_shown() -> None:
    """Of three in this order the first two are apart; the third may be as good as either."""
    made = friedman(VALUES[["a", "b", "c"]])
    assert made
    order = list(made.mean_ranks.index)
    p = pd.DataFrame(np.ones((3, 3)), order, order)
    p.iloc[0, 1] = p.iloc[1, 0] = 0.001
    found = replace(made, pairs=p).letters()
    for pair in combinations(order, 2):
        assert bool({*found[pair[0]]} & {*found[pair[1]]}) == (p.loc[pair] >= 0.05), pair
