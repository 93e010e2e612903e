"""Models of timm as trunks, with random weights: convolutions, tokens, channels last."""

import pytest
import torch
from torch import nn

from trainables.networks.backbones import find_backbone
from trainables.networks.network import HeadConfig, build_network
from trainables.networks.timm_trunk import TimmTrunk
from trainables.networks.weights import load_weights

timm = pytest.importorskip("timm")

DINO = "vit_small_patch14_dinov2.lvd142m"
SWIN = "swin_tiny_patch4_window7_224.ms_in1k"
VIT = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"
# A smaller size for each.
SIDES = {"resnet10t.c3_in1k": 64, VIT: 64, DINO: 56, SWIN: 64, "convnext_atto.d2_in1k": 64}
FEATURES = {"resnet10t.c3_in1k": 512, VIT: 192, DINO: 384, SWIN: 768, "convnext_atto.d2_in1k": 320}
BUILT: dict[str, TimmTrunk] = {}


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def trunk(name: str) -> TimmTrunk:
    """Build a trunk once for all tests that only read it."""
    if name not in BUILT:
        torch.manual_seed(0)
        BUILT[name], features = find_backbone(f"timm:{name}").build(3)
        assert features == FEATURES[name]
    return BUILT[name].eval()


@pytest.mark.parametrize("name", sorted(SIDES))
def test_any_model_gives_a_map_at_its_size_and_below(name):
    for side in (find_backbone(f"timm:{name}").input_size, SIDES[name]):
        with torch.no_grad():
            found = trunk(name)(torch.zeros(1, 3, side, side))
        assert found.ndim == 4
        assert found.shape[:2] == (1, FEATURES[name])
        assert found.shape[2] == found.shape[3] > 1


@pytest.mark.parametrize("name", sorted(SIDES))
def test_a_backbone_of_timm_says_what_its_configuration_says(name):
    backbone, config = find_backbone(f"timm:{name}"), timm.get_pretrained_cfg(name)
    assert (backbone.input_norm.mean, backbone.input_norm.std) == (config.mean, config.std)
    assert backbone.input_norm.divisor == 255
    assert not backbone.input_norm.bgr
    assert backbone.input_size == (224 if name == DINO else config.input_size[-1])


@pytest.mark.parametrize("name", sorted(SIDES))
def test_the_hub_is_asked_for_the_weights_with_or_without_their_tag(name):
    file = find_backbone(f"timm:{name}").weights
    assert (
        find_backbone(f"timm:{name.split('.')[0]}").weights.name
        == file.name
        == f"{name}.safetensors"
    )
    assert file.url().endswith(f"/timm/{name}/resolve/main/model.safetensors")


@pytest.mark.parametrize("name", [VIT, DINO])
def test_tokens_lie_in_the_map_where_their_patches_lie_in_the_image(name):
    model, patch = trunk(name).model, trunk(name).model.patch_embed.patch_size[0]
    images = torch.rand(2, 3, 2 * patch, 3 * patch, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        tokens, found = model.forward_features(images), trunk(name)(images)
    assert found.shape == (2, FEATURES[name], 2, 3)
    for row in range(2):
        for column in range(3):
            assert torch.allclose(
                found[:, :, row, column], tokens[:, 1 + 3 * row + column], atol=1e-5
            )


def test_channels_last_are_put_first():
    images = torch.rand(1, 3, 64, 96, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, expected = trunk(SWIN)(images), trunk(SWIN).model.forward_features(images)
    assert found.shape == (1, 768, 2, 3)
    assert torch.allclose(found.permute(0, 2, 3, 1), expected, atol=1e-5)


@pytest.mark.parametrize("name", sorted(SIDES))
def test_a_gradient_reaches_every_parameter_that_learns(name):
    model = trunk(name)
    found = model(
        torch.rand(2, 3, SIDES[name], SIDES[name], generator=torch.Generator().manual_seed(0))
    )
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    # A plain sum is blind behind a layer norm.
    weights = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    assert all(
        gradient is not None for gradient in torch.autograd.grad((found * weights).sum(), learning)
    )
    idle = [key for key, parameter in model.named_parameters() if not parameter.requires_grad]
    assert idle == (
        ["model.head.norm.weight", "model.head.norm.bias"] if "convnext" in name else []
    )


def test_it_makes_a_network_like_any_other():
    def made(seed: int) -> nn.Module:
        return build_network(
            "timm:resnet10t",
            1,
            head=HeadConfig(8),
            pooling="gap+gmp",
            weights=None,
            freeze_bn=True,
            bf16=False,
            seed=seed,
        )

    network = made(0)
    grey = torch.randint(0, 256, (2, 1, 64, 64), generator=torch.Generator().manual_seed(0)).to(
        torch.uint8
    )
    assert network(grey).shape == (2, 8)
    assert not [
        m
        for m in network.trunk.modules()
        if isinstance(m, nn.BatchNorm2d) and (m.training or m.weight.requires_grad)
    ]
    first, again, other = network.state_dict(), made(0).state_dict(), made(1).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)
    made(1).load_state_dict(first)


@pytest.mark.parametrize("name", ["resnet10t.c3_in1k", "convnext_atto.d2_in1k", SWIN])
def test_weights_of_the_whole_model_fit_its_trunk(name, tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(1)
    model = timm.create_model(name).eval()
    save_file(model.state_dict(), tmp_path / "model.safetensors")
    loaded, _ = find_backbone(f"timm:{name}").build(3)
    load_weights(loaded, tmp_path / "model.safetensors")
    images = torch.rand(1, 3, 224, 224, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        found, expected = loaded.eval()(images), model.forward_features(images)
    assert torch.allclose(
        found, expected.permute(0, 3, 1, 2) if name == SWIN else expected, atol=1e-4
    )


def test_a_file_in_its_authors_layout_goes_through_timms_conversion(tmp_path):
    """DINOv2's own file holds a mask token, which no trunk needs."""
    state = {key: value + 1 for key, value in trunk(DINO).model.state_dict().items()}
    torch.save({**state, "mask_token": torch.zeros(1, 384)}, tmp_path / "dinov2.pth")
    loaded, _ = find_backbone(f"timm:{DINO}").build(3)
    load_weights(loaded, tmp_path / "dinov2.pth")
    assert all(torch.equal(value, state[key]) for key, value in loaded.model.state_dict().items())


def test_a_model_that_timm_does_not_know_gets_near_names():
    with pytest.raises(ValueError, match=r"timm has no model 'resnet_50'; did you mean .*resnet50"):
        find_backbone("timm:resnet_50")
    with pytest.raises(
        ValueError, match=r"timm has no model 'resnet18.a9_in1k'; did you mean .*resnet18\.a"
    ):
        find_backbone("timm:resnet18.a9_in1k")
