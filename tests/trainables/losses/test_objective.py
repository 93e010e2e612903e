"""Laws of every objective: ranks share draws, the generator is left alone, weights have a rate."""

import pytest
import torch
from torch import Tensor

from search_spaces import LOSSES
from tests.support.specs import batch, batch_for
from trainables.losses import BUILDERS, Objective

NAMES = sorted(BUILDERS)
DRAWN = ["margin", "margin_per_class", "semi_hard_negative_nca"]


def make(name: str, *, seed: int = 0) -> Objective:
    torch.manual_seed(0)
    objective = BUILDERS[name](4, 5, **LOSSES[name].defaults).double()
    objective.seed = seed
    return objective


def tuples(objective: Objective, embeddings: Tensor, labels: Tensor) -> list[tuple[int, ...]]:
    """Return the tuples of this step, and go to the next."""
    found = list(zip(*(part.tolist() for part in objective.mine(embeddings, labels)), strict=True))
    objective(embeddings, labels)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_neither_uses_nor_moves_the_global_generator(name):
    values = set()
    for seed in (1, 2):
        objective = make(name)
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        values.add(objective(*batch_for(name, 0)).item())
        assert torch.equal(torch.get_rng_state(), before)
    assert len(values) == 1


@pytest.mark.parametrize("name", DRAWN)
def test_draws_differ_by_step_and_seed_and_are_the_same_on_every_rank(name):
    rows = batch(0, per_class=4)
    first, again, other = make(name), make(name), make(name, seed=1)
    draws = [tuples(first, *rows) for _ in range(4)]
    assert len({tuple(draw) for draw in draws}) == 4
    assert [tuples(again, *rows) for _ in range(4)] == draws
    assert tuples(other, *rows) != draws[0]


@pytest.mark.parametrize("name", DRAWN)
def test_a_checkpoint_goes_on_with_the_next_draw(name):
    rows = batch(0, per_class=4)
    first = make(name)
    tuples(first, *rows)
    resumed = make(name)
    resumed.load_state_dict(first.state_dict())
    assert int(resumed.steps) == 1
    assert tuples(resumed, *rows) == tuples(first, *rows)


def test_in_eval_mode_the_steps_stand_still():
    rows = batch(0, per_class=4)
    objective = make("margin").eval()
    assert tuples(objective, *rows) == tuples(objective, *rows)
    assert int(objective.steps) == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_loss_with_weights_of_its_own_says_at_which_rate_they_learn_and_starts_them_from_the_seed(
    name,
):
    first, again = make(name), make(name)
    assert all(
        torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True)
    )
    assert (first.weights_lr is not None) == bool(list(first.parameters()))
    own = {key for key in first.state_dict() if key != "steps"}
    assert {key for key, _ in first.named_parameters()} <= own


@pytest.mark.parametrize("name", ["margin", "margin_per_class"])
def test_a_boundary_without_tuples_stays_where_it_is(name):
    objective = make(name)
    optimizer = torch.optim.AdamW(objective.parameters(), lr=1.0, weight_decay=0)
    before = [param.detach().clone() for param in objective.parameters()]
    objective(torch.randn(4, 5).double(), torch.tensor([0, 1, 2, 3])).backward()
    optimizer.step()
    assert all(
        torch.equal(param, old) for param, old in zip(objective.parameters(), before, strict=True)
    )
    assert all(param.grad is not None for param in objective.parameters())


@pytest.mark.parametrize("name", NAMES)
def test_a_diverged_batch_has_a_loss_that_is_not_finite_or_none_at_all(name):
    """Steps go on until the next look at the losses, so a loss must bear what is not a number."""
    embeddings, labels = batch_for(name, 0)
    objective = make(name)
    value = objective((embeddings * torch.nan).requires_grad_(), labels)
    value.backward()
    assert not value.isfinite() or value == 0
