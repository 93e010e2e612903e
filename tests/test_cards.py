"""The cards of the losses, against the printed tables and against their builders."""

import inspect

import pytest
import torch
from trainables_helpers import batch, search

from search_spaces import LOSSES, Grid
from trainables.batches import BATCHES
from trainables.datasets import load
from trainables.fit import Fit
from trainables.losses import BUILDERS

PARAMS = [(loss, name) for loss, card in LOSSES.items() for name in card.params]

# Psomas, Metric Learning: A Deep Dive (master's thesis, Athens 2020), table 4: taken there from the original papers.
TABLE_4 = {
    "contrastive": {"margin": 0.5},
    "triplet": {"margin": 0.1},
    "multi_similarity": {"margin": 0.5, "alpha": 2, "beta": 50, "epsilon": 0.1},
    "proxy_anchor": {"margin": 0.1, "alpha": 32},
    "proxy_nca": {"weights_lr": 1e-5},
    "arcface": {"margin": 28.6, "scale": 64, "weights_lr": 1e-4},
    "soft_triple": {"margin": 0.1, "alpha": 20, "weights_lr": 1e-4, "gamma": 10, "tau": 0.2},
}
# Table 15: the swept values (low, high, step; an open 0 starts at the first step) and the optimum.
TABLE_15 = {
    "multi_similarity": {
        "margin": ((0, 1, 0.1), 0.8),
        "alpha": ((2, 100, 2), 18),
        "beta": ((2, 100, 2), 76),
        "epsilon": ((0, 1, 0.1), 0.4),
    },
    "proxy_anchor": {
        "margin": ((0, 1, 0.1), 0.1),
        "alpha": ((2, 100, 2), 32),
    },
    "soft_triple": {
        "margin": ((0, 1, 0.1), 0.4),
        "alpha": ((2, 100, 2), 78),
        "weights_lr": ((1e-5, 1e-4, 1e-5), 5e-5),
        "gamma": ((10, 100, 10), 58),
        "tau": ((0, 1, 0.1), 0.4),
    },
}
# Reality check, supplementary page, CUB, MultiSimilarity with miner.
REALITY = {"multi_similarity": {"margin": 0.77, "alpha": 17.97, "beta": 75.66, "epsilon": 0.39}}


def test_every_loss_has_a_card_and_a_builder():
    assert set(LOSSES) == set(BUILDERS)


@pytest.mark.parametrize("loss", sorted(TABLE_4))
def test_a_card_holds_its_row_of_table_4(loss):
    assert {name: param.thesis for name, param in LOSSES[loss].params.items() if param.thesis is not None} == TABLE_4[loss]


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_card_holds_its_row_of_table_15_or_none(loss):
    params = LOSSES[loss].params.items()
    printed = {name: (param.grid, param.found) for name, param in params if param.found is not None or param.grid is not None}
    assert printed == {name: (Grid(*grid), optimum) for name, (grid, optimum) in TABLE_15.get(loss, {}).items()}


@pytest.mark.parametrize("loss", sorted(REALITY))
def test_the_optimum_of_table_15_is_the_reality_checks_rounded(loss):
    for name, value in REALITY[loss].items():
        param = LOSSES[loss].params[name]
        assert param.reality == value
        assert abs(param.found - value) <= param.grid.step / 2


def test_the_default_of_each_card_is_what_table_4_calls_the_papers_value():
    for loss, row in TABLE_4.items():
        if loss == "soft_triple":  # its card says where the paper differs
            continue
        assert {name: LOSSES[loss].defaults[name] for name in row} == row


@pytest.mark.parametrize(("loss", "name"), PARAMS)
def test_every_cited_value_lies_in_the_search_range_or_a_note_says_why(loss, name):
    param = LOSSES[loss].params[name]
    assert param.note or all(param.search.low <= value <= param.search.high for _, value in param.cited())
    assert all(param.domain.low <= value <= param.domain.high for _, value in param.cited())
    assert param.domain.low <= param.search.low < param.search.high <= param.domain.high


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_card_says_who_what_and_which_batches(loss):
    card = LOSSES[loss]
    assert str(card.year) in card.cite
    assert card.about.endswith(".")
    assert card.batches in BATCHES
    assert card.params


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_builder_takes_exactly_what_its_card_tunes(loss):
    classes, size, *params = inspect.signature(BUILDERS[loss]).parameters.values()
    assert (classes.name, size.name) == ("classes", "size")
    assert {param.name for param in params} == set(LOSSES[loss].params)
    assert all(param.kind is param.KEYWORD_ONLY and param.default is param.empty for param in params)


def loss_value(loss: str, **setting: float) -> float:
    torch.manual_seed(0)
    objective = BUILDERS[loss](4, 5, **{**LOSSES[loss].defaults, **setting})
    return objective(*batch(0)).item()


@pytest.mark.parametrize(("loss", "name"), [pair for pair in PARAMS if pair[1] != "weights_lr"])
def test_every_parameter_changes_the_loss(loss, name):
    search_range = LOSSES[loss].params[name].search
    values = {loss_value(loss, **{name: value}) for value in (search_range.low, search_range.high)}
    assert len(values) == 2


@pytest.mark.parametrize("loss", [loss for loss, name in PARAMS if name == "weights_lr"])
def test_weights_lr_is_the_size_of_the_first_step_of_the_losss_own_weights(loss):
    for rate in (0.003, 0.05):
        fit = Fit(spec := search(loss, setting={"weights_lr": rate}, steps_per_epoch=1), spec.splits[0], load("sketches"))
        before = [param.detach().clone() for param in fit.objective.parameters()]
        fit.train_epoch(1)
        # Adam's first step is rate * g / (|g| + 1e-8), so the largest one is the rate itself.
        steps = [(param - old).abs().max().item() for param, old in zip(fit.objective.parameters(), before, strict=True)]
        assert steps == pytest.approx([rate] * len(steps), rel=1e-3)
