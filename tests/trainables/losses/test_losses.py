"""Every loss against its printed formula in plain loops, and against finite differences."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from search_spaces import LOSSES, Value
from tests.support import formulas_classification, formulas_pair, formulas_proxy, formulas_triplet
from tests.support.specs import batch_for, between, triplet_batch
from trainables.losses import BUILDERS, Objective

NAMES = sorted(BUILDERS)
CLASSES, SIZE = 4, 5
FORMULAS = {
    **formulas_pair.FORMULAS,
    **formulas_triplet.FORMULAS,
    **formulas_proxy.FORMULAS,
    **formulas_classification.FORMULAS,
}

# What is drawn at random, and Circle's weights, are constants to a gradient: a formula gets them as
# `held`.
DRAWN = {"margin", "margin_per_class", "semi_hard_negative_nca"}
CONSTANTS = {"circle"}
# The first two of a class are its pair; triplets stand in their places; draws go by place.
ORDERED = DRAWN | {"n_pair", "n_pair_nca", "triplet_p_norm", "triplet_distance"}
# What a loss adds for the vectors themselves, whatever their classes, and the value that switches
# it off.
REGULARISED: dict[str, dict[str, Value]] = {
    "n_pair": {"l2": 0},
    "snr_contrastive": {"zero_mean": 0},
}
# These have a hinge, or a miner that leaves out what is satisfied; all others are smooth and never
# exactly zero.
HINGED = {
    "contrastive", "contrastive_euclidean", "snr_contrastive", "hinge_embedding", "margin",
    "margin_per_class", "multi_similarity", "lifted_structure", "fast_ap", "triplet",
    "triplet_euclidean", "triplet_p_norm", "triplet_distance",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def make(name: str, **setting: Value) -> Objective:
    """Build a loss in float64, in eval mode, where the same batch gets the same draws."""
    torch.manual_seed(0)
    return BUILDERS[name](CLASSES, SIZE, **{**LOSSES[name].defaults, **setting}).double().eval()


def as_fit(name: str, embeddings: Tensor) -> Tensor:
    """Do what Fit does with the network's output."""
    return F.normalize(embeddings) if LOSSES[name].normalize else embeddings


def lopsided(name: str, seed: int) -> tuple[Tensor, Tensor]:
    """Return classes of 5, 3, 1 and 0 images: one image is alone, one class is absent."""
    # A lone class, a triplet that is none, and a row too many.
    if LOSSES[name].batches == "triplets":
        return triplet_batch(seed, triplets=5)[0][:13], torch.tensor(
            [0, 0, 1, 1, 1, 3, 1, 1, 0, 2, 0, 1, 2]
        )
    return batch_for(name, seed)[0][:9], torch.tensor([0, 1, 0, 2, 0, 1, 0, 1, 0])


BATCHES = {
    "first": lambda name: batch_for(name, 0),
    "second": lambda name: batch_for(name, 1),
    "large": lambda name: batch_for(name, 2, per_class=5),
    "lopsided": lambda name: lopsided(name, 3),
    "lopsided again": lambda name: lopsided(name, 7),
}


def held(name: str, objective: Objective, rows: Tensor, labels: Tensor) -> dict[str, Any]:
    if name in CONSTANTS:
        return {"held": rows.tolist()}
    if name in DRAWN:
        tuples = objective.mine(rows, labels)
        return {"held": list(zip(*(part.tolist() for part in tuples), strict=True))}
    return {}


def by_formula(
    name: str, objective: Objective, rows: Tensor, labels: Tensor, **setting: Any
) -> float:
    weights = [
        row
        for param in objective.parameters()
        for row in param.reshape(-1, param.shape[-1]).tolist()
    ]
    return FORMULAS[name](rows.tolist(), labels.tolist(), weights, **setting)


def test_every_loss_is_derived_by_hand():
    assert set(FORMULAS) == set(BUILDERS)


def settings(name: str) -> list[dict[str, Value]]:
    """The paper's values, those along each search range, and every option of every choice."""
    params = LOSSES[name].params.items()
    return [LOSSES[name].defaults] + [
        {key: between(param, share) for key, param in params} for share in (0.25, 0.5, 0.75)
    ]


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_equals_its_formula(name, case):
    embeddings, labels = BATCHES[case](name)
    rows = as_fit(name, embeddings)
    for setting in settings(name):
        objective = make(name, **setting)
        expected = by_formula(
            name, objective, rows, labels, **setting, **held(name, objective, rows, labels)
        )
        assert expected > 0 or setting is not LOSSES[name].defaults
        assert objective(rows, labels).item() == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in CONSTANTS])
def test_the_gradient_of_a_loss_is_that_of_finite_differences(name, case):
    embeddings, labels = BATCHES[case](name)
    objective = make(name)

    def loss(rows: Tensor, *_: Tensor) -> Tensor:
        return objective(as_fit(name, rows), labels)

    inputs = (embeddings.clone().requires_grad_(), *objective.parameters())
    assert torch.autograd.gradcheck(loss, inputs, eps=1e-7, atol=1e-5, rtol=1e-4, fast_mode=True)


@pytest.mark.parametrize("case", BATCHES)
@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_of_a_loss_is_that_of_its_formula(name, case):
    embeddings, labels = BATCHES[case](name)
    objective, setting, step = make(name), LOSSES[name].defaults, 1e-6
    rows = embeddings.clone().requires_grad_()
    objective(as_fit(name, rows), labels).backward()
    constants = held(name, objective, as_fit(name, embeddings), labels)
    for i, j in [(0, 0), (3, 2), (7, 4)]:
        moved = torch.zeros_like(embeddings)
        moved[i, j] = step
        above, below = (
            by_formula(
                name,
                objective,
                as_fit(name, embeddings + sign * moved),
                labels,
                **setting,
                **constants,
            )
            for sign in (1, -1)
        )
        assert rows.grad[i, j].item() == pytest.approx(
            (above - below) / (2 * step), rel=1e-5, abs=1e-7
        )


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ORDERED])
def test_a_loss_does_not_see_the_order_of_its_batch(name):
    embeddings, labels = batch_for(name, 0)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    objective, rows = make(name), as_fit(name, embeddings)
    assert objective(rows[order], labels[order]).item() == pytest.approx(
        objective(rows, labels).item(), rel=1e-12
    )


@pytest.mark.parametrize("share", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_and_its_gradient_stay_finite_at_the_ends_of_its_range_where_vectors_coincide(
    name, share
):
    """Exponentials overflow, distances are zero, angles are 0 and pi."""
    objective = make(
        name, **{key: between(param, share) for key, param in LOSSES[name].params.items()}
    ).float()
    corners = (
        torch.eye(SIZE)[[0, 0, 0, 1, 1, 1, 0, 1, 1]]
        * torch.tensor([1, 1, -1, 1, -1, 1, 1, 1, 1])[:, None]
    )
    rows = corners.clone().requires_grad_()
    value = objective(as_fit(name, rows), torch.tensor([0, 0, 1, 0, 0, 1, 1, 1, 2]))
    value.backward()
    assert value.isfinite()
    assert rows.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_of_vectors_that_have_diverged_is_not_finite(name):
    _, labels = batch_for(name, 0)
    assert not make(name)(
        as_fit(name, torch.full((len(labels), SIZE), torch.nan, dtype=torch.float64)), labels
    ).isfinite()


def satisfied(name: str) -> tuple[Tensor, Tensor]:
    """Make corners of a simplex: equal pairs have cosine 1, different pairs 0."""
    labels = torch.arange(CLASSES).repeat(3)
    # Its sums over many pairs are only satisfied by two opposite pairs.
    if name == "lifted_structure":
        return torch.eye(SIZE).double()[[0, 0, 0, 0]] * torch.tensor([1, 1, -1, -1])[
            :, None
        ], torch.tensor([0, 0, 1, 1])
    if LOSSES[name].batches == "triplets":
        labels = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3, 0])
    return F.one_hot(labels, SIZE).double(), labels


@pytest.mark.parametrize("name", sorted(HINGED))
def test_a_satisfied_constraint_costs_exactly_nothing(name):
    embeddings, labels = satisfied(name)
    rows = embeddings.clone().requires_grad_()
    value = make(name, **REGULARISED.get(name, {}))(rows, labels)
    value.backward()
    assert value.item() == 0
    assert rows.grad.abs().max() == 0


@pytest.mark.parametrize("name", sorted(set(NAMES) - HINGED))
def test_a_smooth_loss_is_never_exactly_zero(name):
    assert make(name)(*satisfied(name)).item() > 0


def test_proxies_at_their_classes_cost_almost_nothing_and_at_others_a_lot():
    embeddings, labels = satisfied("proxy_anchor")
    objective = make("proxy_anchor", margin=0)
    spread = 3 * embeddings[:CLASSES] - embeddings[:CLASSES].sum(dim=0)  # cosine -1/3 to each other
    (proxies,) = objective.parameters()
    with torch.no_grad():
        proxies.copy_(spread)
    assert 0 < objective(spread.repeat(3, 1), labels).item() < 1e-3
    assert objective(spread.repeat(3, 1), labels.roll(1)).item() > 10


EMPTY = {"one class": [0] * 6, "all alone": [0, 1, 2, 3], "one image": [0]}


@pytest.mark.parametrize("labels", EMPTY)
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_without_tuples_leaves_zero_gradients_not_missing_ones(name, labels):
    network = torch.nn.Linear(3, SIZE).double()
    objective = make(name, **REGULARISED.get(name, {}))
    images = torch.randn(len(EMPTY[labels]), 3, dtype=torch.float64)
    value = objective(as_fit(name, network(images)), torch.tensor(EMPTY[labels]))
    value.backward()
    grads = [param.grad for param in (*network.parameters(), *objective.parameters())]
    assert all(grad is not None and grad.isfinite().all() for grad in grads)
    if LOSSES[name].kind == "triplet" or objective.miner:
        assert value.item() == 0
        assert all(grad.abs().max() == 0 for grad in grads)


def test_multi_similarity_counts_the_last_pair_of_each_sort():
    rows = torch.nn.functional.normalize(
        torch.randn(4, 3, generator=torch.Generator().manual_seed(14))
    ).double()
    labels, setting = (
        torch.tensor([0, 0, 1, 1]),
        {**LOSSES["multi_similarity"].defaults, "epsilon": 0.0},
    )
    objective = make("multi_similarity", **setting)
    assert [len(set(part.tolist())) for part in objective.mine(rows, labels)] == [1] * 4
    expected = by_formula("multi_similarity", objective, rows, labels, **setting)
    assert objective(rows, labels).item() == pytest.approx(expected, rel=1e-9)
    assert expected > 0


def test_nt_xent_is_the_librarys_and_also_pulls_where_that_one_has_no_gradient_left():
    from pytorch_metric_learning.losses import NTXentLoss

    embeddings, labels = batch_for("nt_xent", 0)
    assert make("nt_xent", temperature=0.1)(embeddings, labels).item() == pytest.approx(
        NTXentLoss(0.1)(embeddings, labels).item(), rel=1e-9
    )
    far = torch.tensor([[1.0, 0.0], [-1.0, 0.1], [1.0, 0.1], [-1.0, 0.2]])
    for loss, alive in [
        (NTXentLoss(0.009), False),
        (make("nt_xent", temperature=0.009).float(), True),
    ]:
        rows = far.clone().requires_grad_()
        loss(rows, torch.tensor([0, 0, 1, 2])).backward()
        assert bool(rows.grad.abs().max() > 0) == alive


def test_tuplet_margin_is_the_librarys_and_finite_where_an_image_comes_twice():
    from pytorch_metric_learning.losses import TupletMarginLoss

    embeddings, labels = batch_for("tuplet_margin", 0)
    assert make("tuplet_margin")(embeddings, labels).item() == pytest.approx(
        TupletMarginLoss()(embeddings, labels).item(), rel=1e-9
    )
    twice = torch.tensor([[0.6, 0.8], [0.6, 0.8], [1.0, 0.1]])
    for loss, finite in [(TupletMarginLoss(), False), (make("tuplet_margin").float(), True)]:
        rows = twice.clone().requires_grad_()
        loss(rows, torch.tensor([0, 0, 1])).backward()
        assert bool(rows.grad.isfinite().all()) == finite


@pytest.mark.parametrize("swap", [False, True])
def test_triplet_losses_are_pytorchs(swap):
    embeddings, labels = triplet_batch(0)
    rows = F.normalize(embeddings)
    a, p, n = rows[0::3], rows[1::3], rows[2::3]
    norm = torch.nn.TripletMarginLoss(margin=0.7, p=3, swap=swap, eps=0)(a, p, n)
    assert make("triplet_p_norm", p=3.0, margin=0.7, swap=swap)(
        rows, labels
    ).item() == pytest.approx(norm.item(), rel=1e-9)
    cosine = torch.nn.TripletMarginWithDistanceLoss(
        distance_function=lambda u, v: 1 - F.cosine_similarity(u, v), margin=0.7, swap=swap
    )
    assert make("triplet_distance", margin=0.7, swap=swap)(rows, labels).item() == pytest.approx(
        cosine(a, p, n).item(), rel=1e-9
    )
    pairs = torch.combinations(torch.arange(len(labels)))
    apart, sign = (
        (rows[pairs[:, 0]] - rows[pairs[:, 1]]).norm(dim=1),
        torch.where(labels[pairs[:, 0]] == labels[pairs[:, 1]], 1, -1),
    )
    hinge = torch.nn.HingeEmbeddingLoss(margin=1)(apart, sign)
    assert make("hinge_embedding")(rows, labels).item() == pytest.approx(hinge.item(), rel=1e-9)
