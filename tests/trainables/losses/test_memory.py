"""Cross-batch memory: which losses take one, what they see, how it survives a checkpoint."""

import copy

import pytest
import torch
from pytorch_metric_learning.losses import CrossBatchMemory
from torch.nn import functional as F

from search_spaces import LOSSES
from tests.support.specs import batch, search, sketches
from trainables.losses import BUILDERS
from trainables.losses.memory import remember
from trainables.training.fit import Fit

ABLE = sorted(name for name, card in LOSSES.items() if card.memory)


@pytest.mark.parametrize("name", sorted(LOSSES))
def test_a_card_says_whether_its_loss_can_have_a_memory(name):
    """A miner looks for tuples only in the batch, and losses without tuples need no memory.

    All triplets of a memory of 4096 embeddings would take gigabytes.
    """
    objective = BUILDERS[name](4, 5, **LOSSES[name].defaults)
    supported = {*CrossBatchMemory.supported_losses()} - {"TripletMarginLoss"}
    able = objective.miner is None and type(objective.loss).__name__ in supported
    assert LOSSES[name].memory == able


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


def test_a_checkpoint_knows_where_the_queue_stands():
    spec = search("contrastive", memory=50, steps_per_epoch=3)
    fit, other = (Fit(spec, spec.splits[0], sketches()) for _ in range(2))
    fit.train_epoch(1)
    other.load(copy.deepcopy(fit.state()))
    assert fit.train_epoch(2) == other.train_epoch(2)
