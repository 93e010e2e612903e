"""The first screen says how the study was made, and draws its ranking to scale."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import rankings
from analysis.report.overview import duration, how_made, picture_of, splits_of
from tests.support.synthetic_study import (
    FOLDS,
    RATIO,
    empty,
    everything,
    final,
    one_row,
    replicated,
    rows_of,
)


def test_how_a_study_was_made_is_three_sentences() -> None:
    first, second, third = how_made(rows_of(replicated()), "map_at_r")
    assert first == (
        "3 losses on sketches and drawings (20 train and 6 test classes), network tiny and small, "
        "16 and 32 dimensions."
    )
    assert second == (
        f"{RATIO} and {FOLDS}: MAP@R on held-out classes chose settings and epochs; each loss had "
        "3 searches of 8 trials and 3 final trials."
    )
    assert third.startswith("324 trials, 16.2 min of epochs; 1970-01-01 00:00 UTC, ")


def test_a_study_without_a_search_or_of_the_default_setup_says_so() -> None:
    alone = how_made(one_row(), "recall_at_1")[1]
    assert "chose epochs; each loss had 1 final trial." in alone
    peeking = how_made(rows_of([final("triplet", "default", "final", 1)]), "recall_at_1")[1]
    assert peeking == "Only the default setup* was run: Recall@1 on the test classes chose."
    assert how_made(empty(), "recall_at_1") == []


@pytest.mark.parametrize(
    ("seconds", "text"), [(7200, "2.0 h"), (90, "1.5 min"), (59, "59 s"), (0, "0 s")]
)
def test_a_duration_is_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_numbers_lie_on_the_axis_where_they_belong() -> None:
    ranking = rankings(rows_of(everything()))[0]
    picture = picture_of(ranking)
    ends = [float(text) for _, text in (picture.ticks[0], picture.ticks[-1])]
    assert [place for place, _ in (picture.ticks[0], picture.ticks[-1])] == [0, 100]
    for row, drawn in zip(ranking.rows, picture.rows, strict=True):
        for number, whisker in ((row.default, drawn.default), (row.validation, drawn.validation)):
            value = 100 * number["recall_at_1"].value
            assert whisker
            shown = ends[0] + whisker.at / 100 * (ends[1] - ends[0])
            assert shown == pytest.approx(value, abs=0.02)
            assert 0 <= whisker.low <= whisker.at <= whisker.high <= 100
    assert picture.peeks
    assert picture.rule == "selected-on-validation"


def test_a_baseline_far_below_the_losses_takes_no_room_from_them() -> None:
    ranking = rankings(rows_of(everything()))[0]
    lowest = min(row.validation["recall_at_1"].low for row in ranking.rows)
    near, far = Measurement(lowest - 0.01), Measurement(-9.0)
    given = {"near": {"recall_at_1": near}, "far": {"recall_at_1": far}}
    picture = picture_of(replace(ranking, baselines=given))
    assert [(line.name, line.at is None) for line in picture.baselines] == [
        ("near", False),
        ("far", True),
    ]


def test_two_rankings_side_by_side_share_an_axis() -> None:
    high, low = (
        rankings(rows_of([final("triplet", RATIO, "final", 1, more=more)]))[0] for more in (3, 0)
    )
    assert picture_of(high).ticks != picture_of(low).ticks
    both = [picture_of(each, beside=[high, low]).ticks for each in (high, low)]
    assert both[0] == both[1]


def test_the_splits_are_counted_once_for_each_protocol() -> None:
    found = splits_of(rows_of(everything()))
    counts = {each["protocol"]: (each["folds"], each["train"], each["select"]) for each in found}
    assert counts == {"default": (1, "20", "6"), RATIO: (1, "18", "2"), FOLDS: (2, "10", "10")}
