"""label_fraction as an axis: every loss once for each share of the labels, told apart by name."""

from pathlib import Path

import pytest
import yaml

from study.config.plan import expand
from study.config.sources import resolve
from study.presets.label_fractions import repeat_losses
from trainables.contract import TrialSpec


def specs(*sets: str) -> dict[str, TrialSpec]:
    """Return a final trial of every cell of the first replicate."""
    plan = expand(resolve("quickstart", sets=["losses=triplet,contrastive", *sets]).config)
    seed = plan.all_final_seeds()[0]
    return {str(c): plan.spec(c, "final", seed, plan.published(c.loss)) for c in plan.cells}


def test_several_shares_repeat_every_loss_and_one_share_is_that_of_all() -> None:
    found = specs("label_fraction=0.1,1", "split_seed=5")
    shares = {spec.cell.loss: spec.training.label_fraction for spec in found.values()}
    assert shares == {
        "triplet@labels_0.1": 0.1,
        "triplet": 1.0,
        "contrastive@labels_0.1": 0.1,
        "contrastive": 1.0,
    }
    assert {spec.training.label_fraction for spec in specs("label_fraction=0.5").values()} == {0.5}
    assert {spec.training.label_fraction for spec in specs().values()} == {1.0}


def test_all_losses_and_trials_of_a_replicate_see_the_labels_of_the_same_images() -> None:
    plan = expand(resolve("quickstart", sets=["label_fraction=0.2", "searches=2"]).config)
    seeds: dict[int, set[int]] = {1: set(), 2: set()}
    for cell in plan.cells:
        setting = plan.published(cell.loss)
        for replicate in plan.replicates:
            for seed in plan.final_seeds(replicate):
                seeds[replicate].add(plan.spec(cell, "final", seed, setting).label_seed)
            if plan.searched(cell):
                search = plan.spec(cell, "search", plan.search_seed(replicate), setting)
                seeds[replicate].add(search.label_seed)
    assert len(seeds[1]) == len(seeds[2]) == 1
    assert seeds[1] != seeds[2]


def test_what_a_study_says_about_a_loss_it_says_about_each_repetition() -> None:
    values = {
        "losses": ["triplet", "margin@wide"],
        "label_fraction": "0.5, 1",
        "settings": {"margin@wide": {"margin": 0.5}},
        "where": [{"loss": "triplet", "epochs": 3}, {"dataset": "sop", "epochs": 4}],
        "leave_out": [{"loss": ["margin@wide"], "backbone": "tiny"}],
    }
    both = ["margin@wide-labels_0.5", "margin@wide"]
    assert repeat_losses(values) == {
        "label_fraction": 1.0,
        "losses": ["triplet@labels_0.5", "triplet", *both],
        "settings": {name: {"margin": 0.5} for name in both},
        "where": [
            {"loss": ["triplet@labels_0.5", "triplet"], "epochs": 3},
            {"dataset": "sop", "epochs": 4},
            {"loss": ["triplet@labels_0.5", "margin@wide-labels_0.5"], "label_fraction": 0.5},
        ],
        "leave_out": [{"loss": both, "backbone": "tiny"}],
    }


def test_a_study_with_an_axis_of_labels_is_the_same_read_from_its_own_config(
    tmp_path: Path,
) -> None:
    config = resolve("quickstart", sets=["label_fraction=[0.25, 1]"]).config
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert resolve(str(path)).config == config


@pytest.mark.parametrize("share", ["0", "1.5", "0.1,2", "few,all"])
def test_a_share_of_labels_lies_between_0_and_1(share: str) -> None:
    with pytest.raises(ValueError, match="label_fraction"):
        resolve("quickstart", sets=[f"label_fraction={share}"])
