"""What may be searched of training holds its sources' values, and trials train with it."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
import torch

from search_spaces import Range, Value
from search_spaces.training import TRAINING
from study.config.plan import expand
from study.search.searcher import StudySearcher
from tests.conftest import MakeConfig
from tests.support import ROOT
from tests.support.specs import sketches
from trainables.contract import TrialSpec
from trainables.training.learner import Learner

PUBLISHED = ROOT / "analysis" / "published" / "thesis_schedules.csv"


def test_every_schedule_of_table_3_lies_in_the_ranges() -> None:
    rows = list(csv.DictReader(PUBLISHED.open()))
    assert len(rows) == 9
    for name, column in (
        ("learning_rate", "learning_rate"),
        ("lr_step", "step_size"),
        ("lr_gamma", "gamma"),
    ):
        values = {float(row[column]) for row in rows}
        assert all(value in TRAINING[name].search for value in values)
        assert TRAINING[name].thesis in values


def trained(config: MakeConfig, setting: dict[str, Value], **changes: object) -> Learner:
    """Train a search trial of two epochs."""
    names = [key.removeprefix("training.") for key in setting]
    study = config(
        losses=["contrastive"], protocols=["fixed_validation"], search_training=names, **changes
    )
    plan = expand(study)
    learner = Learner(
        plan.spec(plan.cells[0], "search", 0, plan.published("contrastive") | setting),
        sketches(),
    )
    while not learner.done:
        learner.epoch()
    return learner


def rates(learner: Learner) -> set[float]:
    """Return the learning rates of the last epoch."""
    return {group["lr"] for group in learner.fits[0].optimizer.param_groups}


def test_another_learning_rate_is_used_and_leads_to_other_weights(config: MakeConfig) -> None:
    own, same, other = (
        trained(config, {"training.learning_rate": rate}, lr_step=None)
        for rate in (2e-3, 2e-3, 5e-4)
    )
    assert rates(own) == {2e-3}
    assert rates(other) == {5e-4}
    weights = [
        torch.cat([part.flatten() for part in learner.fits[0].network.parameters()])
        for learner in (own, same, other)
    ]
    assert torch.equal(weights[0], weights[1])
    assert not torch.allclose(weights[0], weights[2])


def test_a_chosen_schedule_is_applied(config: MakeConfig) -> None:
    learner = trained(
        config,
        {"training.learning_rate": 1e-3, "training.lr_step": 2.0, "training.lr_gamma": 0.25},
        epochs=5,
    )
    assert rates(learner) == {1e-3 * 0.25**2}
    assert isinstance(learner.spec.training.lr_step, int)


def test_a_chosen_weight_decay_reaches_the_network(config: MakeConfig) -> None:
    learner = trained(config, {"training.weight_decay": 5e-3})
    decays = {
        group["name"]: group["weight_decay"] for group in learner.fits[0].optimizer.param_groups
    }
    assert decays["trunk"] == decays["head"] == 5e-3


def test_a_search_starts_at_the_studys_own_values_and_final_trials_have_the_chosen_ones(
    config: MakeConfig,
) -> None:
    names = ["learning_rate", "lr_step"]
    study = config(
        losses=["contrastive"],
        protocols=["fixed_validation"],
        search_training=names,
        strategy="random",
        search_trials=4,
    )
    plan = expand(study)
    searcher = StudySearcher(plan)
    suggested = [searcher.suggest(f"t{i}") for i in range(4)]
    specs: list[TrialSpec] = [each["spec"] for each in suggested if isinstance(each, dict)]
    first = specs[0].training
    assert (first.learning_rate, first.lr_step) == (study.learning_rate, study.lr_step)
    assert specs[0].setting == plan.published("contrastive")
    assert len({spec.training.learning_rate for spec in specs}) == 4
    for i in range(4):
        searcher.on_trial_complete(f"t{i}", {"score": float(i == 2), "done": True})
    final = searcher.suggest("final")
    assert isinstance(final, dict)
    assert final["spec"].setting == specs[2].setting
    assert final["spec"].training == replace(specs[2].training, epochs=study.epochs)


@pytest.mark.parametrize("name", sorted(TRAINING))
def test_every_name_is_a_key_with_a_range(name: str, config: MakeConfig) -> None:
    domain = TRAINING[name].search
    assert isinstance(domain, Range)
    study = config(search_training=[name], **{name: TRAINING[name].paper})
    plan = expand(study)
    assert plan.space("triplet")[f"training.{name}"] is TRAINING[name]
    assert plan.published("triplet")[f"training.{name}"] == TRAINING[name].paper
