"""Every preset can be narrowed on each of its axes; a file of the user's own means what it says."""

from pathlib import Path

import pytest
import yaml

from study.config.keys.overrides import AXIS_KEYS, values_for
from study.config.plan import expand
from study.config.sources import resolve
from study.presets import PRESETS
from tests.support.studies import own_data


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return own_data(tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize("axis", sorted(AXIS_KEYS))
@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_plans_with_any_one_value_of_an_axis_and_its_cells_train_as_before(
    name: str, axis: str, own: dict[str, list[str]]
) -> None:
    key, data = AXIS_KEYS[axis], own.get(name, [])
    whole = expand(resolve(name, sets=data).config)
    for value in getattr(whole.config, key):
        plan = expand(resolve(name, sets=[*data, f"{key}={value}"]).config)
        assert plan.cells == tuple(c for c in whole.cells if getattr(c, axis) == value)
        for cell in plan.cells:
            assert values_for(plan.config.where, cell) == values_for(whole.config.where, cell)
            assert plan.published(cell.loss) == whole.published(cell.loss)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_plans_without_any_one_loss(name: str, own: dict[str, list[str]]) -> None:
    data = own.get(name, [])
    losses = resolve(name, sets=data).config.losses
    for left in losses if len(losses) > 1 else ():
        others = [loss for loss in losses if loss != left]
        config = resolve(name, sets=[*data, f"losses={','.join(others)}"]).config
        assert {cell.loss for cell in expand(config).cells} == {*others}


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_smoke_study_of_one_loss_plans(name: str) -> None:
    for loss in resolve(name, smoke=True).config.losses:
        plan = expand(resolve(name, smoke=True, sets=[f"losses={loss}"]).config)
        assert {cell.loss for cell in plan.cells} == {loss}


def test_a_loss_that_one_network_does_not_have_takes_that_network_with_it() -> None:
    found = resolve("triplet_report", sets=["losses=triplet_p_norm@5"])
    assert found.config.backbone == ("resnet18",)
    assert found.config.leave_out == ()
    assert found.choices == [
        "backbone without resnet34, because the preset leaves these out wherever --set still has "
        "cells."
    ]


def test_what_the_user_says_about_cells_that_are_gone_is_an_error() -> None:
    narrow = "losses=triplet,contrastive"
    with pytest.raises(ValueError, match="settings has values for arcface, which is not among"):
        resolve("thesis_default", sets=[narrow, "settings.arcface.scale=30"])
    with pytest.raises(ValueError, match="Unknown loss in where 'arcface'"):
        resolve("thesis_default", sets=[narrow, "where=[{loss: arcface, epochs: 3}]"])
    with pytest.raises(ValueError, match="leave_out leaves no cell"):
        resolve("triplet_report", sets=["losses=triplet_p_norm@5", "backbone=resnet34"])
    with pytest.raises(ValueError, match="Unknown dataset 'cub20'"):
        resolve("thesis_default", sets=["dataset=cub20"])


def test_a_file_of_the_users_own_is_never_narrowed(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    config = resolve("thesis_default").config
    path.write_text(yaml.safe_dump(config.model_dump(mode="json")))
    with pytest.raises(ValueError, match="Unknown dataset in where 'cars196'"):
        resolve(str(path), sets=["dataset=cub200"])
