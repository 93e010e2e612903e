"""The ranking equals what one computes from the raw rows by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.tables import Ranking, rankings
from analysis.tracking import Tracker, read_study
from tests.support.stores import CLASSES, PER_CLASS, write_study

BASE = {("triplet", "best-on-test"): 4, ("triplet", "selected-on-validation"): 3, ("contrastive", "best-on-test"): 2,
        ("contrastive", "selected-on-validation"): 1, ("untrained", "untrained"): 0,
        ("pca", "untrained"): 1}  # fmt: skip


def score(loss: str, rule: str, seed: int, label: int, query: int) -> tuple[float, float]:
    """BASE of every five queries hit, one more in class 0 for seed 0."""
    hits = BASE[loss, rule] + (seed == 0 and label == 0)
    return float(query < hits), (query < hits) / 2


@pytest.fixture(scope="module")
def ranking(tmp_path_factory: pytest.TempPathFactory) -> Ranking:
    (found,) = rankings(read_study(write_study(tmp_path_factory.mktemp("store"), "s", score), "s"))
    return found


def by_hand(loss: str, rule: str, seeds: int = 3) -> float:
    hits = [score(loss, rule, seed, label, query)[0] for seed in range(seeds) for label in range(CLASSES) for query in range(PER_CLASS)]
    return sum(hits) / len(hits)


def test_means_equal_the_raw_rows(ranking: Ranking) -> None:
    for row in ranking.rows:
        for side, rule in ((row.default, "best-on-test"), (row.validation, "selected-on-validation")):
            assert side["recall_at_1"].value == pytest.approx(by_hand(row.loss, rule))
            assert side["map_at_r"].value == pytest.approx(by_hand(row.loss, rule) / 2)
            assert side["recall_at_1"].low <= side["recall_at_1"].value <= side["recall_at_1"].high
            assert side["recall_at_1"].seeds == 3


def test_the_difference_is_validation_minus_default_with_its_own_interval(ranking: Ranking) -> None:
    for row in ranking.rows:
        gap = row.difference["recall_at_1"]
        assert gap.value == pytest.approx(row.validation["recall_at_1"].value - row.default["recall_at_1"].value)
        assert gap.low <= gap.value <= gap.high < 0


def test_losses_are_ranked_by_the_validation_setup(ranking: Ranking) -> None:
    assert [(row.rank, row.loss, row.rank_interval) for row in ranking.rows] == [(1, "triplet", (1, 1)), (2, "contrastive", (2, 2))]


def test_every_number_chosen_with_test_feedback_is_marked_and_no_other(ranking: Ranking) -> None:
    for row in ranking.rows:
        assert all(number.percent().endswith("*") for number in row.default.values())
        assert all("*" in number.signed() for number in row.difference.values())
        assert not any("*" in number.percent_interval() for number in row.validation.values())


def test_baselines_stand_beside_and_are_not_ranked(ranking: Ranking) -> None:
    assert list(ranking.baselines) == ["raw pixels", "untrained tiny", "PCA of tiny"]
    assert ranking.baselines["raw pixels"]["recall_at_1"].value == pytest.approx(by_hand("untrained", "untrained", seeds=1))
    assert ranking.baselines["PCA of tiny"]["recall_at_1"].value == pytest.approx(by_hand("pca", "untrained"))
    assert not {"untrained", "pca"} & {row.loss for row in ranking.rows}


def test_notes_say_what_the_mark_and_the_interval_mean(ranking: Ranking) -> None:
    text = " ".join(ranking.notes)
    assert "test feedback" in text
    assert "test classes and 3 seeds" in text


def test_an_empty_study_has_no_ranking(tmp_path: Path) -> None:
    Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}", "empty", artifacts=None)
    assert rankings(read_study(f"sqlite:///{tmp_path / 'mlflow.db'}", "empty")) == []
