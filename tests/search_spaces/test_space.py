"""The parts of a search space."""

import math
from decimal import Decimal

import pytest

from search_spaces import Grid, LossSpace, Param, Range, pick

WIDE = Range(-100, 100)


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        ("0", "1", "0.1"),
        ("2", "100", "2"),
        ("0", "1", "0.3"),
        ("-0.2", "0.7", "0.05"),
        ("0", "7", "2"),
    ],
)
def test_a_grid_is_the_decimal_sequence_without_binary_dust(low, high, step):
    expected, value = [], Decimal(low)
    while value <= Decimal(high):
        expected.append(float(value))
        value += Decimal(step)
    assert Grid(float(low), float(high), float(step)).values() == tuple(expected)


def test_a_grid_includes_both_of_its_ends():
    assert Grid(0, 1, 0.1).values()[0] == 0
    assert Grid(0, 1, 0.1).values()[-1] == 1
    assert len(Grid(0, 1, 0.1).values()) == 11


@pytest.mark.parametrize("wrong", [(1, 0, 0.1), (1, 1, 0.1), (0, 1, 0), (0, 1, -0.1)])
def test_a_grid_that_goes_nowhere_is_refused_with_its_numbers(wrong):
    with pytest.raises(
        ValueError, match=r"A grid needs low < high and step > 0, but got \("
    ) as error:
        Grid(*wrong)
    assert str(wrong) in str(error.value)


def test_a_range_is_closed():
    unit = Range(0, 1)
    assert 0 in unit
    assert 1 in unit
    assert 0.5 in unit
    assert math.nextafter(1, 2) not in unit
    assert math.nextafter(0, -1) not in unit


def test_not_a_number_lies_in_no_range():
    assert math.nan not in WIDE


@pytest.mark.parametrize("wrong", [(1, 0), (1, 1)])
def test_a_range_that_is_empty_is_refused_with_its_numbers(wrong):
    with pytest.raises(ValueError, match="A range needs low < high, but got ") as error:
        Range(*wrong)
    assert str(wrong) in str(error.value)


@pytest.mark.parametrize("low", [0, -1])
def test_a_log_range_starts_above_zero(low):
    with pytest.raises(ValueError, match=f"A log range starts above 0, but got low={low}"):
        Range(low, 1, log=True)
    assert Range(low, 1).low == low


def test_a_range_prints_as_people_say_it():
    assert str(Range(0.01, 100)) == "0.01 to 100"
    assert str(Range(0.01, 100, log=True)) == "0.01 to 100, log"


@pytest.mark.parametrize("source", ["paper", "code", "thesis", "found", "reality"])
def test_a_value_outside_the_search_range_needs_a_note(source):
    values = {"paper": 0.5, source: (0.5, None, 3.0) if source == "reality" else 3.0}
    with pytest.raises(ValueError, match="Every cited value must lie in the search range"):
        Param(**values, search=Range(0, 1), domain=WIDE)
    assert Param(**values, search=Range(0, 1), domain=WIDE, note="why").note == "why"


@pytest.mark.parametrize("search", [Range(-2, 0.5), Range(0.5, 2), Range(-2, 2)])
def test_a_search_range_lies_inside_the_domain(search):
    with pytest.raises(ValueError, match="The search range must lie in the domain"):
        Param(paper=0.5, search=search, domain=Range(0, 1), note="a note does not excuse it")


def test_an_optimum_lies_on_its_own_grid_or_a_note_says_why():
    with pytest.raises(ValueError, match=r"found=58 is not on its own grid .*; say so in note="):
        Param(paper=10, found=58, grid=Grid(10, 100, 10), search=Range(1, 100), domain=WIDE)
    assert (
        Param(
            paper=10,
            found=58,
            grid=Grid(10, 100, 10),
            search=Range(1, 100),
            domain=WIDE,
            note="as printed",
        ).found
        == 58
    )
    assert (
        Param(paper=10, found=60, grid=Grid(10, 100, 10), search=Range(1, 100), domain=WIDE).found
        == 60
    )


def test_a_value_that_is_printed_as_its_inverse_is_swept_in_our_sense() -> None:
    param = Param(
        paper=0.1,
        thesis=10,
        grid=Grid(10, 40, 10),
        inverse=True,
        search=Range(0.01, 100),
        domain=WIDE,
    )
    assert param.levels() == pytest.approx((0.1, 0.05, 1 / 30, 0.025))
    assert param.ours(10) == 0.1


@pytest.mark.parametrize("grid", [Grid(0, 1, 0.1), Grid(0.5, 2, 0.5)])
def test_a_grid_lies_in_the_search_range(grid):
    with pytest.raises(ValueError, match="The grid must lie in the search range"):
        Param(
            paper=0.5,
            grid=grid,
            search=Range(0.1, 1.5),
            domain=WIDE,
            note="a note does not excuse it",
        )
    assert Param(paper=0.5, grid=grid, search=Range(0, 2), domain=WIDE).levels() == grid.values()


@pytest.mark.parametrize(
    ("range_", "middle"), [(Range(0, 1), 0.5), (Range(1, 100, log=True), 10), (Range(-3, 1), -1)]
)
def test_a_place_goes_from_0_to_1_log_ranges_by_order_of_magnitude(range_, middle):
    assert [range_.position(value) for value in (range_.low, middle, range_.high)] == pytest.approx(
        [0, 0.5, 1]
    )


@pytest.mark.parametrize(
    "range_",
    [
        Range(0, 1),
        Range(1, 100, log=True),
        Range(2, 40, log=True, integer=True),
        Range(1, 3, integer=True),
    ],
)
def test_levels_go_from_end_to_end_once_each_inside_the_range(range_):
    levels = range_.levels()
    assert (levels[0], levels[-1]) == range_.ends()
    assert list(levels) == sorted(set(levels))
    assert all(level in range_ for level in levels)


def test_a_param_cites_only_those_who_gave_a_value_and_zero_is_a_value():
    param = Param(paper=0.0, found=0.5, search=Range(0, 1), domain=Range(0, 1))
    assert dict(param.cited()) == {"paper": 0.0, "found": 0.5}
    assert param.optima() == {}


def test_a_param_cites_the_reality_check_once_for_each_dataset_that_it_has_an_optimum_for():
    param = Param(paper=1, reality=(0.5, None, 0.0), search=Range(0, 1), domain=Range(0, 1))
    assert param.optima() == {"cub200": 0.5, "sop": 0.0}
    assert dict(param.cited()) == {"paper": 1, "reality cub200": 0.5, "reality sop": 0.0}


def test_the_defaults_of_a_card_are_the_papers_values():
    params = {
        "a": Param(paper=1, thesis=2, search=WIDE, domain=WIDE),
        "b": Param(paper=3, code=4, search=WIDE, domain=WIDE),
    }
    words = {"cite": "", "about": "", "mining": "none", "reduction": "mean"}
    card = LossSpace(
        **words, year=2000, kind="pair", batches="random", params=params, similarities=("self",)
    )
    assert card.defaults == {"a": 1, "b": 3}


def test_pick_gives_the_entry_itself():
    entry = object()
    assert (
        pick({"multi_similarity": entry, "triplet": object()}, "multi_similarity", "loss") is entry
    )


def test_an_unknown_name_is_answered_with_the_near_one_and_all_known():
    with pytest.raises(ValueError, match="Unknown") as error:
        pick({"triplet": 1, "multi_similarity": 2, "contrastive": 3}, "multisimilarity", "loss")
    assert str(error.value) == (
        "Unknown loss 'multisimilarity'. Did you mean 'multi_similarity'? Known: contrastive, "
        "multi_similarity, triplet."
    )


def test_a_name_like_no_other_gets_no_guess():
    with pytest.raises(ValueError, match="Unknown") as error:
        pick({"triplet": 1, "contrastive": 3}, "zzz", "loss")
    assert str(error.value) == "Unknown loss 'zzz'. Known: contrastive, triplet."
