"""Values that depend on the cell, cells that are left out, and one loss several times."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from search_spaces import find_card
from study.config.keys.overrides import CELL_AXES, OVERRIDABLE, SHARED
from study.config.notices import notices
from study.config.plan import expand
from study.config.sources import resolve
from study.config.study_config import make
from tests.support.studies import from_scratch
from trainables.losses import find_builder

TWO: dict[str, Any] = {
    "embedding_size": [16, 32],
    "losses": ["triplet", "proxy_anchor"],
    "protocols": ["default"],
}


def test_an_entry_holds_for_the_cells_that_match_all_its_axes_and_later_ones_win() -> None:
    entries = [
        {"loss": ["triplet", "proxy_anchor"], "learning_rate": "1e-4", "lr_step": 3},
        {"loss": "triplet", "embedding_size": "32", "learning_rate": 0.5},
    ]
    config = make(from_scratch() | TWO | {"where": entries})
    plan = expand(config)
    rates = {
        (cell.loss, cell.embedding_size): plan.spec(cell, "final", 1, {}).training.learning_rate
        for cell in plan.cells
    }
    assert rates == {
        ("triplet", 16): 1e-4,
        ("triplet", 32): 0.5,
        ("proxy_anchor", 16): 1e-4,
        ("proxy_anchor", 32): 1e-4,
    }
    assert {plan.spec(cell, "final", 1, {}).training.lr_step for cell in plan.cells} == {3}


def test_a_spec_has_every_value_that_may_vary() -> None:
    entry = {
        "loss": "triplet",
        "epochs": 5,
        "pooling": "gmp",
        "image_size": 20,
        "crop_scale": [0.5, 1],
    }
    config = make(from_scratch() | TWO | {"where": [entry]})
    plan = expand(config)
    spec = plan.spec(plan.cells[0], "final", 1, {})
    assert (
        spec.training.epochs,
        spec.model.pooling,
        spec.transform.image_size,
        spec.transform.crop_scale,
    ) == (5, "gmp", 20, (0.5, 1.0))
    other = plan.spec(plan.cells[-1], "final", 1, {})
    assert (other.training.epochs, other.model.pooling, other.transform.image_size) == (
        8,
        "grid",
        28,
    )


def test_search_trials_have_the_same_epochs_in_all_cells() -> None:
    values = {
        "losses": ["triplet", "contrastive"],
        "protocols": ["fixed_validation"],
        "search_epochs": 4,
    }
    config = make(from_scratch() | values | {"where": [{"loss": "triplet", "epochs": 6}]})
    plan = expand(config)
    epochs = {
        (cell.loss, phase): plan.spec(cell, phase, 0, {}).training.epochs
        for cell in plan.cells
        for phase in ("search", "final")
    }
    assert epochs == {
        ("triplet", "search"): 4,
        ("contrastive", "search"): 4,
        ("triplet", "final"): 6,
        ("contrastive", "final"): 8,
    }


def test_left_out_cells_are_not_there_and_neither_are_their_baselines() -> None:
    config = make(from_scratch() | TWO | {"leave_out": [{"loss": "triplet", "embedding_size": 32}]})
    assert [(cell.loss, cell.embedding_size) for cell in expand(config).cells] == [
        ("triplet", 16),
        ("proxy_anchor", 16),
        ("proxy_anchor", 32),
    ]
    two = {
        "dataset": ["sketches", "cub200"],
        "backbone": ["tiny", "resnet18"],
        "leave_out": [{"dataset": "cub200", "backbone": "tiny"}],
    }
    both = make(from_scratch() | two)
    places = {(cell.dataset, cell.backbone) for cell, _ in expand(both).baseline_cells()}
    assert ("cub200", "tiny") not in places
    assert {("sketches", "tiny"), ("cub200", "resnet18"), ("cub200", "pixels")} <= places


def test_a_tag_is_the_same_loss_again() -> None:
    values = {"losses": ["triplet", "triplet@wide"], "settings": {"triplet@wide": {"margin": 0.5}}}
    config = make(
        from_scratch() | values | {"where": [{"loss": "triplet@wide", "batch_size": 100}]}
    )
    plan = expand(config)
    assert find_card("triplet@wide") is find_card("triplet")
    assert find_builder("triplet@wide") is find_builder("triplet")
    assert (
        plan.published("triplet")["loss.margin"],
        plan.published("triplet@wide")["loss.margin"],
    ) == (0.1, 0.5)
    assert [plan.for_cell(cell).batch_size for cell in plan.cells] == [
        50,
        50,
        100,
        100,
    ]


BAD: list[tuple[dict[str, Any], str]] = [
    (
        {"where": [{"los": "triplet", "epochs": 3}]},
        ("Unknown axis or key in where 'los'. Did you mean 'loss'?"),
    ),
    ({"where": [{"loss": "triplet", "bach_size": 3}]}, "Did you mean 'batch_size'?"),
    (
        {"where": [{"loss": "triplt", "epochs": 3}]},
        ("Unknown loss in where 'triplt'. Did you mean 'triplet'?"),
    ),
    (
        {"where": [{"embedding_size": 17, "epochs": 3}]},
        ("Unknown embedding_size in where '17'. Did you mean '16'?"),
    ),
    (
        {"where": [{"loss": "triplet", "metrics": ["r_precision"]}]},
        ("metrics is the same in all cells of a study"),
    ),
    ({"where": [{"epochs": 3}]}, "An entry of where names the cells that it is for"),
    ({"where": [{"loss": "triplet"}]}, ("An entry of where sets a value, but got {loss: triplet}")),
    ({"where": [{"loss": "triplet", "epochs": "many"}]}, "In where, epochs='many'"),
    (
        {"where": [{"loss": "triplet", "crop_scale": [1, 0.5]}]},
        ("In where, A range goes from a smaller to a larger"),
    ),
    ({"where": [{"loss": "triplet", "optimizer": "adamww"}]}, "Did you mean 'adamw'?"),
    (
        {"where": [{"loss": "triplet", "batch_size": 51}]},
        ("batch_size=51 must be a multiple of images_per_class=5; use 50."),
    ),
    (
        {"where": [{"loss": "triplet", "images_per_class": 1}]},
        ("triplet compares images of one class, but images_per_class=1"),
    ),
    (
        {
            "where": [{"loss": "triplet", "warm_up": 3}],
            "protocols": ["fixed_validation"],
            "grace": 2,
        },
        "grace=2 is not above warm_up=3",
    ),
    (
        {"where": [{"loss": "triplet", "epochs": 4}], "protocols": ["fixed_validation"]},
        "search_epochs=8 must not be above epochs=4",
    ),
    (
        {"where": [{"loss": "triplet", "learning_rate": 1}], "search_training": ["learning_rate"]},
        "so where cannot set it",
    ),
    ({"where": "triplet"}, "where="),
    ({"where": ["triplet"]}, "where.0='triplet'"),
    (
        {"leave_out": [{"loss": "triplet"}]},
        ("leave_out leaves no cell with loss=triplet; take it out of losses instead."),
    ),
    (
        {"leave_out": [{"loss": "triplet", "epochs": 3}]},
        ("epochs is the same in all cells of a study, so leave_out cannot have it"),
    ),
    (
        {
            "leave_out": [{"loss": "triplet", "embedding_size": 16}],
            "where": [{"loss": "triplet", "embedding_size": 16, "epochs": 3}],
        },
        "An entry of where matches a cell of the study, but {loss: triplet, embedding_size: 16, "
        "epochs: 3} matches none",
    ),
    ({"losses": ["triplet@"]}, "What follows the @ of a loss is a tag"),
    ({"losses": ["triplett@a"]}, "Unknown loss 'triplett'. Did you mean 'triplet'?"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[str(changes) for changes, _ in BAD])
def test_a_bad_entry_is_one_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)) as error:
        make(from_scratch() | TWO | changes)
    assert "\n" not in str(error.value)


def test_what_may_vary_is_a_key_and_no_axis() -> None:
    assert set(OVERRIDABLE) <= make(from_scratch()).model_dump().keys()
    assert not set(OVERRIDABLE) & {*CELL_AXES, *SHARED}


def test_entries_come_from_the_command_line_and_survive_yaml(tmp_path: Path) -> None:
    config = resolve(
        "quickstart",
        sets=[
            "where=[{loss: triplet, crop_scale: [0.5, 1]}]",
            "leave_out=[{loss: triplet, protocol: default}]",
        ],
    ).config
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    assert resolve(str(path)).config == config
    assert len(expand(config).cells) == 10 * 2 - 1


def test_notices_are_those_of_the_cells_own_values() -> None:
    config = make(from_scratch() | TWO | {"where": [{"loss": "triplet", "batch_size": 600}]})
    assert notices(expand(config)) == [
        "sketches has 100 classes to train on under default: a balanced batch holds 500 images, "
        "not 600."
    ]
