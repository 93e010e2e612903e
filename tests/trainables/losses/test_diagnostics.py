"""Diagnostics of a batch, and the share of tuples that gave a gradient."""

import math

import pytest
import torch
from torch.nn import functional as F

from search_spaces import LOSSES
from tests.support.formulas_pair import cosine, mean, positives_and_negatives
from tests.support.specs import batch, batch_for
from trainables.losses import BUILDERS, Objective
from trainables.losses.diagnostics import describe_batch


def test_a_look_equals_plain_loops():
    embeddings, labels = batch(0)
    x, y = embeddings.tolist(), labels.tolist()
    found = describe_batch(embeddings, labels)
    assert found["positive_similarity"] == pytest.approx(
        mean([cosine(x[i], x[j]) for i in range(len(x)) for j in positives_and_negatives(i, y)[0]])
    )
    assert found["negative_similarity"] == pytest.approx(
        mean([cosine(x[i], x[j]) for i in range(len(x)) for j in positives_and_negatives(i, y)[1]])
    )
    # The variance of unit vectors is their mean cosine distance.
    apart = mean([1 - cosine(a, b) for a in x for b in x])
    assert found["spread"] == pytest.approx(apart)


@pytest.mark.parametrize(
    ("rows", "spread"), [([[3.0, 4.0]] * 4, 0), ([[1.0, 0.0], [-2.0, 0.0]] * 2, 1)]
)
def test_collapsed_vectors_have_no_spread_and_opposite_ones_all(rows, spread):
    assert describe_batch(torch.tensor(rows), torch.tensor([0, 0, 1, 1]))[
        "spread"
    ] == pytest.approx(spread, abs=1e-6)


def test_a_batch_without_pairs_of_a_sort_has_no_mean_of_them():
    assert math.isnan(
        describe_batch(torch.randn(3, 2), torch.tensor([0, 1, 2]))["positive_similarity"]
    )
    assert math.isnan(
        describe_batch(torch.randn(3, 2), torch.tensor([0, 0, 0]))["negative_similarity"]
    )


def called(loss: str, embeddings: torch.Tensor, labels: torch.Tensor, **setting) -> Objective:
    objective = BUILDERS[loss](4, 5, **{**LOSSES[loss].defaults, **setting}).double()
    objective(embeddings, labels)
    return objective


def test_the_share_of_tuples_is_that_of_non_zero_ones():
    embeddings, labels = batch(0)
    x, y = F.normalize(embeddings).tolist(), labels.tolist()
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j]
    alive = [y[i] == y[j] or cosine(x[i], x[j]) > 0.5 for i, j in pairs]
    assert called("contrastive", embeddings, labels).tuple_share() == pytest.approx(mean(alive))
    triplets = [
        (a, p, n)
        for a in range(12)
        for p in positives_and_negatives(a, y)[0]
        for n in positives_and_negatives(a, y)[1]
    ]
    near = [math.dist(x[a], x[p]) - math.dist(x[a], x[n]) + 0.2 > 0 for a, p, n in triplets]
    assert called("triplet_euclidean", embeddings, labels).tuple_share() == pytest.approx(
        mean(near)
    )


TUPLED = [loss for loss, card in LOSSES.items() if card.kind in ("pair", "triplet")]
BY_ANCHOR = {
    "multi_similarity",
    "multi_similarity_no_miner",
    "lifted_structure",
    "circle",
    "fast_ap",
    "n_pair",
    "n_pair_nca",
}


@pytest.mark.parametrize("loss", TUPLED)
def test_a_loss_of_pairs_or_triplets_tells_its_share_and_one_of_anchors_none(loss):
    share = called(loss, *batch_for(loss, 0)).tuple_share()
    assert (share is None) == (loss in BY_ANCHOR)
    assert share is None or 0 < share <= 1


@pytest.mark.parametrize("loss", ["triplet", "triplet_p_norm", "margin", "nt_xent"])
def test_without_tuples_the_share_is_zero(loss):
    assert called(loss, torch.randn(4, 5).double(), torch.tensor([0, 1, 2, 3])).tuple_share() == 0


def test_before_the_first_call_there_is_no_share():
    assert BUILDERS["triplet"](4, 5, margin=0.1).tuple_share() is None
