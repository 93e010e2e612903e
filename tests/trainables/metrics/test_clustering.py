"""NMI and F1 against their definitions in plain Python and against another library."""

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
import torch
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from sklearn.cluster import KMeans

from tests.support.pretend_gpu import pretend_gpu
from tests.support.slow_metrics import CASES, data
from trainables.metrics.clustering import CLUSTERING, cluster, f1, nmi
from trainables.metrics.k_means import k_means
from trainables.metrics.ranking import directions
from trainables.metrics.retrieval import score_retrieval


def slow_f1(labels: list[int], found: list[int]) -> float:
    pairs = list(combinations(range(len(labels)), 2))
    together, same = (
        [found[i] == found[j] for i, j in pairs],
        [labels[i] == labels[j] for i, j in pairs],
    )
    right = sum(a and b for a, b in zip(together, same, strict=True))
    if not right:
        return 0.0
    precision, recall = right / sum(together), right / sum(same)
    return 2 * precision * recall / (precision + recall)


def slow_nmi(labels: list[int], found: list[int]) -> float:
    """Mutual information over the mean of both entropies."""

    def entropy(values: list) -> float:
        return -sum(n / len(values) * math.log(n / len(values)) for n in Counter(values).values())

    own, other, both = (
        entropy(labels),
        entropy(found),
        entropy(list(zip(labels, found, strict=True))),
    )
    return 2 * (own + other - both) / (own + other)


SLOW = {"nmi": slow_nmi, "f1": slow_f1}


@pytest.mark.parametrize("name", CLUSTERING)
@pytest.mark.parametrize("seed", range(5))
def test_a_clustering_scores_as_defined(name, seed):
    rng = np.random.default_rng(seed)
    labels, found = rng.integers(6, size=50), rng.integers(2 + seed, size=50)
    assert CLUSTERING[name](labels, found) == pytest.approx(
        SLOW[name](labels.tolist(), found.tolist())
    )


@pytest.mark.parametrize(
    "case", ["random", "many", "tied", "lonely", "clustered", "duplicated", "constant"]
)
def test_lone_images_are_clustered_with_all_others_into_as_many_clusters_as_classes(case):
    embeddings, labels = CASES[case]
    found = cluster(directions(embeddings), len(labels.unique()))
    assert len(found) == len(labels)
    means = score_retrieval(embeddings, labels, ("nmi", "f1")).means
    assert means == pytest.approx(
        {name: slow(labels.tolist(), found.tolist()) for name, slow in SLOW.items()}, abs=1e-9
    )


def test_nmi_of_the_same_clusters_is_that_of_pytorch_metric_learning():
    embeddings, labels = data(0, count=150, classes=9)
    labels = torch.unique(labels, return_inverse=True)[1]
    calculator = AccuracyCalculator(
        include=("NMI",), kmeans_func=lambda unit, count: torch.from_numpy(cluster(unit, count))
    )
    theirs = calculator.get_accuracy(directions(embeddings), labels)["NMI"]
    assert score_retrieval(embeddings, labels, ("nmi",)).means["nmi"] == pytest.approx(theirs)


def test_no_pair_found_scores_zero():
    assert f1(np.array([0, 0, 1]), np.array([0, 1, 1])) == 0
    assert f1(np.arange(3), np.arange(3)) == 0
    assert nmi(np.array([0, 0, 1, 1]), np.zeros(4)) == 0


def spread_within(rows: torch.Tensor, found: np.ndarray) -> float:
    """Return the sum of squared distances to the clusters' means."""
    return sum(
        float((rows[found == each] - rows[found == each].mean(0)).square().sum())
        for each in np.unique(found)
    )


def test_clusters_are_as_tight_as_scikit_learns():
    ours, theirs = [], []
    for seed in range(8):
        embeddings, _ = data(seed, count=200, classes=12)
        unit = directions(embeddings)
        other = KMeans(12, n_init=1, random_state=seed).fit_predict(unit.numpy())
        ours.append(spread_within(unit, k_means(unit, 12).numpy()))
        theirs.append(spread_within(unit, other))
    assert np.mean(ours) == pytest.approx(np.mean(theirs), rel=0.02)


def test_clusters_that_lie_apart_are_found():
    generator = torch.Generator().manual_seed(0)
    centres = torch.nn.functional.normalize(torch.randn(20, 16, generator=generator))
    labels = torch.arange(20).repeat_interleave(7)
    rows = centres[labels] + 0.02 * torch.randn(140, 16, generator=generator)
    assert nmi(labels.numpy(), k_means(rows, 20).numpy()) == pytest.approx(1)
    other = KMeans(20, n_init=1, random_state=0).fit_predict(rows.numpy())
    assert nmi(labels.numpy(), other) == pytest.approx(1)


def test_clusters_do_not_depend_on_how_many_distances_are_held_at_a_time(monkeypatch):
    rows = directions(data(0, count=150, classes=9)[0])
    whole = k_means(rows, 9)
    monkeypatch.setattr("trainables.metrics.k_means.BLOCK_BYTES", 1000)
    assert torch.equal(k_means(rows, 9), whole)


def test_clusters_are_found_on_the_gpu_and_only_their_numbers_come_back():
    embeddings, labels = data(0, count=150, classes=9)
    unit = directions(embeddings).float()
    here = cluster(unit, 9)
    with pretend_gpu() as gpu:
        there = cluster(unit.to("cuda:0"), 9)
    assert (here == there).all()
    copied = [size for kind, size in gpu.copies if kind == "device to host"]
    assert max(copied) <= 8 * len(labels)
