"""The embedding network and its trunks."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from trainables.networks.backbones import BACKBONES
from trainables.networks.network import build

NAMES = sorted(BACKBONES)
LEARNING = [name for name in NAMES if BACKBONES[name].head]
SHAPES = [(1, 28, 28), (3, 28, 28), (1, 33, 40)]


@pytest.fixture(autouse=True)
def _one_thread():
    torch.set_num_threads(1)


def images(shape: tuple[int, int, int], count: int = 6) -> torch.Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", NAMES)
def test_a_trunk_returns_as_many_features_as_it_promises(name, shape):
    trunk, features = BACKBONES[name].build(shape)
    assert trunk(images(shape)).shape == (6, features)


@pytest.mark.parametrize("name", NAMES)
def test_the_network_is_a_linear_head_on_the_trunk_and_returns_the_raw_vector(name):
    shape = (1, 28, 28)
    network = build(name, shape, size=8, seed=0)
    features = network.trunk(images(shape))
    embeddings = network(images(shape))
    expected = F.linear(features, network.head.weight, network.head.bias) if BACKBONES[name].head else features
    assert torch.equal(embeddings, expected)
    assert (embeddings.norm(dim=1) - 1).abs().max() > 0.01


@pytest.mark.parametrize("name", LEARNING)
def test_an_embedding_has_the_asked_size(name):
    for size in (2, 8, 64):
        assert build(name, (1, 28, 28), size=size, seed=0)(images((1, 28, 28))).shape == (6, size)


@pytest.mark.parametrize("name", [name for name in NAMES if not BACKBONES[name].head])
def test_a_trunk_without_a_head_has_nothing_to_learn(name):
    network = build(name, (1, 28, 28), size=8, seed=0)
    assert not list(network.parameters())
    assert isinstance(network.head, nn.Identity)


def test_raw_pixels_are_the_image_itself():
    shape = (3, 5, 4)
    assert torch.equal(build("pixels", shape, size=8, seed=0)(images(shape)), images(shape).reshape(6, 60))


@pytest.mark.parametrize("name", LEARNING)
def test_the_same_seed_gives_the_same_weights_whatever_was_drawn_before(name):
    torch.manual_seed(1)
    first = build(name, (1, 28, 28), size=8, seed=5).state_dict()
    torch.manual_seed(2)
    torch.randn(100)
    again = build(name, (1, 28, 28), size=8, seed=5).state_dict()
    other = build(name, (1, 28, 28), size=8, seed=6).state_dict()
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", NAMES)
def test_building_a_network_draws_nothing_from_the_global_generator(name):
    torch.manual_seed(3)
    expected = torch.randn(5)
    torch.manual_seed(3)
    build(name, (1, 28, 28), size=8, seed=5)
    assert torch.equal(torch.randn(5), expected)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("name", NAMES)
def test_an_images_embedding_does_not_depend_on_the_rest_of_its_batch(name, mode):
    network = build(name, (1, 28, 28), size=8, seed=0)
    network.train(mode == "train")
    together = network(images((1, 28, 28)))
    alone = torch.cat([network(image[None]) for image in images((1, 28, 28))])
    assert torch.allclose(together, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_scoring_leaves_no_trace_in_the_network(name):
    network = build(name, (1, 28, 28), size=8, seed=0)
    before = {key: value.clone() for key, value in network.state_dict().items()}
    network.train()(images((1, 28, 28)))
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())


@pytest.mark.parametrize("name", LEARNING)
def test_different_images_get_different_embeddings(name):
    embeddings = F.normalize(build(name, (1, 28, 28), size=8, seed=0)(images((1, 28, 28))))
    assert (embeddings @ embeddings.T - torch.eye(6)).triu(1).max() < 1 - 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_a_backbone_says_what_it_is(name):
    assert BACKBONES[name].about
