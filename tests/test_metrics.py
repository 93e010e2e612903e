"""Retrieval metrics against full sorting in plain Python, another library and worked examples."""

import math

import pytest
import torch
from pytorch_metric_learning.distances import CosineSimilarity
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN
from sklearn.neighbors import NearestNeighbors
from torch import Tensor

from trainables.datasets.catalogue import load
from trainables.metrics.retrieval import METRICS, check_metric, ranking, retrieval

EVERY = tuple(name.replace("K", str(k)) for name in METRICS for k in ((1, 2, 5, 8) if name.endswith("K") else (0,)))


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


# ---- brute force --------------------------------------------------------------------------------------------------------


def slow_score(name: str, matched: list[bool], exist: int) -> float:
    """One query's score from its full list, nearest first, each place a match or not."""
    if name.startswith("recall_at_"):
        return float(any(matched[: int(name.removeprefix("recall_at_"))]))
    if name.startswith("precision_at_"):
        k = int(name.removeprefix("precision_at_"))
        return sum(matched[:k]) / k
    if name == "r_precision":
        return sum(matched[:exist]) / exist
    assert name == "map_at_r"
    return sum(sum(matched[: i + 1]) / (i + 1) for i in range(exist) if matched[i]) / exist


def slow_retrieval(embeddings: list[list[float]], labels: list[int], names: tuple[str, ...]) -> tuple[dict[str, list[float]], list[int]]:
    """Sort everything for every query; among equals the wrong ones come first."""
    unit = [[x / math.sqrt(sum(v * v for v in row)) for x in row] for row in embeddings]
    values: dict[str, list[float]] = {name: [] for name in names}
    scored = []
    for q in range(len(unit)):
        others = [i for i in range(len(unit)) if i != q]
        similarity = {i: round(sum(a * b for a, b in zip(unit[q], unit[i], strict=True)), 12) for i in others}
        others.sort(key=lambda i: (-similarity[i], labels[i] == labels[q]))
        matched = [labels[i] == labels[q] for i in others]
        if any(matched):
            scored.append(q)
            for name in names:
                values[name].append(slow_score(name, matched, sum(matched)))
    return values, scored


def data(seed: int, *, count: int = 60, classes: int = 7, size: int = 6, leaning: float = 0.7) -> tuple[Tensor, Tensor]:
    """Classes of unequal size."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(count, generator=generator).square() * classes).long()
    centres = torch.randn(classes, size, generator=generator, dtype=torch.float64)
    return leaning * centres[labels] + torch.randn(count, size, generator=generator, dtype=torch.float64), labels


def tied(seed: int) -> tuple[Tensor, Tensor]:
    """Forty images on six points of a circle: ties everywhere, between matches and others."""
    generator = torch.Generator().manual_seed(seed)
    angles = torch.randint(6, (40,), generator=generator) * math.pi / 3
    return torch.stack([angles.cos(), angles.sin()], dim=1).double(), torch.randint(4, (40,), generator=generator)


def lonely(seed: int) -> tuple[Tensor, Tensor]:
    """Three images whose class has no second one, the first and the last row among them."""
    embeddings, labels = data(seed, count=30, classes=3)
    labels[[0, 12, 29]] = torch.tensor([10, 11, 12])
    return embeddings, labels


CASES = {
    "random": data(0),
    "two": data(1, classes=2),
    "many": data(2, classes=25),
    "tied": tied(3),
    "more ties": tied(4),
    "lonely": lonely(5),
}


@pytest.mark.parametrize("case", CASES)
def test_every_querys_every_metric_equals_full_sorting_in_plain_python(case):
    embeddings, labels = CASES[case]
    result = retrieval(embeddings, labels, EVERY)
    values, scored = slow_retrieval(embeddings.tolist(), labels.tolist(), EVERY)
    assert result.scored.tolist() == scored
    assert result.lone == len(labels) - len(scored)
    assert set(result.queries) == set(result.means) == set(EVERY)
    for name in EVERY:
        assert result.queries[name].tolist() == pytest.approx(values[name], rel=1e-6, abs=1e-7), name
        assert result.means[name] == pytest.approx(sum(values[name]) / len(values[name]), rel=1e-6), name


def test_the_cases_do_not_all_score_the_same():
    means = [tuple(retrieval(*case, EVERY).means.values()) for case in CASES.values()]
    assert len(set(means)) == len(means)
    assert all(any(mean) for mean in means)


@pytest.mark.parametrize("seed", range(4))
def test_the_metrics_equal_those_of_pytorch_metric_learning(seed):
    embeddings, labels = data(seed, count=150, classes=9)
    labels = torch.unique(labels, return_inverse=True)[1]
    ours = retrieval(embeddings, labels, ("recall_at_1", "precision_at_1", "r_precision", "map_at_r")).means
    names = ("precision_at_1", "r_precision", "mean_average_precision_at_r")
    calculator = AccuracyCalculator(include=names, k="max_bin_count", knn_func=CustomKNN(CosineSimilarity()))
    theirs = calculator.get_accuracy(embeddings, labels)
    assert [ours[name] for name in ("precision_at_1", "r_precision", "map_at_r")] == pytest.approx(
        [theirs[name] for name in names], rel=1e-6
    )
    assert ours["recall_at_1"] == ours["precision_at_1"]


# ---- worked examples ----------------------------------------------------------------------------------------------------

# A Metric Learning Reality Check, its table of retrieval results: ten matches exist; where in the first ten places they stand.
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
    angles = torch.arange(len(matched) + 1, dtype=torch.float64) / 20  # the query, then its list, each farther away
    embeddings = torch.stack([angles.cos(), angles.sin()], dim=1)
    result = retrieval(embeddings, torch.tensor([1, *map(int, matched)]), ("recall_at_1", "r_precision", "map_at_r"))
    first = {name: values[0].item() for name, values in result.queries.items()}
    assert first == pytest.approx({"recall_at_1": 1.0, "r_precision": r_precision, "map_at_r": map_at_r})


# ---- laws ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "size"), [(9, 17), (9, 784), (40, 3), (101, 64), (240, 65), (999, 128)])
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("block_bytes", [1, 20_000, 2**26])
def test_equal_embeddings_score_zero_whatever_the_shape_of_the_matrix(monkeypatch, count, size, classes, block_bytes):
    monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes if count < 300 else 2**26)
    one = torch.randn(size, generator=torch.Generator().manual_seed(size))
    for labels in (torch.arange(count) % classes, (torch.arange(count) % classes).sort().values):
        means = retrieval(one.repeat(count, 1), labels, ("recall_at_1", "precision_at_1", "r_precision", "map_at_r")).means
        assert set(means.values()) == {0.0}


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_embeddings_that_are_no_direction_score_zero(value):
    means = retrieval(torch.full((40, 8), value), torch.arange(40) % 4, EVERY).means
    assert set(means.values()) == {0.0}


def test_a_query_never_finds_itself_even_among_duplicates():
    corner = torch.eye(4)
    # Every image has its duplicate in another class and its match at a right angle.
    embeddings = corner[[0, 0, 1, 1]]
    assert retrieval(embeddings, torch.tensor([0, 1, 0, 1]), ("recall_at_1", "recall_at_2")).means == {
        "recall_at_1": 0.0,
        "recall_at_2": 0.0,
    }
    # With its duplicate in its own class every image finds it, and only it.
    assert retrieval(embeddings, torch.tensor([0, 0, 1, 1]), ("recall_at_1", "precision_at_2")).means == {
        "recall_at_1": 1.0,
        "precision_at_2": 0.5,
    }


def test_lone_queries_are_counted_and_not_scored_but_stay_in_the_way_of_others():
    corner = torch.eye(3)
    embeddings = torch.stack([corner[0], corner[0] + 0.5 * corner[1], corner[0] + 0.1 * corner[1], corner[2]])
    result = retrieval(embeddings, torch.tensor([0, 0, 1, 2]), ("recall_at_1", "recall_at_2"))
    assert result.lone == 2
    assert result.scored.tolist() == [0, 1]
    assert result.means == {"recall_at_1": 0.0, "recall_at_2": 1.0}


def test_nothing_but_lone_queries_scores_zero():
    result = retrieval(torch.eye(3), torch.arange(3), EVERY)
    assert set(result.means.values()) == {0.0}
    assert (result.lone, len(result.scored)) == (3, 0)


@pytest.mark.parametrize("case", CASES)
def test_recall_never_falls_with_k_and_reaches_one(case):
    embeddings, labels = CASES[case]
    ks = list(range(1, len(labels)))
    means = retrieval(embeddings, labels, tuple(f"recall_at_{k}" for k in ks)).means
    values = [means[f"recall_at_{k}"] for k in ks]
    assert values == sorted(values)
    assert values[0] < values[-1] == 1


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("block_bytes", [1, 60 * 8 * 7, 60 * 8 * 59])
def test_the_size_of_a_block_does_not_matter(monkeypatch, case, block_bytes):
    embeddings, labels = CASES[case]
    whole = retrieval(embeddings, labels, EVERY)
    monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes)
    parts = retrieval(embeddings, labels, EVERY)
    assert all(torch.equal(whole.queries[name], parts.queries[name]) for name in EVERY)
    assert whole.means == parts.means


def test_no_metric_sees_the_length_of_an_embedding_or_the_order_of_the_images():
    embeddings, labels = CASES["random"]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    lengths = torch.linspace(0.1, 10, len(labels), dtype=torch.float64)[:, None]
    means = retrieval(embeddings, labels, EVERY).means
    assert retrieval((embeddings * lengths)[order], labels[order], EVERY).means == pytest.approx(means, rel=1e-6)


def test_raw_pixels_of_sketches_find_a_match_for_17_of_100_queries():
    sketches = load("sketches")
    rows = sketches.ids(sketches.test)
    pixels, labels = torch.from_numpy(sketches.images[rows]).flatten(1).float(), torch.from_numpy(sketches.labels[rows])
    recall = retrieval(pixels, labels - labels.min(), ("recall_at_1",)).means["recall_at_1"]
    assert 0.165 < recall < 0.18
    neighbours = NearestNeighbors(n_neighbors=1, metric="cosine", algorithm="brute").fit(pixels.numpy()).kneighbors(return_distance=False)
    assert recall == pytest.approx((labels[neighbours[:, 0]] == labels).double().mean().item(), abs=5e-4)  # ties are arbitrary there


@pytest.mark.parametrize("name", sorted(name for name in METRICS if name.endswith("K")))
def test_the_k_of_a_listed_metric_must_be_a_number(name):
    with pytest.raises(ValueError, match=f"^{name} needs a number in the place of K, as in "):
        check_metric(name)


@pytest.mark.parametrize("name", EVERY)
def test_a_metric_that_is_listed_is_accepted(name):
    assert check_metric(name) == name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("map_at_R", "map_at_r"),
        ("recal_at_1", "recall_at_K"),
        ("recall_at_0", "recall_at_K"),
        ("precision", "r_precision"),
    ],
)
def test_a_metric_that_is_not_is_answered_with_the_near_one(name, near):
    with pytest.raises(ValueError, match=f"^Unknown metric '{name}'. Did you mean '{near}'"):
        check_metric(name)
