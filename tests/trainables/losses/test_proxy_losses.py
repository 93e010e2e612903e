"""Laws of the losses with weights of their own: labels, extremes, relations between forms."""

import math
from itertools import pairwise

import pytest
import torch
from pytorch_metric_learning import losses, regularizers
from torch import Tensor
from torch.nn import functional as F

from search_spaces.losses import classification as classification_cards
from search_spaces.losses import proxy as proxy_cards
from tests.support import formulas_classification, formulas_proxy
from tests.support.specs import batch
from trainables.losses import classification, proxy
from trainables.losses.labels import UNLABELLED
from trainables.losses.objective import Objective
from trainables.losses.proxy_formulas import SparseCenters

CARDS = {**proxy_cards.CARDS, **classification_cards.CARDS}
BUILDERS = {**proxy.BUILDERS, **classification.BUILDERS}
FORMULAS = {**formulas_proxy.FORMULAS, **formulas_classification.FORMULAS}
NAMES = sorted(CARDS)
CLASSES, SIZE = 4, 5


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def make(name: str, classes: int = CLASSES, **setting: float) -> Objective:
    torch.manual_seed(0)
    return BUILDERS[name](classes, SIZE, **{**CARDS[name].defaults, **setting})


def set_weights(objective: Objective, rows: Tensor) -> None:
    """Set one row per class, however the loss stores them."""
    (weights,) = objective.parameters()
    with torch.no_grad():
        weights.copy_(rows if weights.shape == rows.shape else rows.T)


# ---- the cards


@pytest.mark.parametrize("name", NAMES)
def test_weights_have_a_rate_on_their_card_and_are_not_decayed(name):
    assert "weights_lr" in CARDS[name].params
    assert not CARDS[name].decay
    assert make(name, weights_lr=0.0625).weights_lr == 0.0625


# ---- labels and gradients


@pytest.mark.parametrize("label", [CLASSES, 120, -1, -100])
@pytest.mark.parametrize("name", NAMES)
def test_a_label_without_a_weight_is_refused(name, label):
    if label == UNLABELLED and CARDS[name].unlabelled:
        return
    with pytest.raises(
        ValueError,
        match=rf"Labels must be 0 to 3, .*({label}|to {label}); number the split's classes from 0",
    ):
        make(name)(
            torch.randn(3, SIZE),
            torch.tensor([0, 1, label] if label > 0 else [label, label, label]),
        )


@pytest.mark.parametrize("name", NAMES)
def test_a_label_that_torch_ignores_is_refused_where_there_are_that_many_classes(name):
    """torch's cross entropy skips -100, which is also a valid index where 100 classes exist."""
    with pytest.raises(ValueError, match="Labels must be 0 to 119"):
        make(name, classes=120)(torch.randn(3, SIZE), torch.tensor([0, 1, -100]))


@pytest.mark.parametrize(
    "labels", [[2], [1] * 6, [0, 1, 2, 3]], ids=["one image", "one class", "all alone"]
)
@pytest.mark.parametrize("name", NAMES)
def test_no_batch_leaves_weights_without_a_gradient(name, labels):
    objective, rows = make(name), torch.randn(len(labels), SIZE).requires_grad_()
    objective(rows, torch.tensor(labels)).backward()
    for tensor in (rows, *objective.parameters()):
        assert tensor.grad is not None
        assert tensor.grad.isfinite().all()


@pytest.mark.parametrize("name", NAMES)
def test_weights_are_float32_by_default(name):
    assert {param.dtype for param in make(name).parameters()} == {torch.float32}
    assert {param.dtype for param in make(name).double().parameters()} == {torch.float64}


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_is_the_mean_over_its_images_unless_its_card_says_that_it_couples_them(name):
    rows, labels = batch(0)
    objective = make(name).double()
    apart = [objective(rows[i : i + 1], labels[i : i + 1]).item() for i in range(len(labels))]
    alike = math.isclose(sum(apart) / len(apart), objective(rows, labels).item(), rel_tol=1e-9)
    assert alike == (not CARDS[name].couples)


@pytest.mark.parametrize("name", NAMES)
def test_the_length_of_an_embedding_counts_exactly_where_the_card_does_not_normalise(name):
    rows, labels = batch(0)
    objective = make(name).double()
    assert (
        math.isclose(
            objective(2 * rows, labels).item(), objective(rows, labels).item(), rel_tol=1e-9
        )
        == CARDS[name].normalize
    )


# ---- extremes


def corners(name: str) -> list[dict[str, float]]:
    """Return the card's defaults with each parameter at either end of its search."""
    defaults = CARDS[name].defaults
    return [
        {**defaults, key: end}
        for key, param in CARDS[name].params.items()
        for end in param.search.ends()
    ]


@pytest.mark.parametrize("turn", [1, -1], ids=["at their weights", "opposite"])
@pytest.mark.parametrize("name", NAMES)
def test_a_loss_is_exact_in_float32_where_exponentials_overflow(name, turn):
    """Embeddings on their class's weight, or opposite it, at every end of the search."""
    labels = torch.arange(CLASSES)
    for setting in corners(name):
        objective = make(name, **setting)
        (weights,) = objective.parameters()
        directions = (
            weights if weights.shape[1] == SIZE else weights.T.reshape(CLASSES, -1, SIZE)[:, 0]
        )
        rows = (turn * directions.detach()).clone().requires_grad_()
        value = objective(rows, labels)
        value.backward()
        in_double = make(name, **setting).double()(rows.detach().double(), labels).item()
        by_hand = FORMULAS[name](rows.tolist(), labels.tolist(), weights.tolist(), **setting)
        assert in_double == pytest.approx(by_hand, rel=1e-6, abs=1e-6)
        # A float32 cosine of almost 1 gives ArcFace's angle to 5e-4 radians only, and its scale of
        # up to 300 multiplies that.
        assert value.item() == pytest.approx(
            in_double, rel=1e-4, abs=0.1 if name == "arcface" else 1e-3
        )
        assert rows.grad.isfinite().all()
        assert weights.grad.isfinite().all()


def test_arcface_has_a_slope_where_an_embedding_lies_on_its_weight():
    objective = make("arcface", margin=60)
    set_weights(objective, torch.eye(SIZE)[:CLASSES])
    rows = torch.eye(SIZE)[:CLASSES].clone().requires_grad_()
    objective(rows, torch.arange(CLASSES)).backward()
    assert rows.grad.isfinite().all()


def test_arcface_never_rewards_a_wider_angle():
    objective = make("arcface", scale=1).double()
    set_weights(objective, torch.eye(SIZE, dtype=torch.float64)[:CLASSES])
    angles = torch.linspace(0, math.pi, 181, dtype=torch.float64)
    rows = torch.zeros(len(angles), SIZE, dtype=torch.float64)
    # Away from class 0, along the axis that no class has.
    rows[:, 0], rows[:, -1] = (angles.cos(), angles.sin())
    values = [objective(row[None], torch.tensor([0])).item() for row in rows]
    assert all(wide > narrow for narrow, wide in pairwise(values))


@pytest.mark.parametrize("margin", range(1, 7))
def test_sphereface_never_rewards_a_wider_angle(margin):
    objective = make("sphereface", margin=margin).double()
    set_weights(objective, torch.eye(SIZE, dtype=torch.float64)[:CLASSES])
    angles = torch.linspace(0.01, math.pi - 0.01, 150, dtype=torch.float64)
    rows = torch.zeros(len(angles), SIZE, dtype=torch.float64)
    rows[:, 0], rows[:, -1] = angles.cos(), angles.sin()
    values = [objective(row[None], torch.tensor([0])).item() for row in rows]
    assert all(wide > narrow for narrow, wide in pairwise(values))


# ---- the forms of one loss
# ----------------------------------------------------------------------------------------------


def test_the_two_forms_of_proxy_nca_differ_by_the_own_proxy_in_the_denominator():
    rows, labels = batch(0)
    for i in range(len(labels)):
        paper = make("proxy_nca").double()(rows[i : i + 1], labels[i : i + 1])
        library = make("proxy_nca_pml", softmax_scale=1).double()(
            rows[i : i + 1], labels[i : i + 1]
        )
        assert library.item() == pytest.approx(F.softplus(paper).item(), rel=1e-10)


def test_the_papers_proxy_nca_is_negative_where_its_classes_are_well_apart():
    objective = make("proxy_nca", classes=2).double()
    set_weights(objective, torch.eye(SIZE, dtype=torch.float64)[:1] * torch.tensor([[1.0], [-1.0]]))
    assert objective(
        objective.loss.loss.proxies.detach(), torch.tensor([0, 1])
    ).item() == pytest.approx(-4)


def test_above_its_domain_the_librarys_proxy_nca_drops_the_hardest_images():
    """softmax_scale ends at 20: at 100 an image opposite its proxy costs 400; exp(-400) is 0."""
    # The hardest image and the easiest.
    rows, labels = (torch.tensor([[-1.0, 0.0], [-1.0, 0.0]]), torch.tensor([0, 1]))
    for scale, cost in [(20, 80 / 2), (100, 0)]:  # not 400 / 2
        loss = losses.ProxyNCALoss(2, 2, softmax_scale=scale)
        loss.proxies.data = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
        assert loss(rows, labels).item() == pytest.approx(cost)
    assert CARDS["proxy_nca_pml"].params["softmax_scale"].domain.high == 20


@pytest.mark.parametrize("centers", [2, 3, 10])
def test_sparse_centers_are_the_librarys(centers):
    weights = torch.randn(
        CLASSES * centers, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    ours, theirs = weights.clone().requires_grad_(), weights.clone().requires_grad_()
    value, expected = (
        SparseCenters(CLASSES, centers)(ours),
        regularizers.SparseCentersRegularizer(CLASSES, centers)(theirs),
    )
    value.backward()
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-12)
    assert torch.allclose(ours.grad, theirs.grad, rtol=1e-9)


def test_centers_that_have_met_cost_nothing_and_stay():
    weights = (
        torch.randn(CLASSES, 1, SIZE).expand(-1, 3, -1).reshape(-1, SIZE).clone().requires_grad_()
    )
    value = SparseCenters(CLASSES, 3)(weights)
    value.backward()
    assert value.item() == 0
    assert weights.grad.abs().max() == 0


def test_a_small_gamma_picks_the_nearest_center_and_a_large_one_takes_their_mean():
    rows, labels = batch(0)
    for gamma, pick in [
        (1e-6, lambda similar: similar.amax(dim=2)),
        (1e6, lambda similar: similar.mean(dim=2)),
    ]:
        objective = make("soft_triple", gamma=gamma, tau=0, margin=0, centers=3).double()
        (weights,) = objective.parameters()
        similar = (F.normalize(rows) @ F.normalize(weights, dim=0)).view(len(rows), CLASSES, 3)
        assert objective(rows, labels).item() == pytest.approx(
            F.cross_entropy(20 * pick(similar), labels).item(), rel=1e-5
        )


def test_soft_triple_with_one_center_would_divide_by_no_pair():
    assert 1 not in CARDS["soft_triple"].params["centers"].domain


def test_the_thesiss_two_losses_agree_where_the_batch_is_an_orthonormal_basis():
    """The sum over x of (w'x)(x'w-) is then w'w-."""
    rows, labels = torch.eye(SIZE, dtype=torch.float64), torch.tensor([0, 1, 2, 3, 3])
    first, second = (
        make(name).double()(rows, labels).item() for name in ("thesis_loss_1", "thesis_loss_2")
    )
    assert first == pytest.approx(second, rel=1e-12)


def test_the_thesiss_first_loss_pulls_as_proxy_anchor_does_and_leaves_other_images_alone():
    """In 6.1 an image's gradient depends on other classes only through their number."""
    rows, labels = batch(0)
    moved = rows.clone()
    moved[labels == 1] *= -1
    gradients = {}
    for name in ("thesis_loss_1", "proxy_anchor"):
        for key, embeddings in (("as is", rows), ("moved", moved)):
            leaf = embeddings.clone().requires_grad_()
            make(name).double()(leaf, labels).backward()
            gradients[name, key] = leaf.grad[labels == 0]
    assert torch.allclose(gradients["thesis_loss_1", "as is"], gradients["thesis_loss_1", "moved"])
    assert not torch.allclose(
        gradients["proxy_anchor", "as is"], gradients["proxy_anchor", "moved"]
    )


def test_our_third_loss_is_the_first_where_relations_weigh_nothing_and_else_sees_other_images():
    rows, labels = batch(0)
    first = make("thesis_loss_1").double()(rows, labels).item()
    assert make("thesis_loss_3", relations=0).double()(rows, labels).item() == pytest.approx(first)
    moved = rows.clone()
    moved[labels == 1] *= -1
    gradients = []
    for embeddings in (rows, moved):
        leaf = embeddings.clone().requires_grad_()
        make("thesis_loss_3", alpha=4).double()(leaf, labels).backward()
        gradients.append(leaf.grad[labels == 0])
    assert not torch.allclose(*gradients)


@pytest.mark.parametrize("name", [name for name in NAMES if CARDS[name].unlabelled])
def test_an_image_without_a_label_counts_in_a_loss_that_says_so_but_is_pulled_by_no_proxy(name):
    """In a loop: it is in the sum of 6.2, and in no class."""
    rows, labels = batch(0)
    hidden = torch.where(torch.arange(len(labels)) % 2 == 0, labels, UNLABELLED)
    objective = make(name, alpha=4).double()
    (proxies,) = (param.tolist() for param in objective.parameters())
    setting = {**CARDS[name].defaults, "alpha": 4}
    expected = FORMULAS[name](rows.tolist(), hidden.tolist(), proxies, **setting)
    assert objective(rows, hidden).item() == pytest.approx(expected, rel=1e-9)
    assert expected != pytest.approx(objective(rows, labels).item(), rel=1e-6)
    only = hidden != UNLABELLED
    assert expected != pytest.approx(objective(rows[only], hidden[only]).item(), rel=1e-6)


def test_a_batch_without_any_label_pulls_nothing_and_stays_finite():
    rows, labels = batch(0)
    leaf = rows.clone().requires_grad_()
    make("thesis_loss_2").double()(leaf, torch.full_like(labels, UNLABELLED)).backward()
    assert leaf.grad.isfinite().all()
