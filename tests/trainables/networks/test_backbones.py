"""Trunks by name: laws over every member, and torchvision's own models beside ours."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torchvision.models import get_model, get_model_weights

from trainables.networks import backbones
from trainables.networks.backbones import BACKBONES, find_backbone
from trainables.networks.network import InputLayer
from trainables.networks.weights import load_weights

NAMES = sorted(BACKBONES)
TORCHVISION = ["googlenet", "resnet18", "resnet34", "resnet50"]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def pictures(side: int, *, channels: int = 3, count: int = 2) -> torch.Tensor:
    return torch.randint(
        0, 256, (count, channels, side, side), generator=torch.Generator().manual_seed(0)
    ).to(torch.uint8)


@pytest.mark.parametrize("name", NAMES)
def test_a_backbone_says_what_it_is_and_what_it_takes(name):
    backbone = BACKBONES[name]
    assert backbone.about
    assert backbone.input_size >= 28
    assert len(backbone.input_norm.mean) == len(
        backbone.input_norm.std
    ) or backbone.input_norm.std == (1.0,)


@pytest.mark.parametrize("name", NAMES)
def test_a_trunk_returns_a_map_of_as_many_features_as_it_promises_at_its_size_and_below(name):
    backbone = find_backbone(name)
    for channels, side in ((3, backbone.input_size), (1, 32)):
        trunk, features = backbone.build(channels)
        with torch.no_grad():
            found = trunk.eval()(
                InputLayer(backbone.input_norm)(pictures(side, channels=channels, count=1))
            )
        assert found.shape[:2] == (1, features)
        assert found.ndim == 4


@pytest.mark.parametrize("name", NAMES)
def test_a_weight_files_name_holds_its_digest(name):
    file = BACKBONES[name].weights
    if file is not None:
        kind, digest = file.checksum.split(":")
        assert kind == "sha256"
        assert file.name == f"{name}-{digest}.{'pth' if file.url else 'safetensors'}"
        assert len(digest) >= 8


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_is_asked_for_the_first_weights_of_that_name(name):
    file = BACKBONES[name].weights
    assert file.url() == get_model_weights(name).IMAGENET1K_V1.url
    assert file.url().endswith(f"/{file.name}")


@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvisions_model_gives_the_same_features_after_its_own_preprocessing(name, tmp_path):
    """Build the model as torchvision builds it for its ImageNet weights, with random weights."""
    torch.manual_seed(0)
    options = (
        {"aux_logits": True, "transform_input": True, "init_weights": False}
        if name == "googlenet"
        else {}
    )
    model = get_model(name, weights=None, **options)
    images = pictures(64)
    prepared = get_model_weights(name).IMAGENET1K_V1.transforms(crop_size=64, resize_size=64)(
        images
    )
    for norm in [module for module in model.modules() if isinstance(module, nn.BatchNorm2d)]:
        # the statistics of these images, so that features are of the size that they have in use
        norm.momentum = 1.0
    model.train()(prepared)
    torch.save(model.state_dict(), tmp_path / "weights.pth")
    model.fc = nn.Identity()

    trunk, features = BACKBONES[name].build(3)
    load_weights(trunk, tmp_path / "weights.pth")
    with torch.no_grad():
        expected = model.eval()(prepared)
        found = trunk.eval()(InputLayer(BACKBONES[name].input_norm)(images)).mean((2, 3))
    assert found.shape == expected.shape == (2, features)
    assert expected.std() > 0.01
    assert torch.allclose(found, expected, rtol=1e-3, atol=1e-3)


def test_small_has_six_convolutions_and_a_map_of_seven_by_seven():
    trunk, features = BACKBONES["small"].build(1)
    shapes = [tuple(each.weight.shape) for each in trunk if isinstance(each, nn.Conv2d)]
    assert shapes == [
        (after, before, 3, 3)
        for before, after in ((1, 32), (32, 32), (32, 64), (64, 64), (64, 128), (128, 128))
    ]
    assert sum(each.numel() for each in trunk.parameters()) == 286_880
    assert trunk(torch.zeros(1, 1, 28, 28)).shape == (1, features, 7, 7)


def test_an_unknown_backbone_gets_the_near_name():
    with pytest.raises(
        ValueError, match=r"Unknown backbone .* 'bninception'\. Did you mean 'bn_inception'\?"
    ):
        find_backbone("bninception")


def test_without_timm_the_sentence_says_what_to_install(monkeypatch):
    backbones._timm.cache_clear()  # another test may have asked for it
    monkeypatch.setattr(backbones, "find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"timm:resnet18 needs the package timm, .* install fairtrial\[timm\]"
    ):
        find_backbone("timm:resnet18")


def test_names_are_known_without_torch():
    code = (
        "import sys; from trainables.networks.backbones import find_backbone; "
        "find_backbone('resnet50'); sys.exit('torch' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONPATH": ":".join(sys.path)}
        ).returncode
        == 0
    )
