"""The sentences claim no more than the intervals allow."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import Ranking, RankingRow, rankings
from analysis.ranking.readings import Reading
from analysis.ranking.samples import Sampled, together
from analysis.ranking.summary import summarise
from analysis.statistics import Sample, leaves_out_zero
from analysis.tables.catalogue import Study, make_table
from analysis.tables.default_vs_validation import BY_ITSELF
from tests.support.synthetic_study import FOLDS, RATIO, SyntheticTrial, final, replicated, rows_of


def ranked(
    *losses: str,
    ahead: list[tuple[str, str]],
    default: dict[str, float] | None = None,
    untuned: tuple[str, ...] = (),
) -> Ranking:
    def side(value: float, rule: str, setting: str = "tuned") -> dict[str, Measurement]:
        return {
            name: Measurement(value, value - 0.02, value + 0.02, rule, setting=setting)
            for name in ("recall_at_1", "map_at_r")
        }

    rows = []
    for rank, loss in enumerate(losses, start=1):
        peeked = side(default[loss], "best-on-test") if default else {}
        gap = side(0.0, "best-on-test") if default else {}
        honest = side(0.5, "selected-on-validation", "published" if loss in untuned else "tuned")
        ends = (-0.02, 0.02) if default else None
        span = (1, len(losses))
        rows.append(RankingRow(loss, peeked, honest, gap, rank, span, difference_together=ends))
    return Ranking(
        "sketches",
        "tiny",
        16,
        rows,
        {"raw pixels": side(0.3, "untrained")},
        ahead=ahead,
        replicates=3,
        searches={loss: [8, 8, 8] for loss in losses},
    )


def beat(*losses: str) -> list[tuple[str, str]]:
    return [(loss, "raw pixels") for loss in losses]


SPAN = "50.0\u00a0% [48.0,\u00a052.0], selected-on-validation"


def test_the_answer_says_what_was_done_who_is_behind_and_who_may_be_as_good() -> None:
    said = summarise(ranked("a", "b", "c", ahead=[("a", "c"), ("b", "c"), *beat("a", "b")]))
    assert said == [
        f"With the settings that three searches of 8 trials chose, a has the highest Recall@1 "
        f"({SPAN}); it is ahead of c, and b may be as good.",
        "Not shown to beat raw pixels (30.0 %, untrained): c.",
    ]


@pytest.mark.parametrize(
    ("untuned", "said"),
    [
        (
            ("a",),
            "With the settings that three searches of 8 trials chose (published settings for a)",
        ),
        (
            ("b",),
            "With the settings that three searches of 8 trials chose (published settings for b)",
        ),
        (
            ("a", "b"),
            "With published settings, because no search chose any, and epochs chosen on held-out "
            "classes in three replicates",
        ),
    ],
)
def test_a_loss_whose_search_chose_nothing_has_its_published_setting(
    untuned: tuple[str, ...], said: str
) -> None:
    (first, *_) = summarise(ranked("a", "b", ahead=[("a", "b"), *beat("a", "b")], untuned=untuned))
    assert first == f"{said}, a has the highest Recall@1 ({SPAN}); it is ahead of b."


def test_one_search_is_called_so() -> None:
    one = replace(ranked("a", "b", ahead=[]), searches={"a": [8], "b": [6]}, replicates=1)
    assert summarise(one)[0].startswith(
        "With the settings that one search of 6 to 8 trials chose, a has"
    )
    unsearched = replace(one, searches={})
    assert summarise(unsearched)[0].startswith(
        "With published settings and epochs chosen on held-out classes in one replicate, a has"
    )


def test_the_answer_says_when_no_loss_is_shown_to_be_behind() -> None:
    said = summarise(ranked("a", "b", "c", ahead=[]))
    assert said[0].endswith("no other loss is shown to be behind it, so b and c may be as good.")
    assert said[1] == "No loss is shown to beat raw pixels (30.0 %, untrained)."


def test_a_first_loss_without_the_highest_number_is_not_said_to_have_it() -> None:
    made = ranked("a", "b", ahead=[("a", "b")])
    number = replace(made.rows[1].validation["recall_at_1"], value=0.6)
    rows = [made.rows[0], replace(made.rows[1], validation={"recall_at_1": number})]
    said = summarise(replace(made, rows=rows))[0]
    assert "a ranks first with a Recall@1 of 50.0" in said
    assert "highest" not in said


def test_a_lone_loss_is_ahead_of_nothing() -> None:
    assert summarise(ranked("a", ahead=[]))[0].endswith(
        f"a, the only loss here, has a Recall@1 of {SPAN}."
    )


def test_the_answer_says_what_peeking_would_have_said_and_what_the_data_allow() -> None:
    said = summarise(
        ranked(
            "a", "b", "c", default={"a": 0.5, "b": 0.6, "c": 0.5}, ahead=[("a", "b"), ("a", "c")]
        )
    )
    assert said[0].endswith("; it is ahead of every other loss: b and c.")
    assert said[-1] == (
        "Under the default setup, which peeks, b has the highest Recall@1 (60.0* %, best-on-test). "
        "No difference between the setups is shown for any loss; up to about 2 points either way "
        "is compatible with these data."
    )


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        (((-0.02, 0.03), (-0.004, 0.001)), "up to about 3 points either way is compatible"),
        (((-0.001, 0.002), (-0.004, 0.001)), "less than a point either way is compatible"),
        (((-0.01, 0.06), (-0.02, 0.01)), "differences from about -2 to +6 points are compatible"),
        (
            ((-1, 1), (-1, 1)),
            "for any loss; nothing can be said yet: too few replicates are finished.",
        ),
        (
            ((0.01, 0.06), (-0.02, 0.02)),
            "differ from zero for a (+3.5 [1.0,\u00a06.0]); for the other",
        ),
        (
            ((0.01, 0.06), (-0.06, -0.02)),
            "differ from zero for a (+3.5 [1.0,\u00a06.0]) and b (-4.0",
        ),
    ],
)
def test_differences_of_the_setups_are_those_of_the_intervals(
    ends: tuple[tuple[float, float], ...], said: str
) -> None:
    made = ranked("a", "b", default={"a": 0.5, "b": 0.6}, ahead=[])
    rows = [
        replace(
            row,
            difference={"recall_at_1": Measurement(sum(each) / 2, rule="best-on-test")},
            difference_together=each,
        )
        for row, each in zip(made.rows, ends, strict=True)
    ]
    assert said in summarise(replace(made, rows=rows))[-1]


def test_of_many_losses_whose_setups_do_not_differ_hardly_ever_is_one_named() -> None:
    """Ten losses, none of which differs: single intervals would name one in 3 of 10 studies."""
    rng, named, studies = np.random.default_rng(0), 0, 150
    for _ in range(studies):
        both = {str(loss): (scattered(rng), scattered(rng)) for loss in range(10)}
        named += any(leaves_out_zero(ends) for ends in together(both, "recall_at_1").values())
    assert named / studies < 0.1


def scattered(rng: np.random.Generator) -> Sampled:
    """Return a reading whose replicates vary by 0.02, and whose classes vary by little."""
    means = 0.5 + 0.02 * rng.normal(size=(3, 1)) + 0.01 * rng.normal(size=(3, 20))
    reading = Reading("x", "", "", "", joined=False, setting="", runs=(), replicates=())
    return Sampled(reading, {}, {"recall_at_1": Sample(means, np.ones(20), (1, 2, 3))})


def test_a_difference_of_the_setups_is_shown_by_the_intervals_of_all_losses_together() -> None:
    for ranking in rankings(rows_of(replicated())):
        for row in ranking.rows:
            if row.difference:
                (low, high), joint = row.difference["recall_at_1"].interval, row.difference_together
                assert joint
                assert joint[0] <= low <= high <= joint[1]
    for name in ("default_vs_validation", "steps"):
        assert BY_ITSELF in make_table(name, Study(rows_of(replicated()))).notes


def test_where_nothing_is_known_no_interval_is_wider_than_shares_can_be() -> None:
    """Each loss has another replicate under default than under validation, and one has two."""
    made = [
        one
        for one in replicated()
        if one.protocol != FOLDS and (one.replicate == 1) == (one.protocol == "default")
    ]
    study = Study(rows_of([one for one in made if one.loss != "triplet" or one.replicate != 3]))
    for name in ("ranking", "significance", "over_datasets", "default_vs_validation", "retrieval"):
        for number in make_table(name, study).measurements():
            if number.low is not None and name != "ranking":
                assert -1 <= number.low <= number.value <= number.high <= 1
    lines = make_table("significance", study).rows
    known = {(row["setup"], row["loss"], row["other"]): row["ahead"] for row in lines}
    unknown = [row for row in lines if row["difference"].interval == (-1, 1)]
    assert unknown
    assert all(row["ahead"] is None and row["equivalent"] is None for row in unknown), known


def test_a_winner_whose_search_failed_is_known_by_its_own_final_trials() -> None:
    made = [SyntheticTrial(loss, RATIO, "search", 0) for loss in ("triplet", "contrastive")]
    made += [final("triplet", RATIO, "final", seed, tuned=False, more=1) for seed in (1, 2)]
    made += [final("contrastive", RATIO, "final", seed) for seed in (1, 2)]
    (ranking,) = rankings(rows_of(made))
    assert summarise(ranking)[0].startswith(
        "With the settings that one search of 1 trial chose (published settings for "
        "triplet), triplet has the highest Recall@1"
    )
