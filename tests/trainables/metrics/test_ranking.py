"""The places of matches, by each method, against full sorting."""

import pytest
import torch

from tests.support.slow_metrics import CASES, PER_QUERY, data, slow_retrieval, slow_score
from trainables.metrics import ranking
from trainables.metrics.retrieval import score_retrieval

# How far others are looked through, each of the ways in which ranking.py may do it.
WAYS = {
    "as it thinks best": {},
    "counting": {"PICKING": 10**9},
    "picking from groups": {"PICKING": 0, "GROUP": 1},
    "picking from pairs": {"PICKING": 0, "GROUP": 2},
    "sorting": {"PICKING": 0, "GROUP": 64},
    "in narrow stripes": {"PICKING": 10**9, "STRIPE_BYTES": 10_000, "BLOCK_BYTES": 40_000},
}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    for constant, value in WAYS[request.param].items():
        monkeypatch.setattr(ranking, constant, value)


@pytest.fixture(scope="module")
def slow():
    return {
        case: slow_retrieval(embeddings.tolist(), labels.tolist(), PER_QUERY)
        for case, (embeddings, labels) in CASES.items()
    }


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("case", CASES)
def test_every_querys_every_metric_equals_full_sorting_in_plain_python(case, slow):
    embeddings, labels = CASES[case]
    result = score_retrieval(embeddings, labels, PER_QUERY)
    values, scored = slow[case]
    assert result.scored.tolist() == scored
    assert result.lone == len(labels) - len(scored)
    assert list(result.queries) == list(result.means) == list(PER_QUERY)
    for name in PER_QUERY:
        assert result.queries[name].tolist() == pytest.approx(values[name], rel=1e-6, abs=1e-6), (
            name
        )
        assert result.means[name] == pytest.approx(
            sum(values[name]) / len(values[name]), rel=1e-6, abs=1e-6
        ), name


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("case", CASES)
def test_a_metric_asked_alone_is_the_same_as_asked_with_all_others(case):
    together = score_retrieval(*CASES[case], PER_QUERY)
    for name in PER_QUERY:
        alone = score_retrieval(*CASES[case], (name,))
        assert torch.equal(alone.queries[name], together.queries[name]), name
        assert alone.means == {name: together.means[name]}


@pytest.mark.parametrize(("count", "size", "leaning"), [(3001, 16, 0.7), (1500, 64, 0.4)])
def test_thousands_of_rows_equal_a_full_comparison(count, size, leaning):
    embeddings, labels = data(0, count=count, classes=count // 6, size=size, leaning=leaning)
    names = (
        "recall_at_1",
        "recall_at_7",
        "recall_at_300",
        "precision_at_4",
        "r_precision",
        "map_at_r",
        "triplet_accuracy",
    )
    result = score_retrieval(embeddings, labels, names)
    unit = torch.nn.functional.normalize(embeddings)
    for row, query in list(enumerate(result.scored.tolist()))[::5]:
        similarity, match = unit @ unit[query], labels == labels[query]
        match[query], similarity[query] = False, -2
        order = similarity.argsort(descending=True)[:-1]
        expected = [
            slow_score(name, match[order].tolist(), similarity[order].tolist())
            for name in names[:-1]
        ]
        triplets = similarity[match][:, None] > similarity[~match & (similarity > -2)]
        expected.append(triplets.double().mean().item())
        assert [result.queries[name][row].item() for name in names] == pytest.approx(
            expected, abs=1e-9
        )
    # In single precision more others are too close to call, and that is never to a query's
    # advantage.
    for name, values in score_retrieval(embeddings.float(), labels, names).queries.items():
        lost = result.queries[name] - values
        assert lost.min() >= -1e-6
        assert lost.mean() < 1e-3


@pytest.mark.parametrize(
    ("count", "size"), [(9, 17), (9, 784), (40, 3), (101, 64), (240, 65), (999, 128)]
)
@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("block_bytes", [1, 20_000, 2**26])
def test_equal_embeddings_score_zero_whatever_the_shape_of_the_matrix(
    monkeypatch, count, size, classes, block_bytes
):
    monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes if count < 300 else 2**26)
    one = torch.randn(size, generator=torch.Generator().manual_seed(size))
    for labels in (torch.arange(count) % classes, (torch.arange(count) % classes).sort().values):
        means = score_retrieval(
            one.repeat(count, 1),
            labels,
            ("recall_at_1", "precision_at_1", "r_precision", "map_at_r", "triplet_accuracy"),
        ).means
        assert set(means.values()) == {0.0}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("block_bytes", [1, 60 * 8 * 7, 60 * 8 * 59])
def test_the_size_of_a_block_does_not_matter(monkeypatch, case, block_bytes):
    embeddings, labels = CASES[case]
    whole = score_retrieval(embeddings, labels, PER_QUERY)
    monkeypatch.setattr(ranking, "BLOCK_BYTES", block_bytes)
    parts = score_retrieval(embeddings, labels, PER_QUERY)
    # The places are the same; a cosine is rounded as the shape of the product has it.
    for name in PER_QUERY:
        assert parts.queries[name].tolist() == pytest.approx(
            whole.queries[name].tolist(), abs=1e-6 if "cosine" in name else 0
        ), name
        assert parts.means[name] == pytest.approx(
            whole.means[name], abs=1e-6 if "cosine" in name else 0
        ), name
