"""Recall among as many classes as another set has scores every query once a round."""

import numpy as np
import pytest
import torch

from tests.support.slow_metrics import CASES, data, slow_retrieval
from trainables.metrics import galleries
from trainables.metrics.galleries import ROUNDS, deal
from trainables.metrics.retrieval import score_retrieval

NAMES = ("matched_recall_at_1", "matched_recall_at_3")


def slow_matched(
    embeddings: list[list[float]], labels: list[int], size: int
) -> dict[str, list[float]]:
    """Score round by round and query by query, with each gallery written out."""
    classes = sorted(set(labels))
    hits: dict[str, dict[int, float]] = {name: {} for name in NAMES}
    for number in range(ROUNDS):
        order = [classes[i] for i in np.random.default_rng((0, number)).permutation(len(classes))]
        for place, scored in enumerate(order):
            begin = place // size * size
            gallery = (order + order)[begin : begin + size]
            rows = [row for row, label in enumerate(labels) if label in gallery]
            values, inside = slow_retrieval(
                [embeddings[row] for row in rows], [labels[row] for row in rows], NAMES
            )
            for name in NAMES:
                for value, row in zip(values[name], (rows[i] for i in inside), strict=True):
                    if labels[row] == scored:
                        hits[name][row] = hits[name].get(row, 0) + value / ROUNDS
    return {name: [hits[name][row] for row in sorted(hits[name])] for name in NAMES}


@pytest.mark.parametrize(
    ("case", "size"), [("random", 2), ("random", 5), ("tied", 3), ("lonely", 4), ("duplicated", 3)]
)
def test_every_query_equals_its_galleries_written_out(monkeypatch, case, size):
    monkeypatch.setattr(galleries, "ROUNDS", 3)
    monkeypatch.setitem(globals(), "ROUNDS", 3)
    embeddings, labels = CASES[case]
    result = score_retrieval(embeddings, labels, NAMES, gallery_classes=size)
    expected = slow_matched(embeddings.tolist(), labels.tolist(), size)
    for name in NAMES:
        assert result.queries[name].tolist() == pytest.approx(expected[name], rel=1e-6)


@pytest.mark.parametrize("classes", range(2, 13))
@pytest.mark.parametrize("size", range(2, 13))
def test_a_deal_scores_every_class_once_in_a_gallery_of_the_right_size(classes, size):
    dealt = list(deal(list(range(classes)), min(size, classes)))
    assert [each for own, _ in dealt for each in own] == list(range(classes))
    assert all(len({*own, *filling}) == min(size, classes) for own, filling in dealt)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("beyond", [None, 0, 1, 100])
def test_with_all_classes_it_is_plain_recall(case, beyond):
    embeddings, labels = CASES[case]
    size = None if beyond is None else max(2, len(labels.unique()) + beyond)
    result = score_retrieval(
        embeddings, labels, ("recall_at_1", "matched_recall_at_1"), gallery_classes=size
    )
    assert torch.equal(result.queries["recall_at_1"], result.queries["matched_recall_at_1"])
    assert result.means["recall_at_1"] == result.means["matched_recall_at_1"]


def test_fewer_classes_are_easier_and_both_sets_are_then_on_one_scale():
    test, labels = data(0, count=1600, classes=80, size=8)
    few = labels < 8  # a validation set of the same kind
    recall = score_retrieval(test[few], labels[few], ("recall_at_1",)).means["recall_at_1"]
    means = [
        score_retrieval(test, labels, ("matched_recall_at_1",), gallery_classes=size).means[
            "matched_recall_at_1"
        ]
        for size in (8, 20, 50, 80)
    ]
    assert means == sorted(means, reverse=True)
    assert abs(means[0] - recall) < 0.1 < abs(means[-1] - recall)


@pytest.mark.parametrize("size", [-1, 0, 1])
def test_a_gallery_of_one_class_is_refused(size):
    with pytest.raises(ValueError, match="at least two classes"):
        score_retrieval(*CASES["random"], NAMES, gallery_classes=size)
