"""The embedding network: input layer, trunk, pooling, head, frozen batch norm, mixed precision."""

import copy
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from trainables.losses import Objective
from trainables.networks.backbones import BACKBONES, POOLINGS, InputNorm
from trainables.networks.network import POOLS, HeadConfig, InputLayer, Network, build_network
from trainables.training.optimiser import make_optimiser, parameter_groups, set_learning_rates

NAMES = sorted(BACKBONES)
LEARNING = [name for name in NAMES if BACKBONES[name].head]
NORMED = [name for name in LEARNING if BACKBONES[name].batch_norm]
SIDE = 32


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def images(channels: int = 3, *, count: int = 4, side: int = SIDE, seed: int = 0) -> Tensor:
    return torch.randint(
        0, 256, (count, channels, side, side), generator=torch.Generator().manual_seed(seed)
    ).to(torch.uint8)


def made(name: str, channels: int = 3, **changes) -> Network:
    options = {
        "head": HeadConfig(8),
        "pooling": "gap",
        "weights": None,
        "freeze_bn": False,
        "bf16": False,
        "seed": 0,
    }
    return build_network(name, channels, **(options | changes))


@cache
def shared(name: str, channels: int = 3) -> Network:
    """Build a network once for tests that only read it."""
    return made(name, channels, freeze_bn=True).eval()


# InputNorm


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_pixels_enter_as_the_backbone_states(name, channels):
    norm, pixels = BACKBONES[name].input_norm, images(channels)
    wanted = len(norm.mean) if len(norm.mean) > 1 else channels
    found = InputLayer(norm)(pixels)
    assert found.dtype == torch.float32
    assert found.shape == (4, wanted, SIDE, SIDE)
    assert found.is_contiguous(memory_format=torch.channels_last)
    for i in range(wanted):
        mean, std = norm.mean[i % len(norm.mean)], norm.std[i % len(norm.std)]
        source = 0 if channels == 1 else wanted - 1 - i if norm.bgr else i
        assert torch.allclose(
            found[:, i].double(),
            (pixels[:, source].double() / norm.divisor - mean) / std,
            rtol=1e-5,
            atol=1e-6,
        )


def test_bn_inception_sees_blue_first_from_0_to_255():
    red = torch.zeros(1, 3, 2, 2, dtype=torch.uint8)
    red[:, 0] = 255
    assert InputLayer(BACKBONES["bn_inception"].input_norm)(red)[0, :, 0, 0].tolist() == [
        -104,
        -117,
        255 - 128,
    ]


def test_the_batch_itself_stays_as_it_is():
    for norm in (
        InputNorm(),
        BACKBONES["bn_inception"].input_norm,
        BACKBONES["resnet18"].input_norm,
    ):
        pixels = images().contiguous(memory_format=torch.channels_last)
        before = pixels.clone()
        InputLayer(norm)(pixels)
        assert torch.equal(pixels, before)


# Embeddings


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", LEARNING)
def test_an_embedding_is_a_linear_map_of_the_pooled_features_and_raw(name, channels):
    network, pixels = shared(name, channels), images(channels)
    with torch.no_grad():
        pooled, embeddings = network.pooled(pixels), network(pixels)
        expected = F.linear(pooled, network.head.weight, network.head.bias)
    assert embeddings.shape == (4, 8)
    assert pooled.dtype == embeddings.dtype == torch.float32
    assert torch.equal(embeddings, expected)
    assert (embeddings.norm(dim=1) - 1).abs().max() > 0.01


@pytest.mark.parametrize("name", LEARNING)
def test_different_images_get_different_embeddings(name):
    network = copy.deepcopy(shared(name))
    network.freeze_bn = (
        False  # an untrained googlenet's features fade away without the statistics of its batch
    )
    with torch.no_grad():
        assert torch.pdist(network.train()(images())).min() > 1e-4


@pytest.mark.parametrize("size", [2, 64, 1024])
def test_an_embedding_has_the_asked_size(size):
    assert made("tiny", head=HeadConfig(size))(images()).shape == (4, size)


def test_raw_pixels_are_the_image_itself_whatever_the_pooling():
    for pooling in POOLINGS:
        network = made("pixels", pooling=pooling)
        assert torch.equal(network(images()), images().flatten(1).float() / 255)
        assert torch.equal(network.pooled(images()), network(images()))
        assert not list(network.parameters())


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", ["tiny", "small"])
def test_with_group_norm_an_embedding_does_not_depend_on_the_rest_of_its_batch(name, mode):
    network = made(name).train(mode == "train")
    alone = torch.cat([network(image[None]) for image in images()])
    assert torch.allclose(network(images()), alone, rtol=1e-4, atol=1e-6)


# Pooling


@pytest.mark.parametrize("pooling", sorted(POOLINGS))
@pytest.mark.parametrize("name", LEARNING)
def test_every_pooling_gives_as_many_numbers_as_the_head_takes(name, pooling):
    widths = {"tiny": 64, "small": 128, "resnet50": 2048, "resnet18": 512, "resnet34": 512}
    trunk, features = shared(name).trunk, widths.get(name, 1024)
    backbone = copy.copy(BACKBONES[name])
    object.__setattr__(backbone, "build", lambda channels: (trunk, features))  # built once
    network = Network(backbone, 3, head=HeadConfig(8), pooling=pooling, freeze_bn=True, bf16=False)
    with torch.no_grad():
        assert network.pooled(images(count=2)).shape == (
            2,
            features * {"grid": 9, "gap-gmp": 2}.get(pooling, 1),
        )
        assert network(images(count=2)).shape == (2, 8)


def test_poolings_are_what_they_say():
    networks = {pooling: made("tiny", pooling=pooling) for pooling in POOLINGS}
    with torch.no_grad():
        maps = networks["gap"].trunk(networks["gap"].input_layer(images(side=48)))
        pooled = {pooling: network.pooled(images(side=48)) for pooling, network in networks.items()}
    assert maps.shape == (4, 64, 6, 6)
    mean, most = maps.mean((2, 3)), maps.amax((2, 3))
    cells = [
        maps[:, :, row : row + 2, column : column + 2].mean((2, 3))
        for row in (0, 2, 4)
        for column in (0, 2, 4)
    ]
    expected = {
        "gap": mean,
        "gmp": most,
        "gap+gmp": mean + most,
        "gap-gmp": torch.cat([mean, most], dim=1),
        "grid": torch.stack(cells, 2).flatten(1),
    }
    assert expected.keys() == POOLINGS.keys()
    for pooling, value in expected.items():
        assert torch.allclose(pooled[pooling], value, atol=1e-5), pooling


@pytest.mark.parametrize("sides", [(7, 7), (3, 3), (4, 5), (8, 6), (1, 2)])
@pytest.mark.parametrize(
    ("pooling", "torchs"),
    [
        ("gmp", lambda maps: F.adaptive_max_pool2d(maps, 1).flatten(1)),
        ("grid", lambda maps: F.adaptive_avg_pool2d(maps, 3).flatten(1)),
    ],
    ids=["gmp", "grid"],
)
def test_poolings_have_the_values_and_gradients_of_torchs_own_to_the_bit(pooling, torchs, sides):
    maps = torch.randn(4, 5, *sides, generator=torch.Generator().manual_seed(0))
    maps = maps.to(memory_format=torch.channels_last)
    grads = []
    for pool in (POOLS[pooling][0], torchs):
        leaf = maps.clone().requires_grad_()
        pooled = pool(leaf)
        (pooled * pooled.detach().cos()).sum().backward()
        grads.append((pooled, leaf.grad))
    (ours, our_grad), (theirs, their_grad) = grads
    assert torch.equal(ours, theirs)
    assert torch.equal(our_grad, their_grad)


def test_cells_that_tie_for_the_maximum_share_its_gradient():
    maps = torch.tensor([[[[3.0, 1.0], [3.0, 0.0]]]], requires_grad=True)
    POOLS["gmp"][0](maps).backward()
    assert maps.grad.tolist() == [[[[0.5, 0.0], [0.5, 0.0]]]]


def test_an_unknown_pooling_gets_the_near_name():
    with pytest.raises(ValueError, match=r"Unknown pooling 'gep'\. Did you mean"):
        made("tiny", pooling="gep")


@pytest.mark.parametrize("channels", [1, 3])
def test_tiny_with_a_grid_is_the_quickstarts_network_to_the_last_bit(channels):
    """It is three convolutions, a 3 x 3 grid of averages and a linear head."""
    torch.manual_seed(5)
    layers: list[nn.Module] = [nn.AvgPool2d(2)]
    for before, after in ((channels, 16), (16, 32), (32, 64)):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.GroupNorm(4, after),
            nn.ReLU(),
        ]
        layers += [nn.MaxPool2d(2) if after < 64 else nn.AdaptiveAvgPool2d(3)]
    old = nn.Sequential(*layers, nn.Flatten(), nn.Linear(576, 8)).to(
        memory_format=torch.channels_last
    )
    new, pixels = made("tiny", channels, pooling="grid", seed=5), images(channels, side=28)
    assert torch.equal(new(pixels), old(pixels.float().div_(255)))
    assert all(torch.equal(a, b) for a, b in zip(new.parameters(), old.parameters(), strict=True))


# Seeds and states


@pytest.mark.parametrize("name", LEARNING)
def test_the_same_seed_gives_the_same_weights_and_draws_nothing_from_the_global_generator(name):
    torch.manual_seed(3)
    expected = torch.randn(5)
    torch.manual_seed(3)
    # The shared network was built earlier, after other draws.
    again, other, first = (made(name), made(name, seed=6), shared(name).state_dict())
    assert torch.equal(torch.randn(5), expected)
    assert all(torch.equal(value, again.state_dict()[key]) for key, value in first.items())
    assert any(not torch.equal(value, other.state_dict()[key]) for key, value in first.items())
    other.load_state_dict(first)  # strictly
    with torch.no_grad():
        assert torch.equal(other.eval()(images(count=1)), again.eval()(images(count=1)))


def test_a_frozen_networks_state_fits_one_that_learns_and_back():
    frozen, free = made("resnet18", freeze_bn=True), made("resnet18", seed=1)
    free.load_state_dict(frozen.state_dict())
    frozen.load_state_dict(free.state_dict())


def test_the_state_is_trunk_and_head_only():
    assert {key.split(".")[0] for key in made("resnet18").state_dict()} == {"trunk", "head"}


def test_a_weight_file_replaces_the_trunks_weights_and_not_the_heads(tmp_path):
    other = made("resnet18", seed=1)
    torch.save(other.trunk.state_dict(), tmp_path / "weights.pth")
    network, plain = made("resnet18", weights=tmp_path / "weights.pth"), made("resnet18")
    assert all(
        torch.equal(a, b)
        for a, b in zip(network.trunk.parameters(), other.trunk.parameters(), strict=True)
    )
    assert torch.equal(network.head.weight, plain.head.weight)


# Learning


@pytest.mark.parametrize("name", LEARNING)
def test_a_gradient_reaches_every_parameter_that_learns(name):
    learning = {
        key: parameter
        for key, parameter in shared(name).named_parameters()
        if parameter.requires_grad
    }
    gradients = torch.autograd.grad(shared(name)(images()).square().sum(), list(learning.values()))
    assert not [
        key for key, gradient in zip(learning, gradients, strict=True) if not gradient.any()
    ]


def test_convolutions_are_laid_out_channels_last():
    weight = made("resnet18").trunk.layer1[0].conv1.weight
    assert weight.is_contiguous(memory_format=torch.channels_last)


def train(network: Network, *, epochs: int, warm_up: int) -> None:
    """Take a step per epoch that pulls embeddings to a random target."""
    chosen = parameter_groups(
        network,
        Objective(nn.Identity()),
        learning_rate=1e-3,
        head_learning_rate=None,
        weight_decay=0.1,
    )
    optimiser = make_optimiser("adamw", chosen, momentum=0.0)
    for epoch in range(1, epochs + 1):
        set_learning_rates(optimiser, epoch, step=None, gamma=1.0, warm_up=warm_up)
        nn.Sequential(network).train()  # as a wrapper would call it
        optimiser.zero_grad()
        (network(images(seed=epoch)) - 3).square().mean().backward()
        optimiser.step()


def split_state(network: Network) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return copies of batch norm's parameters and statistics, and of everything else."""
    norms = {key for key, module in network.named_modules() if isinstance(module, _BatchNorm)}
    state = {key: value.clone() for key, value in network.state_dict().items()}
    inside = {key: value for key, value in state.items() if key.rsplit(".", 1)[0] in norms}
    return inside, {key: value for key, value in state.items() if key not in inside}


def moved(before: dict[str, Tensor], after: dict[str, Tensor]) -> set[str]:
    return {key for key in before if not torch.equal(before[key], after[key])}


@pytest.mark.parametrize("name", NORMED)
def test_frozen_batch_norm_stays_to_the_last_bit_through_warm_up_and_after(name):
    network = made(name, freeze_bn=True)
    norms, rest = split_state(network)
    assert norms
    train(network, epochs=1, warm_up=1)
    assert moved(norms, split_state(network)[0]) == set()
    assert moved(rest, split_state(network)[1]) == {"head.weight", "head.bias"}
    train(network, epochs=2, warm_up=1)
    assert moved(norms, split_state(network)[0]) == set()
    assert moved(rest, split_state(network)[1]) == set(rest)
    network.eval()
    network.train()
    assert not [
        module for module in network.modules() if isinstance(module, _BatchNorm) and module.training
    ]


@pytest.mark.parametrize("name", ["bn_inception", "resnet18"])
def test_batch_norm_that_is_not_frozen_moves(name):
    network = made(name)
    norms, _ = split_state(network)
    train(network, epochs=2, warm_up=1)
    assert moved(norms, split_state(network)[0]) == set(norms)


@pytest.mark.parametrize("kind", [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm])
def test_any_batch_norm_counts(kind):
    norm = kind(3)
    backbone = copy.copy(BACKBONES["tiny"])
    object.__setattr__(backbone, "build", lambda channels: (nn.Sequential(norm), 3))
    network = Network(
        backbone, 3, head=HeadConfig(2), pooling="gap", freeze_bn=True, bf16=False
    ).train()
    assert not norm.training
    assert [key for key, parameter in network.named_parameters() if parameter.requires_grad] == [
        "head.weight",
        "head.bias",
    ]


# Mixed precision


def test_bf16_is_for_the_trunk_only():
    network, exact = made("resnet18", bf16=True, freeze_bn=True), made("resnet18", freeze_bn=True)
    seen: dict[str, torch.dtype] = {}
    network.trunk.register_forward_hook(lambda module, given, found: seen.update(trunk=found.dtype))
    network.head.register_forward_hook(
        lambda module, given, found: seen.update(head=given[0].dtype, embedding=found.dtype)
    )
    embeddings = network(images())
    assert seen == {"trunk": torch.bfloat16, "head": torch.float32, "embedding": torch.float32}
    assert {parameter.dtype for parameter in network.parameters()} == {torch.float32}
    assert not torch.equal(embeddings, exact(images()))
    assert torch.allclose(embeddings, exact(images()), atol=0.05 * embeddings.abs().max().item())
    embeddings.square().sum().backward()
    assert {p.grad.dtype for p in network.parameters() if p.requires_grad} == {torch.float32}


def test_without_bf16_everything_is_float32_even_inside_somebody_elses_autocast():
    network = made("resnet18")
    seen: list[torch.dtype] = []
    network.trunk.register_forward_hook(lambda module, given, found: seen.append(found.dtype))
    with torch.autocast("cpu", torch.bfloat16):
        assert network.pooled(images()).dtype == torch.float32
    assert seen == [torch.float32]
