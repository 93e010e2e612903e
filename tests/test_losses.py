"""Every loss against its printed formula, written with plain loops, and against finite differences."""

import math
from collections.abc import Callable

import formulas_classification
import formulas_proxy
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from trainables_helpers import batch

from search_spaces import LOSSES
from trainables.losses import BUILDERS, Objective
from trainables.losses.mining import SemiHardNegative

NAMES = sorted(BUILDERS)
CLASSES, SIZE = 4, 5
Vectors = list[list[float]]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def make(name: str, **setting: float) -> Objective:
    torch.manual_seed(0)
    return BUILDERS[name](CLASSES, SIZE, **{**LOSSES[name].defaults, **setting}).double()


def lopsided(seed: int) -> tuple[Tensor, Tensor]:
    """Classes of 5, 3, 1 and 0 images: a lone image, and a class that is not in the batch at all."""
    embeddings, _ = batch(seed, per_class=3)
    return embeddings[:9], torch.tensor([0, 1, 0, 2, 0, 1, 0, 1, 0])


BATCHES = [batch(0), batch(1), batch(2, per_class=6), lopsided(3), lopsided(4)]


# ---- the formulas, in plain Python --------------------------------------------------------------------------------------


def cosine(a: list[float], b: list[float]) -> float:
    dot = sum(x * y for x, y in zip(a, b, strict=True))
    return dot / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def mean_of_positive(values: list[float]) -> float:
    values = [value for value in values if value > 0]
    return sum(values) / len(values) if values else 0.0


def contrastive(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    """2.15: (1 - I) [S - margin]+ - I S, with the constant 1 added to I S; the mean over what is not zero, by sort of pair."""
    pull, push = [], []
    for i in range(len(x)):
        for j in range(len(x)):
            if i != j and y[i] == y[j]:
                pull.append(1 - cosine(x[i], x[j]))
            elif i != j:
                push.append(max(0.0, cosine(x[i], x[j]) - margin))
    return mean_of_positive(pull) + mean_of_positive(push)


def semi_hard(x: Vectors, y: list[int]) -> list[tuple[int, int, int]]:
    """2.20: for every anchor and positive the most similar negative that is less similar than the positive."""
    triplets = []
    for a in range(len(x)):
        for p in range(len(x)):
            if a == p or y[a] != y[p]:
                continue
            hardest, best = None, -math.inf
            for n in range(len(x)):
                if y[n] != y[a] and best < cosine(x[a], x[n]) < cosine(x[a], x[p]):
                    hardest, best = n, cosine(x[a], x[n])
            if hardest is not None:
                triplets.append((a, p, hardest))
    return triplets


def triplet(x: Vectors, y: list[int], _: Vectors, *, margin: float) -> float:
    """2.17: [S_an - S_ap + margin]+, the mean over what is not zero."""
    return mean_of_positive([cosine(x[a], x[n]) - cosine(x[a], x[p]) + margin for a, p, n in semi_hard(x, y)])


def multi_similarity(x: Vectors, y: list[int], _: Vectors, *, margin: float, alpha: float, beta: float, epsilon: float) -> float:
    """2.24, with the paper's mining: a pair stays if it is harder, within epsilon, than the hardest of the other sort."""
    total = 0.0
    for i in range(len(x)):
        equal = [cosine(x[i], x[j]) for j in range(len(x)) if j != i and y[j] == y[i]]
        different = [cosine(x[i], x[j]) for j in range(len(x)) if y[j] != y[i]]
        kept_equal = [s for s in equal if different and s - epsilon < max(different)]
        kept_different = [s for s in different if equal and s + epsilon > min(equal)]
        total += math.log(1 + sum(math.exp(-alpha * (s - margin)) for s in kept_equal)) / alpha
        total += math.log(1 + sum(math.exp(beta * (s - margin)) for s in kept_different)) / beta
    return total / len(x)


FORMULAS: dict[str, Callable[..., float]] = {
    "contrastive": contrastive,
    "triplet": triplet,
    "multi_similarity": multi_similarity,
    **formulas_proxy.FORMULAS,
    **formulas_classification.FORMULAS,
}


def by_formula(name: str, objective: Objective, embeddings: Tensor, labels: Tensor, **setting: float) -> float:
    weights = [row for param in objective.parameters() for row in param.tolist()]
    return FORMULAS[name](embeddings.tolist(), labels.tolist(), weights, **setting)


# ---- the laws -----------------------------------------------------------------------------------------------------------


def test_every_loss_is_derived_by_hand():
    assert set(FORMULAS) == set(BUILDERS)


def settings(name: str) -> list[dict[str, float]]:
    """The paper's values, and those a third and two thirds up each search range."""
    params = LOSSES[name].params.items()
    between = [
        {key: param.search.low + share * (param.search.high - param.search.low) for key, param in params} for share in (1 / 3, 2 / 3)
    ]
    whole = {key for key, param in params if param.search.integer}
    return [LOSSES[name].defaults] + [{k: round(v) if k in whole else v for k, v in setting.items()} for setting in between]


@pytest.mark.parametrize("case", range(len(BATCHES)))
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_equals_its_formula(name, case):
    embeddings, labels = BATCHES[case]
    for setting in settings(name):
        objective = make(name, **setting)
        expected = by_formula(name, objective, embeddings, labels, **setting)
        assert expected > 0
        assert objective(embeddings, labels).item() == pytest.approx(expected, rel=1e-10)
        if LOSSES[name].normalize:  # what Fit does before it calls the loss changes nothing
            assert objective(F.normalize(embeddings), labels).item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("case", range(len(BATCHES)))
@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_loss_is_that_of_finite_differences(name, case):
    embeddings, labels = BATCHES[case]
    objective = make(name)

    def loss(rows: Tensor, *_: Tensor) -> Tensor:
        return objective(rows, labels)

    inputs = (embeddings.clone().requires_grad_(), *objective.parameters())
    assert torch.autograd.gradcheck(loss, inputs, eps=1e-7, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("case", range(len(BATCHES)))
@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_loss_is_that_of_its_formula(name, case):
    embeddings, labels = BATCHES[case]
    objective, setting, step = make(name), LOSSES[name].defaults, 1e-6
    rows = embeddings.clone().requires_grad_()
    objective(rows, labels).backward()
    for i, j in [(0, 0), (3, 2), (7, 4)]:
        moved = torch.zeros_like(embeddings)
        moved[i, j] = step
        above, below = (by_formula(name, objective, embeddings + sign * moved, labels, **setting) for sign in (1, -1))
        assert rows.grad[i, j].item() == pytest.approx((above - below) / (2 * step), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_does_not_see_the_order_of_its_batch(name):
    embeddings, labels = BATCHES[0]
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    objective = make(name)
    assert objective(embeddings[order], labels[order]).item() == pytest.approx(objective(embeddings, labels).item(), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_stays_finite_where_exponentials_overflow(name):
    edges = {key: param.search.high for key, param in LOSSES[name].params.items()}
    objective = make(name, **edges).float()
    rows = torch.eye(SIZE)[[0, 0, 0, 1, 1, 1]].neg().requires_grad_()
    value = objective(rows, torch.tensor([0, 1, 2, 0, 1, 2]))
    value.backward()
    assert value.isfinite()
    assert rows.grad.isfinite().all()


# What a loss asks for, as far as it can be had: corners of a simplex, so that equal pairs have cosine 1 and different ones 0.
SATISFIED = F.one_hot(torch.arange(CLASSES).repeat(3), SIZE).double(), torch.arange(CLASSES).repeat(3)


@pytest.mark.parametrize("name", [name for name in NAMES if LOSSES[name].kind in ("pair", "triplet")])
def test_a_satisfied_constraint_costs_exactly_nothing(name):
    embeddings, labels = SATISFIED
    rows = embeddings.clone().requires_grad_()
    value = make(name)(rows, labels)
    value.backward()
    assert value.item() == 0
    assert rows.grad.abs().max() == 0


def test_proxies_at_their_classes_cost_almost_nothing_and_at_others_a_lot():
    embeddings, labels = SATISFIED
    objective = make("proxy_anchor", margin=0)
    spread = 3 * embeddings[:CLASSES] - embeddings[:CLASSES].sum(dim=0)  # cosine -1/3 to each other
    (proxies,) = objective.parameters()
    with torch.no_grad():
        proxies.copy_(spread)
    assert 0 < objective(spread.repeat(3, 1), labels).item() < 1e-3
    assert objective(spread.repeat(3, 1), labels.roll(1)).item() > 10


@pytest.mark.parametrize("labels", [[0] * 6, [0, 1, 2, 3], [0]], ids=["one class", "all alone", "one image"])
@pytest.mark.parametrize("name", [name for name in NAMES if make(name).miner])
def test_where_the_miner_finds_nothing_the_loss_is_zero_and_the_gradients_are_there(name, labels):
    network = torch.nn.Linear(3, SIZE).double()
    objective = make(name)
    value = objective(network(torch.randn(len(labels), 3, dtype=torch.float64)), torch.tensor(labels))
    value.backward()
    assert value.item() == 0
    for param in network.parameters():
        assert param.grad is not None
        assert param.grad.abs().max() == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_with_weights_of_its_own_says_at_which_rate_they_learn_and_starts_them_from_the_seed(name):
    first, again = make(name), make(name)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert (first.weights_lr is not None) == bool(list(first.parameters()))


@pytest.mark.parametrize("case", range(len(BATCHES)))
def test_semi_hard_negatives_equal_a_triple_loop(case):
    embeddings, labels = BATCHES[case]
    found = torch.stack(SemiHardNegative()(embeddings, labels), dim=1)
    expected = semi_hard(embeddings.tolist(), labels.tolist())
    assert expected
    assert sorted(map(tuple, found.tolist())) == sorted(expected)


def test_a_negative_exactly_as_similar_as_the_positive_is_not_semi_hard():
    rows = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [-1.0, 0.0]])
    triplets = list(zip(*(part.tolist() for part in SemiHardNegative()(rows, torch.tensor([0, 0, 1, 1]))), strict=True))
    assert (0, 1, 3) in triplets
    assert (0, 1, 2) not in triplets
