"""A batch in chunks holds the activations of one chunk at most."""

import weakref

import pytest
import torch
from torch import Tensor

from tests.support.specs import search, sketches
from trainables.networks.backbones import BACKBONES
from trainables.networks.chunks import embed_in_chunks
from trainables.networks.network import HeadConfig, build_network
from trainables.training.fit import Fit

GROUP_NORMED = sorted(name for name, each in BACKBONES.items() if each.head and not each.batch_norm)


class Held:
    """Embed, and remember which activations are still held for the way back."""

    def __init__(self) -> None:
        self.activations: list[weakref.ref[Tensor]] = []
        self.most = 0

    def __call__(self, rows: Tensor) -> Tensor:
        grown = rows.exp()  # keeps its result for its gradient
        self.activations.append(weakref.ref(grown))
        self.most = max(self.most, self.rows())
        return grown.square()

    def rows(self) -> int:
        return sum(len(held) for each in self.activations if (held := each()) is not None)


def test_activations_of_one_chunk_are_the_most_that_is_held():
    rows, embed = torch.randn(12, 3, requires_grad=True), Held()
    embeddings = embed_in_chunks(embed, rows, 4)
    assert embed.rows() == 0  # while the loss is computed
    embed.most = 0
    embeddings.sum().backward()
    assert embed.most == 4
    assert torch.allclose(rows.grad, 2 * torch.exp(2 * rows.detach()))


@pytest.mark.parametrize("size", [1, 5, 8, 9])
@pytest.mark.parametrize(
    ("name", "freeze_bn"), [*((name, False) for name in GROUP_NORMED), ("resnet18", True)]
)
def test_a_network_in_chunks_gives_the_same_embeddings_and_gradients(name, freeze_bn, size):
    network = build_network(
        name,
        3,
        head=HeadConfig(4),
        pooling="gap",
        weights=None,
        freeze_bn=freeze_bn,
        bf16=False,
        seed=0,
    )
    images = torch.randint(0, 256, (8, 3, 32, 32), generator=torch.Generator().manual_seed(0))
    found = []
    for chunk in (0, size):
        network.chunk = chunk
        network.zero_grad()
        embeddings = network(images.byte())
        embeddings.square().sum().backward()
        grads = [param.grad.clone() for param in network.parameters() if param.requires_grad]
        found.append([embeddings.detach(), *grads])
    for whole, chunked in zip(*found, strict=True):
        assert (whole - chunked).abs().max() <= 1e-5 * whole.abs().max()


def test_scoring_has_no_chunks(monkeypatch):
    def refuse(*_: object) -> Tensor:
        raise AssertionError("in chunks")

    monkeypatch.setattr("trainables.networks.network.embed_in_chunks", refuse)
    spec = search()
    fit = Fit(spec, spec.splits[0], sketches())
    fit.network.chunk = 2
    fit.score(fit.select)
