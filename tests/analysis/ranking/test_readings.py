"""Every reading of a made study makes exactly its own number, and none of them moves another."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis import read_study
from analysis.ranking.measurement import Measurement
from analysis.ranking.ranking import Ranking, RankingRow, rankings
from tests.support.synthetic_study import (
    FOLDS,
    HERE,
    HONEST,
    LAST,
    PEEKS,
    RATIO,
    SyntheticTrial,
    everything,
    final,
    replicated_study,
    rows_of,
    share,
    write_study,
)


@pytest.fixture(scope="module")
def found() -> list[Ranking]:
    return rankings(rows_of(everything()))


def row(ranking: Ranking, loss: str = "triplet") -> RankingRow:
    (one,) = [each for each in ranking.rows if each.loss == loss]
    return one


def beside(one: RankingRow) -> dict[tuple[str, str], Measurement]:
    return {(each.setup, each.what): each.numbers["recall_at_1"] for each in one.beside}


def test_each_honest_protocol_has_a_ranking_of_its_own_and_the_default_setup_stands_in_each(
    found: list[Ranking],
) -> None:
    assert [(each.protocol, each.title) for each in found] == [
        (RATIO, f"sketches, tiny, 16 dimensions, {RATIO}"),
        (FOLDS, f"sketches, tiny, 16 dimensions, {FOLDS}"),
    ]
    for ranking, own in zip(found, (share(2), share(1, 2)), strict=True):
        assert row(ranking).default["recall_at_1"].value == pytest.approx(share(4))
        assert row(ranking).validation["recall_at_1"].value == pytest.approx(own)
        assert row(ranking).validation["map_at_r"].value == pytest.approx(own / 2)
        assert row(ranking).difference["recall_at_1"].value == pytest.approx(own - share(4))


def test_a_baseline_is_named_in_words_and_one_that_ran_once_stands_for_every_replicate() -> None:
    hits = {("0", "untrained"): [1] * 6}
    once = [SyntheticTrial(name, "none", "final", 1, hits) for name in ("pooled", "pca")]
    for ranking in rankings(rows_of([*everything(), *once])):
        assert list(ranking.baselines) == ["pooled features of tiny", "PCA of tiny"]
        assert {number["recall_at_1"].replicates for number in ranking.baselines.values()} == {1}


def test_ratios_are_never_merged_and_come_in_order() -> None:
    made = [
        replace(
            final("triplet", RATIO, "final", seed, more=more),
            protocol=f"fixed_validation:{ratio}",
        )
        for more, ratio in enumerate((0.5, 0.3, 0.05))
        for seed in (1, 2)
    ]
    assert [
        (each.protocol, row(each).validation["recall_at_1"].value)
        for each in rankings(rows_of(made))
    ] == [
        ("fixed_validation:0.05", pytest.approx(share(4))),
        ("fixed_validation:0.3", pytest.approx(share(3))),
        ("fixed_validation:0.5", pytest.approx(share(2))),
    ]


def test_a_single_honest_protocol_needs_no_name_in_the_title() -> None:
    made = [final("triplet", protocol, "final", 1) for protocol in ("default", RATIO)]
    (ranking,) = rankings(rows_of(made))
    assert ranking.title == "sketches, tiny, 16 dimensions"


def test_everything_else_stands_beside_with_its_rule_and_setting(found: list[Ranking]) -> None:
    numbers = {
        key: (pytest.approx(each.value), each.rule, each.setting, each.replicates)
        for key, each in beside(row(found[0])).items()
    }
    assert numbers == {
        ("default", "last epoch"): (share(3), LAST, "tuned-on-test", 2),
        ("default", "published setting"): (share(3), PEEKS, "published", 2),
        ("default", "published setting, last epoch"): (share(2), LAST, "published", 2),
        ("validation", "last epoch"): (share(1), LAST, "tuned", 2),
        ("validation", "published setting"): (share(1), HONEST, "published", 2),
        ("validation", "published setting, last epoch"): (share(0), LAST, "published", 2),
        ("validation", "refit"): (share(3), "refit", "tuned", 2),
    }
    folded = beside(row(found[1]))
    assert folded["validation", "last epoch"].value == pytest.approx(share(0, 1))
    assert folded["validation", "concatenated"].value == pytest.approx(share(4))
    assert folded["validation", "concatenated"].rule == HONEST


def test_what_was_chosen_with_test_feedback_is_starred_whatever_chose_its_epoch(
    found: list[Ranking],
) -> None:
    starred = {
        key for key, number in beside(row(found[0])).items() if number.percent().endswith("*")
    }
    assert starred == {("default", "last epoch"), ("default", "published setting")}


def test_nothing_beside_ever_ranks(found: list[Ranking]) -> None:
    """contrastive's refit is the best honest number of the study."""
    assert (
        beside(row(found[0], "contrastive"))["validation", "refit"].value
        > beside(row(found[0]))["validation", "refit"].value
    )
    for ranking in found:
        assert [(each.rank, each.loss) for each in ranking.rows] == [
            (1, "triplet"),
            (2, "contrastive"),
        ]


def test_readings_of_the_same_seeds_are_paired(found: list[Ranking]) -> None:
    """Each has one hit less per class than the other in every seed, so the difference does not vary
    at all.
    """
    gaps = {
        (each.setup, each.what): each.difference["recall_at_1"] for each in row(found[0]).beside
    }
    for key, gap in (
        (("validation", "last epoch"), -0.2),
        (("validation", "refit"), 0.2),
        (("validation", "published setting"), -0.2),
    ):
        assert (gaps[key].value, gaps[key].low, gaps[key].high) == pytest.approx((gap, gap, gap))
    assert (
        "*" in gaps["default", "published setting, last epoch"].percent()
    )  # what it is held against peeks
    assert "*" not in gaps["validation", "refit"].percent()
    own = row(found[0]).validation["recall_at_1"]
    assert own.high - own.low > 0.05


def test_the_edge_of_a_range_is_told_of_chosen_settings_under_the_protocol_of_the_ranking(
    found: list[Ranking],
) -> None:
    edges = [
        [note for note in each.notes if "at the edge" in note and "contrastive" in note]
        for each in found
    ]
    assert [len(each) for each in edges] == [2, 1]
    assert "under default was chosen as 0," in edges[1][0]
    assert f"under {RATIO} was chosen as 0," in " ".join(edges[0])


def test_a_loss_that_has_only_numbers_beside_is_listed_without_a_rank() -> None:
    made = [
        final("triplet", RATIO, "final", 1),
        final("contrastive", RATIO, "published", 1, more=3),
    ]
    (ranking,) = rankings(rows_of(made))
    assert [(each.rank, each.loss) for each in ranking.rows] == [
        (1, "triplet"),
        (None, "contrastive"),
    ]
    assert row(ranking, "contrastive").beside[0].difference == {}


def test_a_real_store_gives_the_same_rankings(tmp_path: Path, found: list[Ranking]) -> None:
    made = [
        one for one in everything() if one.loss == "triplet" and one.protocol in ("default", FOLDS)
    ]
    (again,) = rankings(read_study(write_study(tmp_path, made)))
    assert row(again).validation == row(found[1]).validation
    assert row(again).default == row(found[1]).default
    assert {key: number.value for key, number in beside(row(again)).items()} == {
        key: number.value for key, number in beside(row(found[1])).items()
    }


def test_trials_of_two_settings_are_never_one_number_though_a_seed_failed_later() -> None:
    """The search grew and chose another setting; of the second round seed 2 failed."""
    made = [final("triplet", RATIO, "final", seed) for seed in (1, 2)]
    again = [
        replace(one, number=one.number + 10, queries={place: [5] * 6 for place in one.queries})
        for one in made
    ]
    rows = rows_of(made + again)
    trials = rows.trials.assign(
        seed=rows.trials["seed"] % 10,
        round=[1, 1, 2, 2],
        status=["FINISHED", "FINISHED", "FINISHED", "FAILED"],
    )
    trials["round"] = [1, 1, 2, 2]
    (ranking,) = rankings(replace(rows, trials=trials))
    number = row(ranking).validation["recall_at_1"]
    assert (number.value, number.replicates) == (1.0, 1)
    (before,) = rankings(
        replace(rows, trials=trials.assign(status=["FINISHED"] * 2 + ["UNFINISHED"] * 2))
    )
    assert row(before).validation["recall_at_1"].value == pytest.approx(share(2))


def test_the_replicate_is_the_unit_if_any_trial_of_the_study_has_another_one() -> None:
    one = [final("triplet", RATIO, "final", seed) for seed in (1, 2)]
    (alone,) = rankings(rows_of(one))
    assert row(alone).validation["recall_at_1"].replicates == 2  # seeds
    begun = replace(one[0], role="search", number=0, queries={}, replicate=2)
    (ranking,) = rankings(rows_of([*one, begun]))
    assert row(ranking).validation["recall_at_1"].replicates == 1
    assert row(ranking).validation["recall_at_1"].value == pytest.approx(share(2))


def test_reproductions_are_averaged_within_their_replicate_before_anything_else() -> None:
    """Replicate 1 has three final trials with 2 hits, replicates 2 and 3 one each with 3 and 4."""
    hits = {1: (2, 2, 2), 2: (3,), 3: (4,)}
    made = [
        final("triplet", RATIO, "final", number + 2, replicate=replicate, more=count - 2)
        for replicate, counts in hits.items()
        for number, count in enumerate(counts)
    ]
    (ranking,) = rankings(rows_of(made))
    number = row(ranking).validation["recall_at_1"]
    assert (number.value, number.replicates) == (pytest.approx((2 + 3 + 4) / 3 / 5), 3)


LOSSES = ("triplet", "contrastive", "margin")


def test_losses_and_setups_are_paired_by_replicate() -> None:
    """Each replicate hits in one class more than the one before it, for all losses and setups."""
    for ranking in rankings(replicated_study()):
        assert ranking.replicates == 3
        here = (ranking.dataset, ranking.backbone, ranking.embedding_size) == HERE
        assert ranking.searches == ({loss: [8, 8, 8] for loss in LOSSES} if here else {})
        gap = row(ranking).difference["recall_at_1"]
        assert (gap.low, gap.high) == pytest.approx((gap.value, gap.value))
        assert ("triplet", "margin") in ranking.ahead
        own = row(ranking).validation["recall_at_1"]
        assert own.high - own.low > 0.05
