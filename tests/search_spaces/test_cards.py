"""The cards of the losses, against the printed tables and against their builders."""

import csv
import inspect
from collections import defaultdict
from typing import Any

import pytest
import torch

from search_spaces import LOSSES, Choice, Grid, Value
from search_spaces.experiments import REALITY_LOSSES
from tests.support import ROOT
from tests.support.specs import batch_for, between, search, sketches
from trainables.inputs.batches import BATCHES
from trainables.losses import BUILDERS
from trainables.training.fit import Fit

PARAMS = [(loss, name) for loss, card in LOSSES.items() for name in card.params]
OWN_RATE = {"beta_lr": "weights_lr", "proxy_lr": "weights_lr"}


def printed(table: str) -> dict[str, dict[str, dict[str, str]]]:
    """Return loss -> parameter -> row of a table of Psomas's thesis (Athens 2020)."""
    rows: dict[str, dict[str, dict[str, str]]] = defaultdict(dict)
    with (ROOT / "analysis" / "published" / f"{table}.csv").open() as file:
        for row in csv.DictReader(file):
            rows[row["loss"]][OWN_RATE.get(row["hyperparameter"], row["hyperparameter"])] = row
    return {loss: row for loss, row in rows.items() if loss in LOSSES}


# Table 4: the values used, which the thesis says are those of the original papers.
TABLE_4 = {
    loss: {name: float(row["value"]) for name, row in rows.items()}
    for loss, rows in printed("thesis_defaults").items()
}


def grid(row: dict[str, str]) -> Grid:
    """Return table 15's swept values; an open 0 starts at the first step."""
    low, high, step = (float(row[key]) for key in ("low", "high", "step"))
    return Grid(step if row["low_open"] == "true" else low, high, step)


TABLE_15 = {
    loss: {name: (grid(row), float(row["optimal"])) for name, row in rows.items()}
    for loss, rows in printed("thesis_search").items()
}
# Tables 1 and 2: which similarities a loss uses, and network and embedding sizes of its paper.
TABLE_1 = {
    "contrastive": {"self"},
    "triplet": {"positive"},
    "lifted_structure": {"negative"},
    "n_pair": {"negative"},
    "multi_similarity": {"self", "negative", "positive"},
}
TABLE_2 = {
    "contrastive": ("2-layer CNN, 5-layer CNN", {2, 50}),
    "triplet": ("22-layer CNN, GoogLeNet", {128}),
    "lifted_structure": ("GoogLeNet", {64}),
    "n_pair": ("GoogLeNet", {64, 512}),
    "proxy_nca": ("BNInception", {64}),
    "margin": ("ResNet50", {128}),
    "arcface": ("ResNet50, ResNet100", {512}),
    "multi_similarity": ("BNInception", {64, 512}),
    "soft_triple": ("BNInception", {64, 512}),
    "proxy_anchor": ("BNInception", {512}),
}
# Musgrave et al., A Metric Learning Reality Check (ECCV 2020), supplementary page, "Optimal
# hyperparameters": on CUB, Cars196 and SOP.
REALITY = {
    "contrastive_euclidean": {
        "pos_margin": (-0.2000, 0.2652, 0.2850), "neg_margin": (0.3841, 0.5409, 0.5130),
    },
    "triplet_euclidean": {"margin": (0.0961, 0.1190, 0.0451)},
    "nt_xent": {"temperature": (0.0091, 0.0219, 0.0002)},
    "proxy_nca_pml": {
        "weights_lr": (6.04e-3, 4.43e-3, 5.28e-4), "softmax_scale": (13.98, 7.97, 10.73),
    },
    "margin": {
        "weights_lr": (1.31e-3, 1.11e-4, 1.82e-3), "margin": (0.0878, 0.0781, 0.0915),
        "beta": (0.7838, 1.3164, 1.1072),
    },
    "margin_per_class": {
        "weights_lr": (2.65e-4, 4.76e-5, 7.10e-5), "margin": (0.0779, 0.0776, 0.0518),
        "beta": (0.9796, 0.9598, 0.8424),
    },
    "normalized_softmax": {
        "weights_lr": (4.46e-3, 1.10e-2, 5.46e-4), "temperature": (0.1087, 0.0886, 0.0630),
    },
    "cosface": {
        "weights_lr": (2.53e-3, 7.41e-3, 2.16e-3), "margin": (0.6182, 0.4324, 0.3364),
        "scale": (100.0, 161.5, 100.0),
    },
    "arcface": {
        "weights_lr": (5.13e-3, 7.39e-6, 2.01e-3), "margin": (23.22, 20.52, 18.63),
        "scale": (100.0, 49.50, 220.3),
    },
    "fast_ap": {"bins": (17, 27, 16)},
    "snr_contrastive": {
        "pos_margin": (0.3264, 0.1670, 0.3759), "neg_margin": (0.8446, 0.9337, 1.0831),
        "zero_mean": (0.1382, 0, 0),
    },
    "multi_similarity_no_miner": {
        "alpha": (0.01, 14.35, 8.49), "beta": (50.60, 75.83, 57.38), "margin": (0.56, 0.66, 0.41),
    },
    "multi_similarity": {
        "alpha": (17.97, 7.49, 15.94), "beta": (75.66, 47.99, 156.61),
        "margin": (0.77, 0.63, 0.72), "epsilon": (0.39, 0.72, 0.34),
    },
    "soft_triple": {
        "weights_lr": (5.37e-5, 1.40e-4, 8.68e-5), "alpha": (78.02, 17.69, 100.00),
        "gamma": (58.95, 19.18, 47.90), "tau": (0.3754, 0.0669, None),
        "margin": (0.4307, 0.3588, 0.3145),
    },
}  # fmt: skip


def test_every_loss_has_a_card_and_a_builder():
    assert set(LOSSES) == set(BUILDERS)


@pytest.mark.parametrize("loss", sorted(TABLE_4))
def test_a_card_holds_its_row_of_table_4(loss):
    assert {
        name: param.thesis
        for name, param in LOSSES[loss].params.items()
        if param.thesis is not None
    } == TABLE_4[loss]


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_card_holds_its_row_of_table_15_or_none(loss):
    params = LOSSES[loss].params.items()
    held = {
        name: (param.grid, param.found)
        for name, param in params
        if param.found is not None or param.grid is not None
    }
    assert held == TABLE_15.get(loss, {})
    assert list(held) == list(TABLE_15.get(loss, {}))  # its sweep goes in the table's order


@pytest.mark.parametrize("loss", sorted(TABLE_1))
def test_a_card_holds_its_column_of_table_1(loss):
    assert set(LOSSES[loss].similarities) == TABLE_1[loss]


@pytest.mark.parametrize("loss", sorted(set(TABLE_2) & set(LOSSES)))
def test_a_card_holds_its_row_of_table_2(loss):
    network, sizes = TABLE_2[loss]
    assert LOSSES[loss].network == network
    assert LOSSES[loss].size in sizes


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_card_holds_the_reality_checks_optima_on_three_datasets_or_none(loss):
    params = LOSSES[loss].params.items()
    held = {name: param.reality for name, param in params if param.reality}
    assert held == REALITY.get(loss, {})


def test_the_reality_check_has_optima_for_every_loss_that_its_preset_runs():
    assert set(REALITY) == set(REALITY_LOSSES)


@pytest.mark.parametrize(("loss", "name"), PARAMS)
def test_every_published_optimum_lies_in_the_search_range(loss, name):
    param = LOSSES[loss].params[name]
    found = [] if param.found is None else [param.ours(param.found)]
    # The library of the reality check divided soft_triple's regulariser by half as many pairs.
    factor = 2 if (loss, name) == ("soft_triple", "tau") else 1
    optima = [*found, *(factor * value for value in param.optima().values())]
    assert [value for value in optima if value not in param.search] == []


def test_the_optimum_of_table_15_is_the_reality_checks_rounded():
    for name, (on_cub, *_) in REALITY["multi_similarity"].items():
        param = LOSSES["multi_similarity"].params[name]
        assert abs(param.found - on_cub) <= param.grid.step / 2


def test_the_default_of_each_card_is_what_table_4_calls_the_papers_value_or_a_note_says_why():
    for loss, row in TABLE_4.items():
        for name, value in row.items():
            param = LOSSES[loss].params[name]
            assert param.paper == value or param.note


@pytest.mark.parametrize(("loss", "name"), PARAMS)
def test_every_cited_value_lies_in_the_search_range_or_a_note_says_why(loss, name):
    param = LOSSES[loss].params[name]
    assert param.paper in param.search
    assert param.note or all(value in param.search for _, value in param.cited())
    assert all(value in param.domain for _, value in param.cited())
    assert all(end in param.domain for end in param.search.ends())


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_losss_own_weights_have_a_rate_of_their_own_and_boundaries_do_not_decay(loss):
    own = list(BUILDERS[loss](4, 5, **LOSSES[loss].defaults).parameters())
    assert bool(own) == ("weights_lr" in LOSSES[loss].params)
    # A boundary that decays moves to zero.
    assert not (LOSSES[loss].decay and LOSSES[loss].kind in ("pair", "triplet"))


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_card_says_who_what_and_which_batches(loss):
    card = LOSSES[loss]
    assert str(card.year) in card.cite
    assert card.about.endswith(".")
    assert card.batches in BATCHES
    assert card.params
    # Table 1 has none of these.
    assert card.similarities or card.kind in ("proxy", "classification")
    assert card.mining
    assert card.reduction


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_a_builder_takes_exactly_what_its_card_tunes(loss):
    classes, size, *params = inspect.signature(BUILDERS[loss]).parameters.values()
    assert (classes.name, size.name) == ("classes", "size")
    assert {param.name for param in params} == set(LOSSES[loss].params)
    assert all(
        param.kind is param.KEYWORD_ONLY and param.default is param.empty for param in params
    )


def loss_value(loss: str, setting: dict[str, Any]) -> float:
    torch.manual_seed(0)
    objective = BUILDERS[loss](4, 5, **{**LOSSES[loss].defaults, **setting})
    embeddings, labels = batch_for(loss, 0)
    return objective(
        torch.nn.functional.normalize(embeddings) if LOSSES[loss].normalize else embeddings, labels
    ).item()


@pytest.mark.parametrize(("loss", "name"), [pair for pair in PARAMS if pair[1] != "weights_lr"])
def test_every_parameter_changes_the_loss(loss, name):
    param = LOSSES[loss].params[name]
    values: tuple[Value, ...] = (
        param.search.options
        if isinstance(param.search, Choice)
        else tuple(between(param, s) for s in (0, 0.5, 1))
    )
    found = {loss_value(loss, {name: value}) for value in values}
    assert len(found) == len(values)


@pytest.mark.parametrize("loss", [loss for loss, name in PARAMS if name == "weights_lr"])
def test_weights_lr_is_the_size_of_the_first_step_of_the_losss_own_weights(loss):
    for rate in (0.003, 0.05):
        fit = Fit(
            spec := search(loss, setting={"weights_lr": rate}, steps_per_epoch=1),
            spec.splits[0],
            sketches(),
        )
        before = [param.detach().clone() for param in fit.objective.parameters()]
        fit.train_epoch(1)
        # Adam's first step is rate * g / (|g| + 1e-8), so the largest one is the rate itself.
        steps = [
            (param - old).abs().max().item()
            for param, old in zip(fit.objective.parameters(), before, strict=True)
        ]
        assert steps == pytest.approx([rate] * len(steps), rel=1e-3)
