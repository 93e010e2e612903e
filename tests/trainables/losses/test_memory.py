"""Cross-batch memory: which losses take one, what they see, how it survives a checkpoint."""

import copy

import pytest
import torch
from pytorch_metric_learning.losses import CrossBatchMemory
from torch.nn import functional as F

from search_spaces import LOSSES
from tests.support.formulas_proxy import cosine, log_sum, pull
from tests.support.specs import batch, search, sketches
from trainables.losses import BUILDERS
from trainables.losses.memory import remember
from trainables.training.fit import Fit
from trainables.training.undo import prepare_undo

THESIS = ("thesis_loss_1", "thesis_loss_2", "thesis_loss_3")
ABLE = sorted(name for name, card in LOSSES.items() if card.memory)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_card_says_whether_its_loss_can_have_a_memory(name):
    """A miner looks for tuples only in the batch; of losses without tuples, the thesis's has one.

    All triplets of a memory of 4096 embeddings would take gigabytes.
    """
    objective = BUILDERS[name](4, 5, **LOSSES[name].defaults)
    supported = {*CrossBatchMemory.supported_losses()} - {"TripletMarginLoss"}
    able = objective.miner is None and type(objective.loss).__name__ in supported
    assert LOSSES[name].memory == (able or name in THESIS)


@pytest.mark.parametrize("name", ABLE)
def test_the_first_batch_costs_what_it_costs_alone_and_the_second_sees_both(name):
    objective = BUILDERS[name](4, 5, **LOSSES[name].defaults).double()
    alone = copy.deepcopy(objective)
    remember(objective, 5, memory=100)
    objective.double()
    (first, labels), (second, _) = batch(0), batch(1)
    first, second = F.normalize(first), F.normalize(second)
    assert objective(first, labels).item() == pytest.approx(alone(first, labels).item(), rel=1e-9)
    assert objective(second, labels).item() != pytest.approx(alone(second, labels).item(), rel=1e-6)


def test_pairs_with_the_memory_equal_a_loop_over_both_batches():
    """contrastive: of the second batch's rows as anchors, every row of both batches but itself."""
    objective = BUILDERS["contrastive"](4, 5, margin=0.5).double()
    remember(objective, 5, memory=100)
    objective.double()
    (first, labels), (second, _) = batch(0), batch(1)
    objective(F.normalize(first), labels)
    value = objective(F.normalize(second), labels).item()
    unit, both, marks = (
        F.normalize(second),
        F.normalize(torch.cat([first, second])),
        torch.cat([labels, labels]),
    )
    pull, push = [], []
    for i in range(len(unit)):
        for j in range(len(both)):
            cosine = float(unit[i] @ both[j])
            if j == len(first) + i:
                continue
            if labels[i] == marks[j]:
                pull.append(1 - cosine)
            elif cosine > 0.5:
                push.append(cosine - 0.5)
    assert value == pytest.approx(sum(pull) / len(pull) + sum(push) / len(push), rel=1e-9)


@pytest.mark.parametrize("name", THESIS)
def test_the_thesiss_losses_take_the_memory_for_further_images(name):
    """A loop over the batch and the newest rows before it that fit; one loses what is oldest.

    6.2 is scaled to as many images as the batch has, and between images only its own are anchors.
    """
    card, (margin, alpha) = LOSSES[name], (0.1, 4.0)
    setting = {**card.defaults, "alpha": alpha}
    objective = BUILDERS[name](4, 5, **setting).double()
    remember(objective, 5, memory=30)
    objective.double()
    batches = [batch(seed) for seed in range(4)]
    for rows, labels in batches:
        value = objective(F.normalize(rows), labels).item()
    (own, marks), size = batches[-1], len(batches[-1][0])
    older = torch.cat([rows for rows, _ in batches])[-30:-size]
    older_marks = torch.cat([labels for _, labels in batches])[-30:-size]
    seen, known = torch.cat([own, older]).tolist(), torch.cat([marks, older_marks]).tolist()
    (proxies,) = (param.tolist() for param in objective.parameters())
    expected = pull(seen, known, proxies, margin=margin, alpha=alpha)
    for c, w in enumerate(proxies):
        exponents = [0.0]
        for o, other in enumerate(proxies):
            through = sum(cosine(w, v) * cosine(v, other) for v in seen) * size / len(seen)
            near = through if name == "thesis_loss_2" else cosine(w, other)
            exponents += [alpha * (near + margin)] if o != c else []
        expected += log_sum(exponents) / len(proxies)
    if name == "thesis_loss_3":
        for i in range(size):
            near, far = [0.0], [0.0]
            for j, v in enumerate(seen):
                if known[j] != known[i]:
                    far.append(alpha * (cosine(seen[i], v) + margin))
                elif j != i:
                    near.append(-alpha * (cosine(seen[i], v) - margin))
            expected += (log_sum(near) + log_sum(far)) / size
    assert value == pytest.approx(expected, rel=1e-9)


def test_a_step_of_the_thesiss_loss_that_is_tried_again_sees_the_same_memory():
    objective = BUILDERS["thesis_loss_2"](4, 5, **LOSSES["thesis_loss_2"].defaults).double()
    remember(objective, 5, memory=30)
    objective.double()
    for seed in range(3):
        objective(F.normalize(batch(seed)[0]), batch(seed)[1])
    rows, labels = batch(3)
    undo = prepare_undo(torch.nn.Linear(1, 1), objective)
    first = objective(F.normalize(rows), labels).item()
    undo()
    assert objective(F.normalize(rows), labels).item() == first


@pytest.mark.parametrize("name", ["contrastive", *THESIS])
def test_a_checkpoint_knows_where_the_queue_stands(name):
    spec = search(name, memory=50, steps_per_epoch=3)
    fit, other = (Fit(spec, spec.splits[0], sketches()) for _ in range(2))
    fit.train_epoch(1)
    other.load(copy.deepcopy(fit.state()))
    assert fit.train_epoch(2) == other.train_epoch(2)
