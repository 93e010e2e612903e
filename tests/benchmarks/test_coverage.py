"""benchmarks/coverage.py: intervals hold as often as they say, in a short simulation."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from analysis import read_study
from analysis.ranking.pairs import components_of
from analysis.statistics import QUICKSTART, Components, moments, pairs
from tests.support import ROOT
from tests.support.synthetic_study import everything, write_study


@pytest.fixture
def coverage(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("coverage")


@pytest.mark.parametrize(("losses", "replicates"), [(4, 3), (4, 10), (10, 3)])
@pytest.mark.parametrize("name", ["as measured", "shared effects", "calm replicates"])
def test_intervals_hold_and_equal_losses_are_seldom_told_apart(
    coverage: ModuleType, name: str, losses: int, replicates: int
) -> None:
    """Wrong formulas break this. With 4 losses and 3 replicates, error is 0.15 if a pair's variance
    is its own only, 0.17 without multiplicity, 0.64 without the variance of replicates.
    """
    found = coverage.simulate(
        coverage.scenarios(coverage.QUICKSTART)[name],
        losses,
        replicates,
        studies=300,
        rng=np.random.default_rng(0),
    )
    assert 0.91 <= found.numbers <= 0.985
    assert 0.92 <= found.pairs <= 0.985
    assert found.error <= 0.1


# Of a finished quickstart of ten heads: spreads as three replicates estimate them.
HEADS = Components(
    (0.0105, 0.0, 0.0082, 0.0, 0.0087, 0.0, 0.0052, 0.0021, 0.0, 0.0057),
    shared=0.0,
    classes=0.169,
    loss_in_class=0.0173,
    residual=0.0338,
)


@pytest.mark.parametrize("name", ["as measured", "unequal losses", "unequal and shared"])
@pytest.mark.parametrize(("own", "most"), [(HEADS, 0.065), (QUICKSTART, 0.075)])
def test_four_losses_of_unequal_spread_are_seldom_told_apart_with_three_replicates(
    coverage: ModuleType, own: Components, most: float, name: str
) -> None:
    """Degrees of freedom that are estimated for the sum of both variances give 0.073 to 0.088."""
    components, rng = coverage.scenarios(own)[name], np.random.default_rng(0)
    found = coverage.simulate(components, 4, 3, studies=4000, rng=rng)
    assert found.error <= most
    assert 0.93 <= found.numbers <= 0.97
    assert 0.93 <= found.pairs <= 0.97


@pytest.mark.parametrize("replicates", [2, 3])
def test_two_losses_that_have_nobody_to_borrow_from_are_seldom_told_apart(
    coverage: ModuleType, replicates: int
) -> None:
    """Degrees of freedom that are estimated for the sum of both variances give 0.10 and 0.07."""
    rng = np.random.default_rng(0)
    found = coverage.simulate(coverage.QUICKSTART, 2, replicates, studies=1000, rng=rng)
    assert found.error <= 0.05


@pytest.mark.parametrize("most", [2, 3])
def test_equal_losses_are_seldom_told_apart_where_replicates_are_missing(
    coverage: ModuleType, most: int
) -> None:
    """Two losses have every replicate, eight have one. The error is 0.41 and 0.13 if the weight of
    a pool with less than one degree of freedom is divided by one.
    """
    rng = np.random.default_rng(1)
    made = coverage.draw(coverage.QUICKSTART, 10, most, studies=500, rng=rng)
    some = {
        loss: one if number < 2 else type(one)(one.means[:, :1], one.counts, one.replicates[:1])
        for number, (loss, one) in enumerate(made.items())
    }
    gaps = pairs(some).values()
    apart = np.stack([abs(gap.value) > gap.reach(among=10) for gap in gaps])
    assert apart.any(axis=0).mean() <= 0.08


def test_more_replicates_give_more_power(coverage: ModuleType) -> None:
    powers = [
        coverage.simulate(
            coverage.QUICKSTART, 4, replicates, studies=200, rng=np.random.default_rng(0)
        ).power
        for replicates in (3, 10)
    ]
    assert 0.05 < powers[0] < powers[1] - 0.2


@pytest.mark.parametrize("uneven", [False, True])
def test_components_are_found_again_in_what_was_drawn_with_them(
    coverage: ModuleType, uneven: bool
) -> None:
    sizes = np.exp(uneven * np.random.default_rng(1).normal(size=100))
    own = Components((0.02, 0.04), shared=0.03, weights=tuple(sizes / sizes.sum()))
    made = coverage.draw(own, 2, 200, studies=40, rng=np.random.default_rng(0))
    found = [
        moments([type(one)(one.means[study], one.counts, one.replicates) for one in made.values()])
        for study in range(40)
    ]
    for name in ("shared", "classes", "loss_in_class", "residual"):
        average = np.mean([getattr(each, name) for each in found])
        assert average == pytest.approx(getattr(own, name), rel=0.1), name
    assert np.mean([each.replicates for each in found], axis=0) == pytest.approx(
        own.replicates, rel=0.1
    )


def test_a_finished_study_gives_components_and_a_table(
    coverage: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = write_study(tmp_path, everything())
    monkeypatch.setattr(coverage, "LOSSES", (3,))
    monkeypatch.setattr(coverage, "REPLICATES", (2,))
    monkeypatch.setattr(sys, "argv", ["coverage.py", str(folder), "--studies", "20"])
    coverage.main()
    lines = capsys.readouterr().out.splitlines()
    assert "6 test classes" in lines[0]
    assert len(lines) == 4 + len(coverage.scenarios(coverage.QUICKSTART))


def test_a_study_with_one_replicate_has_no_components(coverage: ModuleType, tmp_path: Path) -> None:
    once = [one for one in everything() if one.number != 2 or one.role == "search"]
    with pytest.raises(ValueError, match="the same two replicates or more"):
        components_of(read_study(write_study(tmp_path, once)))
