"""The miners, against loops, by their rules, and by the frequencies of what they draw."""

import math
from collections import Counter

import pytest
import torch
from pytorch_metric_learning.distances import CosineSimilarity, LpDistance
from pytorch_metric_learning.miners import DistanceWeightedMiner

from search_spaces import LOSSES
from tests.support.formulas_pair import cosine, distance
from tests.support.formulas_triplet import batch_triplets, semi_hard
from tests.support.specs import batch, triplet_batch
from trainables.losses import BUILDERS
from trainables.losses.mining import (
    DistanceWeighted,
    GivenTriplets,
    RandomPositive,
    SemiHardNegative,
    WholeAnchors,
)

LOPSIDED = torch.tensor([0, 1, 0, 2, 0, 1, 0, 1, 0, 0, 0, 1])
CASES = [batch(0), batch(1), batch(2, per_class=6), (batch(3)[0], LOPSIDED)]


def listed(tuples) -> list[tuple[int, ...]]:
    return list(zip(*(part.tolist() for part in tuples), strict=True))


@pytest.mark.parametrize("case", range(len(CASES)))
def test_semi_hard_negatives_equal_a_triple_loop(case):
    embeddings, labels = CASES[case]
    expected = semi_hard(embeddings.tolist(), labels.tolist())
    assert expected
    assert sorted(listed(SemiHardNegative()(embeddings, labels))) == sorted(expected)


def test_a_negative_exactly_as_similar_as_the_positive_is_not_semi_hard():
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [-1.0, 0.0]])
    triplets = listed(SemiHardNegative()(rows, torch.tensor([0, 0, 1, 1])))
    assert (0, 1, 3) in triplets
    assert (0, 1, 2) not in triplets


@pytest.mark.parametrize("rule", ["none", "easy", "semi_hard", "hard"])
@pytest.mark.parametrize("kind", ["cosine", "euclidean"])
def test_given_triplets_keep_their_pairs_and_get_the_negative_of_the_rule(rule, kind):
    apart = {"cosine": lambda a, b: -cosine(a, b), "euclidean": distance}[kind]
    library = {"cosine": CosineSimilarity(), "euclidean": LpDistance(normalize_embeddings=False)}[
        kind
    ]
    for seed in range(5):
        embeddings, labels = triplet_batch(seed)
        found = listed(GivenTriplets(rule, library)(embeddings, labels))
        assert found == batch_triplets(embeddings.tolist(), labels.tolist(), apart, rule)
        assert rule == "semi_hard" or [pair[:2] for pair in found] == [
            (0, 1),
            (3, 4),
            (6, 7),
            (9, 10),
        ]


def test_rows_that_are_no_triplet_are_left_out():
    miner = GivenTriplets("none", CosineSimilarity())
    assert listed(miner(torch.randn(8, 2), torch.tensor([0, 0, 1, 0, 1, 0, 1, 1]))) == [(0, 1, 2)]
    assert listed(miner(torch.randn(3, 2), torch.tensor([0, 0, 0]))) == []


def test_a_random_positive_is_any_other_of_its_class_and_its_negative_is_semi_hard():
    embeddings, labels = batch(0, per_class=4)
    allowed = set(semi_hard(embeddings.tolist(), labels.tolist()))
    torch.manual_seed(0)
    drawn = [listed(RandomPositive()(embeddings, labels)) for _ in range(200)]
    # One triplet per image.
    assert all(len({a for a, _, _ in triplets}) == len(triplets) for triplets in drawn)
    counts = Counter(triplet for triplets in drawn for triplet in triplets)
    assert set(counts) == allowed
    assert all(35 < count < 105 for count in counts.values())  # 200 draws of one in three


def test_whole_anchors_have_both_sorts_of_pairs():
    labels = torch.tensor([0, 0, 1, 2, 2])
    anchors, positives, others, negatives = WholeAnchors()(torch.randn(5, 2), labels)
    assert set(anchors.tolist()) == set(others.tolist()) == {0, 1, 3, 4}
    assert (labels[anchors] == labels[positives]).all()
    assert (anchors != positives).all()
    assert (labels[others] != labels[negatives]).all()
    assert [len(part) for part in WholeAnchors()(torch.randn(3, 2), torch.tensor([0, 0, 0]))] == [
        0
    ] * 4


def test_a_distance_weighted_negative_comes_as_often_as_one_over_the_density_of_its_distance():
    """Wu et al., section 4: log q(d) = (n - 2) log d + (n - 3) / 2 log(1 - d^2 / 4), d >= 0.5."""
    angles = torch.tensor([0.0, 0.1, 0.9, 1.2, 1.5, 3.0])
    rows = torch.stack([angles.cos(), angles.sin(), *torch.zeros(3, 6)], dim=1)
    labels = torch.tensor([0, 0, 1, 2, 3, 4])
    apart = {n: distance(rows[0].tolist(), rows[n].tolist()) for n in (2, 3, 4, 5)}
    weights = {
        n: math.exp(-(3 * math.log(max(d, 0.5)) + math.log(1 - d * d / 4))) if d < 1.4 else 0
        for n, d in apart.items()
    }
    objective = BUILDERS["margin"](5, 5, **LOSSES["margin"].defaults)
    counts: Counter[int] = Counter()
    for _ in range(1000):
        counts.update(n for a, _, n in listed(objective.mine(rows, labels)) if a == 0)
        objective.steps += 1
    total = sum(counts.values())
    assert total == 2000  # as many triplets per anchor as its class has images
    for n, weight in weights.items():
        assert counts[n] / total == pytest.approx(weight / sum(weights.values()), abs=0.04)


@pytest.mark.parametrize("case", range(len(CASES)))
def test_distance_weighted_triplets_come_as_often_as_the_librarys(case):
    embeddings, labels = CASES[case]
    torch.manual_seed(0)
    ours, theirs = (
        Counter(triplet for _ in range(500) for triplet in listed(miner(embeddings, labels)))
        for miner in (DistanceWeighted(), DistanceWeightedMiner())
    )
    assert {a for a, _, _ in ours} == {a for a, _, _ in theirs}
    assert sum(ours.values()) == sum(theirs.values())
    for triplet in {*ours, *theirs}:
        spread = math.sqrt(ours[triplet] + theirs[triplet])
        assert abs(ours[triplet] - theirs[triplet]) < 5 * spread + 1, triplet


def test_a_row_without_negatives_near_enough_has_no_distance_weighted_triplets():
    rows = torch.tensor([[1.0, 0.0], [0.9, 0.1], [-1.0, 0.0], [-0.9, 0.1]])
    labels = torch.tensor([0, 0, 1, 1])
    assert listed(DistanceWeighted()(rows, labels)) == []
    assert listed(DistanceWeighted()(rows * math.nan, labels)) == []
