"""Laws of every metric, another library's answers and worked examples."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.neighbors import NearestNeighbors

from tests.support.slow_metrics import CASES, COSINES, EVERY, PER_QUERY, data
from trainables.contract import DatasetRef
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import index
from trainables.metrics.clustering import CLUSTERING
from trainables.metrics.retrieval import (
    LOSS_VALUE,
    METRICS,
    NEAREST,
    SCORES,
    check_metric,
    feature_of,
    score_retrieval,
)


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def test_the_cases_do_not_all_score_the_same():
    means = [tuple(score_retrieval(*case, EVERY).means.values()) for case in CASES.values()]
    assert len(set(means)) == len(means)
    assert all(any(mean) for mean in means)


@pytest.mark.parametrize("seed", range(4))
def test_the_metrics_equal_those_of_pytorch_metric_learning(seed):
    embeddings, labels = data(seed, count=150, classes=9)
    labels = torch.unique(labels, return_inverse=True)[1]
    ours = score_retrieval(
        embeddings,
        labels,
        ("recall_at_1", "precision_at_1", "r_precision", "map_at_r", "matched_recall_at_1"),
    ).means
    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(
        include=names, k="max_bin_count", knn_func=CustomKNN(CosineSimilarity())
    )
    theirs = calculator.get_accuracy(embeddings, labels)
    assert [ours[name] for name in ("precision_at_1", "r_precision", "map_at_r")] == pytest.approx(
        [theirs[name] for name in names], rel=1e-6
    )
    assert ours["recall_at_1"] == ours["precision_at_1"] == ours["matched_recall_at_1"]


# ---- worked examples

# The table of retrieval results in A Metric Learning Reality Check: ten matches exist, and these
# are their places among the first ten.
EXAMPLES = {
    "only the first": ([0], 0.10, 0.10),
    "the first and the tenth": ([0, 9], 0.20, 0.12),
    "the first and the second": ([0, 1], 0.20, 0.20),
    "all ten": (list(range(10)), 1.00, 1.00),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_reality_checks_examples_score_as_printed(example):
    places, r_precision, map_at_r = EXAMPLES[example]
    matched = [place in places for place in range(10)] + [False] * 5 + [True] * (10 - len(places))
    # The query, then its list, each farther away.
    angles = torch.arange(len(matched) + 1, dtype=torch.float64) / 20
    embeddings = torch.stack([angles.cos(), angles.sin()], dim=1)
    result = score_retrieval(
        embeddings,
        torch.tensor([1, *map(int, matched)]),
        ("recall_at_1", "r_precision", "map_at_r"),
    )
    first = {name: values[0].item() for name, values in result.queries.items()}
    assert first == pytest.approx(
        {"recall_at_1": 1.0, "r_precision": r_precision, "map_at_r": map_at_r}
    )


# ---- laws


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_has_a_value_per_query_or_is_a_clustering_or_the_loss(name):
    assert (name in SCORES) + (name in CLUSTERING) + (name == LOSS_VALUE) == 1
    assert {*SCORES, *CLUSTERING, LOSS_VALUE} == set(METRICS)
    assert set(NEAREST) <= set(SCORES)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("classes", [2, 5])
def test_equal_embeddings_never_score(name, classes):
    score = score_retrieval(
        torch.ones(60, 8), torch.arange(60) % classes, (name,), gallery_classes=2
    ).means[name]
    if name == "f1":  # one cluster has every pair of a class in it
        same = (60 / classes - 1) / 59
        assert score == pytest.approx(2 * same / (1 + same))
    else:
        assert score == pytest.approx(float(name in COSINES), abs=1e-6)


@pytest.mark.parametrize("name", EVERY)
def test_classes_at_right_angles_score_one(name):
    # A query has four matches.
    best = {"negative_cosine": 0.0, "precision_at_5": 4 / 5, "precision_at_8": 4 / 8}
    labels = torch.arange(30) % 6
    score = score_retrieval(torch.eye(8)[labels], labels, (name,), gallery_classes=4).means[name]
    assert score == pytest.approx(best.get(name, 1.0))


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_embeddings_that_are_no_direction_score_zero(value):
    means = score_retrieval(
        torch.full((40, 8), value), torch.arange(40) % 4, PER_QUERY, gallery_classes=2
    ).means
    assert set(means.values()) == {0.0}


@pytest.mark.parametrize("name", EVERY)
def test_one_embedding_that_is_not_a_number_spoils_no_other(name):
    embeddings, labels = CASES["clustered"]
    spoilt = embeddings.clone()
    spoilt[3, 0] = math.nan
    result, whole = (
        score_retrieval(spoilt, labels, (name,)),
        score_retrieval(embeddings, labels, (name,)),
    )
    assert result.means[name] == pytest.approx(
        whole.means[name], abs=0.2 if name in CLUSTERING else 0.1
    )


@pytest.mark.parametrize("name", EVERY)
def test_a_score_depends_on_no_generator_and_moves_none(name):
    embeddings, labels = CASES["many"]
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    one = score_retrieval(embeddings, labels, (name,), gallery_classes=5)
    drawn = torch.rand(1).item(), np.random.rand()  # noqa: NPY002
    two = score_retrieval(embeddings, labels, (name,), gallery_classes=5)
    assert one.means == two.means
    assert all(torch.equal(one.queries[key], two.queries[key]) for key in one.queries)
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002
    assert drawn == (torch.rand(1).item(), np.random.rand())  # noqa: NPY002


@pytest.mark.parametrize("name", EVERY)
def test_a_metric_has_a_mean_and_all_but_clusterings_a_value_per_scored_query(name):
    result = score_retrieval(*CASES["lonely"], (name,))
    assert list(result.means) == [name]
    assert [len(values) for values in result.queries.values()] == (
        [] if name in CLUSTERING else [27]
    )


def test_a_query_never_finds_itself_even_among_duplicates():
    corner = torch.eye(4)
    # Every image has its duplicate in another class and its match at a right angle.
    embeddings = corner[[0, 0, 1, 1]]
    assert score_retrieval(
        embeddings, torch.tensor([0, 1, 0, 1]), ("recall_at_1", "recall_at_2")
    ).means == {
        "recall_at_1": 0.0,
        "recall_at_2": 0.0,
    }
    # With its duplicate in its own class every image finds it, and only it.
    assert score_retrieval(
        embeddings, torch.tensor([0, 0, 1, 1]), ("recall_at_1", "precision_at_2")
    ).means == {
        "recall_at_1": 1.0,
        "precision_at_2": 0.5,
    }


def test_lone_queries_are_counted_and_not_scored_but_stay_in_the_way_of_others():
    corner = torch.eye(3)
    embeddings = torch.stack(
        [corner[0], corner[0] + 0.5 * corner[1], corner[0] + 0.1 * corner[1], corner[2]]
    )
    result = score_retrieval(embeddings, torch.tensor([0, 0, 1, 2]), ("recall_at_1", "recall_at_2"))
    assert result.lone == 2
    assert result.scored.tolist() == [0, 1]
    assert result.means == {"recall_at_1": 0.0, "recall_at_2": 1.0}


def test_nothing_but_lone_queries_scores_zero():
    result = score_retrieval(torch.eye(3), torch.arange(3), EVERY)
    assert set(result.means.values()) == {0.0}
    assert (result.lone, len(result.scored)) == (3, 0)


@pytest.mark.parametrize("case", CASES)
def test_recall_never_falls_with_k_and_reaches_one(case):
    embeddings, labels = CASES[case]
    ks = list(range(1, len(labels)))
    means = score_retrieval(embeddings, labels, tuple(f"recall_at_{k}" for k in ks)).means
    values = [means[f"recall_at_{k}"] for k in ks]
    assert values == sorted(values)
    assert values[-1] == 1
    assert values[0] < 1 or case in ("one class", "clustered")


@pytest.mark.parametrize("seed", range(3))
def test_the_cosines_and_the_triplets_are_what_a_large_sample_of_triplets_tends_to(seed):
    embeddings, labels = data(seed, count=90, classes=4)
    result = score_retrieval(embeddings, labels, ("triplet_accuracy", *COSINES))
    rng, unit = np.random.default_rng(seed), torch.nn.functional.normalize(embeddings).numpy()
    anchors = rng.choice(result.scored.numpy(), 5_000)
    positives = [
        rng.choice(np.flatnonzero((labels.numpy() == labels[a].item()) & (np.arange(90) != a)))
        for a in anchors
    ]
    negatives = [rng.choice(np.flatnonzero(labels.numpy() != labels[a].item())) for a in anchors]
    near, far = (unit[anchors] * unit[positives]).sum(1), (unit[anchors] * unit[negatives]).sum(1)
    sampled = {
        "triplet_accuracy": (near > far).mean(),
        "positive_cosine": near.mean(),
        "negative_cosine": far.mean(),
    }
    assert result.means == pytest.approx(sampled, abs=0.03)


def test_with_one_class_there_is_nothing_to_compare_with():
    result = score_retrieval(*CASES["one class"], ("triplet_accuracy", "negative_cosine"))
    assert result.means == {"triplet_accuracy": 0.0, "negative_cosine": 0.0}


@pytest.mark.parametrize("name", EVERY)
def test_no_metric_sees_the_length_of_an_embedding(name):
    embeddings, labels = CASES["many"]
    lengths = torch.linspace(0.1, 10, len(labels), dtype=torch.float64)[:, None]
    mean = score_retrieval(embeddings, labels, (name,), gallery_classes=5).means
    assert score_retrieval(
        embeddings * lengths, labels, (name,), gallery_classes=5
    ).means == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("name", PER_QUERY)
def test_no_metric_sees_the_order_of_the_images_or_the_numbers_of_the_classes(name):
    embeddings, labels = CASES["many"]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    mean = score_retrieval(embeddings, labels, (name,), gallery_classes=5).means
    assert score_retrieval(
        embeddings[order], 10**9 + 3 * labels[order], (name,), gallery_classes=5
    ).means == pytest.approx(mean, rel=1e-6)


def test_raw_pixels_of_sketches_find_a_match_for_17_of_100_queries():
    listed, images = index(DatasetRef("sketches")), DATASETS["sketches"].pixels()
    rows = listed.ids(listed.test)
    pixels, labels = (
        torch.from_numpy(images[rows]).flatten(1).float(),
        torch.from_numpy(listed.labels[rows]),
    )
    recall = score_retrieval(pixels, labels - labels.min(), ("recall_at_1",)).means["recall_at_1"]
    assert 0.165 < recall < 0.18
    neighbours = (
        NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute")
        .fit(pixels.numpy())
        .kneighbors(return_distance=False)
    )
    # Ties are arbitrary there.
    assert recall == pytest.approx(
        (labels[neighbours[:, 0]] == labels).double().mean().item(), abs=5e-4
    )


@pytest.mark.parametrize("name", sorted(name for name in METRICS if name.endswith("K")))
def test_the_k_of_a_listed_metric_must_be_a_number(name):
    with pytest.raises(ValueError, match=f"^{name} needs a number in place of K, as in "):
        check_metric(name)


@pytest.mark.parametrize("name", EVERY)
def test_a_metric_that_is_listed_is_accepted_also_of_pooled_features(name):
    assert check_metric(name) == name
    assert check_metric(f"pooled_{name}") == f"pooled_{name}"
    assert feature_of(name) == ("embedding", name)
    assert feature_of(f"pooled_{name}") == ("pooled", name)


def test_a_name_is_checked_without_torch_or_scikit_learn():
    code = (
        "import sys; from trainables.metrics.retrieval import check_metric; check_metric('nmi'); "
        "print({'torch', 'sklearn'} & {*sys.modules})"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("map_at_R", "map_at_r"),
        ("recal_at_1", "recall_at_K"),
        ("recall_at_0", "recall_at_K"),
        ("precision", "r_precision"),
        ("matched_recall_at_0", "matched_recall_at_K"),
        ("triplet_acuracy", "triplet_accuracy"),
    ],
)
def test_a_metric_that_is_not_is_answered_with_the_near_one(name, near):
    with pytest.raises(ValueError, match=f"^Unknown metric '{name}'. Did you mean '{near}'"):
        check_metric(name)


@pytest.mark.parametrize("name", ["pooled_recall_at_K", "pooled_matched_recall_at_K"])
def test_the_k_of_a_pooled_metric_must_be_a_number_too(name):
    with pytest.raises(
        ValueError, match=f"^{name} needs a number in place of K, as in {name[:-1]}1"
    ):
        check_metric(name)


@pytest.mark.parametrize("name", ["pooled_", "pooled_pooled_nmi", "pooled_map"])
def test_pooled_does_not_make_a_metric(name):
    with pytest.raises(ValueError, match=r"^Unknown metric"):
        check_metric(name)
