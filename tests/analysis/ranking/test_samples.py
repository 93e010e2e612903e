"""A number or a difference has a star exactly if test feedback chose any part of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from analysis.ranking.measurement import Measurement
from analysis.ranking.readings import PUBLISHED, TUNED, TUNED_ON_TEST, Reading
from analysis.ranking.samples import Sampled, minus
from analysis.statistics import Sample
from trainables.contract import PEEKING

RULES = st.sampled_from(["selected-on-validation", "last-epoch", "refit", PEEKING])
SETTINGS = st.sampled_from([PUBLISHED, TUNED, TUNED_ON_TEST, ""])


@st.composite
def sampled(draw: st.DrawFn) -> Sampled:
    rule, setting = draw(RULES), draw(SETTINGS)
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    values = Sample(rng.random((3, 4)), np.ones(4), (1, 2, 3))
    reading = Reading("x", "", "", rule, joined=False, setting=setting, runs=(), replicates=())
    number = Measurement(float(values.mean()), rule=rule, setting=setting)
    return Sampled(reading, {"recall_at_1": number}, {"recall_at_1": values})


@given(sampled(), sampled())
def test_a_difference_has_a_star_exactly_if_either_side_has(one: Sampled, other: Sampled) -> None:
    peeks = [
        each.reading.rule == PEEKING or each.reading.setting == TUNED_ON_TEST
        for each in (one, other)
    ]
    assert [each.numbers["recall_at_1"].peeks for each in (one, other)] == peeks
    gap = minus({"x": (one, other)})["x"]["recall_at_1"]
    assert gap.peeks == any(peeks)
    assert gap.percent().endswith("*") == any(peeks)
    low, high = gap.interval
    assert low <= gap.value <= high


@given(sampled(), sampled())
def test_a_difference_turned_round_is_its_negative(one: Sampled, other: Sampled) -> None:
    gap = minus({"x": (one, other)})["x"]["recall_at_1"]
    back = minus({"x": (other, one)})["x"]["recall_at_1"]
    assert np.allclose(
        [gap.value, *gap.interval], [-back.value, -back.interval[1], -back.interval[0]]
    )


def test_a_loss_that_lacks_either_reading_has_no_difference() -> None:
    assert minus({"x": (None, None)}) == {"x": {}}


@given(sampled(), sampled())
def test_a_difference_has_the_replicates_that_both_have(one: Sampled, other: Sampled) -> None:
    own = other.samples["recall_at_1"]
    less = replace(other, samples={"recall_at_1": Sample(own.means[1:], own.counts, (2, 3))})
    found = [minus({"x": (one, each)})["x"]["recall_at_1"].replicates for each in (other, less)]
    assert found == [3, 2]
