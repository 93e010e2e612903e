"""The smallest difference that a plan names is shown four times in five by the shipped code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.record.events import StudyFinished
from analysis.record.ledger import Ledger
from analysis.statistics import QUICKSTART, Sample, pairs, smallest_difference
from study.config.plan import expand
from study.estimate.power import smallest_differences
from tests.conftest import MakeConfig
from tests.support.synthetic_study import replicated, write_study

STUDIES, CLASSES = 1000, 60


def power(losses: int, replicates: int, gap: float) -> float:
    """Return how often one loss, which is this much better, is told apart from another one."""
    rng, own = np.random.default_rng(0), QUICKSTART
    easy = own.classes * rng.normal(size=(STUDIES, 1, CLASSES))
    samples = {}
    for number in range(losses):
        sd = float(np.sqrt(np.mean(np.square(own.replicates))))
        means = (
            easy
            + gap * (number == 0)
            + own.loss_in_class * rng.normal(size=(STUDIES, 1, CLASSES))
            + sd * rng.normal(size=(STUDIES, replicates, 1))
            + own.residual * rng.normal(size=(STUDIES, replicates, CLASSES))
        )
        samples[number] = Sample(means, np.ones(CLASSES), tuple(range(replicates)))
    first = pairs(samples)[0, 1]
    return float((first.value > first.reach(among=losses)).mean())


@pytest.mark.parametrize(("losses", "replicates"), [(3, 2), (2, 3), (4, 3), (10, 3), (4, 10)])
def test_it_is_shown_four_times_in_five(losses: int, replicates: int) -> None:
    gap = smallest_difference(QUICKSTART, losses=losses, replicates=replicates, classes=CLASSES)
    assert gap is not None
    assert 0.74 < power(losses, replicates, gap) < 0.86


def test_more_replicates_show_smaller_differences(config: MakeConfig) -> None:
    (few,), (many,) = (
        smallest_differences(expand(config(searches=searches))) for searches in (2, 8)
    )
    assert many.value < few.value / 2
    assert few.source == "the quickstart"


@pytest.mark.parametrize("role", ["search", "none"])
def test_components_come_from_a_study_that_searched_if_this_one_does(
    config: MakeConfig, role: str
) -> None:
    mine = config(searches=3)
    made = [one for one in replicated() if one.role in ("final", role)]
    folder = write_study(Path(mine.studies), made)
    ledger = Ledger(folder)
    ledger.append(StudyFinished())
    ledger.close()
    (found,) = smallest_differences(expand(mine))
    assert found.source == ("the study 'made'" if role == "search" else "the quickstart")
    (fixed,) = smallest_differences(expand(config(searches=3, strategy="fixed")))
    assert fixed.source == "the study 'made'", "nothing is searched in either"


def test_one_run_or_test_feedback_shows_nothing(config: MakeConfig) -> None:
    assert smallest_differences(expand(config(searches=1, reproductions=1))) == []
    assert smallest_differences(expand(config(searches=3, protocols=["default"]))) == []
