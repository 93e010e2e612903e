"""The sentences claim no more than the intervals allow."""

import numpy as np
import pytest

from analysis.answer import answer
from analysis.tables import Number, Ranking, RankingRow, rankings
from tests.support.made import RATIO, Made, final, rows_of


def ranked(*losses: str, worlds: dict[str, np.ndarray], default: dict[str, float] | None = None, untuned: tuple[str, ...] = ()) -> Ranking:
    def side(value: float, rule: str, setting: str = "tuned") -> dict[str, Number]:
        return {name: Number(value, value - 0.02, value + 0.02, rule, setting=setting) for name in ("recall_at_1", "map_at_r")}

    rows = []
    for rank, loss in enumerate(losses, start=1):
        peeked = side(default[loss], "best-on-test") if default else {}
        gap = side(0.0, "best-on-test") if default else {}
        honest = side(0.5, "selected-on-validation", "published" if loss in untuned else "tuned")
        rows.append(RankingRow(loss, peeked, honest, gap, rank, (1, len(losses))))
    return Ranking("sketches", "tiny", 16, rows, {"raw pixels": side(0.3, "untrained")}, worlds=worlds)


def worlds(**centres: float) -> dict[str, np.ndarray]:
    """Centres in percent, each with a spread of one point."""
    rng = np.random.default_rng(0)
    return {name.replace("_", " "): rng.normal(centre, 1, 4000) for name, centre in centres.items()}


def test_the_answer_names_who_cannot_be_told_apart():
    said = answer(ranked("a", "b", "c", worlds=worlds(a=50, b=49, c=20, raw_pixels=30)), tuned=True)
    assert said[0].startswith("After fair tuning, a is first with a test Recall@1 of 50.0")
    assert "(selected-on-validation)" in said[0]
    assert said[0].endswith("it cannot be told apart from b.")
    assert said[1] == "Not shown to beat raw pixels (30.0 %, untrained): c."


@pytest.mark.parametrize(
    ("untuned", "said"),
    [
        (("a",), "After tuning, but with the published setting of a, a is first"),
        (("b",), "After tuning, but with the published setting of b, a is first"),
        (("a", "b"), "With published settings, because no search chose any, and with epochs chosen on held-out classes, a is first"),
    ],
)
def test_a_loss_whose_search_chose_nothing_was_not_tuned_fairly(untuned: tuple[str, ...], said: str):
    (first, *_) = answer(ranked("a", "b", worlds=worlds(a=50, b=40, raw_pixels=30), untuned=untuned), tuned=True)
    assert first.startswith(said)


def test_the_answer_says_when_the_order_may_be_chance():
    said = answer(ranked("a", "b", "c", worlds=worlds(a=50, b=50, c=50, raw_pixels=50)), tuned=False)
    assert "no other loss can be told apart from it" in said[0]
    assert "After fair tuning" not in said[0]
    assert said[1] == "No loss is shown to beat raw pixels (30.0 %, untrained)."


def test_the_answer_says_when_the_first_is_clear_and_what_peeking_would_have_said():
    said = answer(ranked("a", "b", default={"a": 0.5, "b": 0.6}, worlds=worlds(a=50, b=40, raw_pixels=30)), tuned=True)
    assert "every other loss is behind it beyond chance" in said[0]
    assert said[1] == "Every loss beats raw pixels (30.0 %, untrained)."
    assert "would have put b first (60.0* %, best-on-test)" in said[2]
    assert "beyond chance for no loss" in said[2]


def test_a_winner_whose_search_failed_is_known_by_its_own_final_trials():
    made = [Made(loss, RATIO, "search", 0) for loss in ("triplet", "contrastive")]
    made += [final("triplet", RATIO, "final", seed, tuned=False, more=1) for seed in (1, 2)]
    made += [final("contrastive", RATIO, "final", seed) for seed in (1, 2)]
    (ranking,) = rankings(rows_of(made))
    assert answer(ranking, tuned=True)[0].startswith("After tuning, but with the published setting of triplet, triplet is first")
