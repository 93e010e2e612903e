"""List the trunks by name: what each is, what it takes and how to build it."""

# Only the builders import torch, so that a wrong name is noticed at once.

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from search_spaces.space import pick
from trainables.contract import NO_TRUNK

if TYPE_CHECKING:
    from torch import nn

TIMM = "timm:"  # prefix of the names of that library's models

POOLINGS: dict[str, str] = {
    "gap": "the average over the feature map",
    "gmp": "the maximum over the feature map",
    "gap+gmp": "the sum of both",
    "gap-gmp": "both, side by side: twice the numbers",
    "grid": "the averages of a 3 x 3 grid, side by side: where something is still counts",
}


@dataclass(frozen=True)
class InputNorm:
    """Say how uint8 pixels become the trunk's input: (x / divisor - mean) / std, per channel.

    Three means make three channels of a grey image; one mean takes the channels as they come.
    """

    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    divisor: float = 255.0
    bgr: bool = False  # the trunk takes blue first; images come red first


@dataclass(frozen=True)
class WeightFile:
    """Say where pretrained weights come from."""

    name: str  # of the file
    # Looked up late, because some need an import; None: the file ships in trainables/data.
    url: Callable[[], str] | None
    checksum: str  # 'sha256:' and as much of the digest as is known
    channels: int | None = None  # of the images that it takes; None: grey ones and coloured ones


@dataclass(frozen=True)
class Backbone:
    """Say what a backbone is and how to build it."""

    about: str
    # (channels) -> the trunk, which returns a map (n, features, h, w), and the number of features
    build: Callable[[int], tuple[nn.Module, int]]
    input_size: int  # side of the square that it was made for; others work too
    input_norm: InputNorm
    weights: WeightFile | None = None  # what 'pretrained' means; None: there are none
    head: bool = True  # False: the flattened map is the embedding
    batch_norm: bool = True  # has any, or may have


def tiny(channels: int) -> tuple[nn.Module, int]:
    """Build 16-32-64 channels at half resolution.

    Group norm gives the same statistics for any number of workers.
    """
    from torch import nn

    layers: list[nn.Module] = [nn.AvgPool2d(2)]
    width = channels
    for after in (16, 32, 64):
        layers += [
            nn.Conv2d(width, after, 3, padding=1, bias=False),
            nn.GroupNorm(4, after),
            nn.ReLU(inplace=True),
        ]
        layers += [nn.MaxPool2d(2)] if after < 64 else []
        width = after
    return nn.Sequential(*layers), width


def small(channels: int) -> tuple[nn.Module, int]:
    """Build three blocks of two convolutions, 32-64-128 channels, for drawings of 28 x 28.

    With one channel it has 286,880 weights. Group norm, as in tiny.
    """
    from torch import nn

    layers: list[nn.Module] = []
    width = channels
    for after in (32, 64, 128):
        layers += [nn.MaxPool2d(2)] if layers else []
        for before in (width, after):
            layers += [
                nn.Conv2d(before, after, 3, padding=1, bias=False),
                nn.GroupNorm(8, after),
                nn.ReLU(inplace=True),
            ]
        width = after
    return nn.Sequential(*layers), width


def pixels(channels: int) -> tuple[nn.Module, int]:
    """Return the image itself; nothing is learned."""
    from torch import nn

    return nn.Identity(), channels


def bn_inception(channels: int) -> tuple[nn.Module, int]:
    """Build the trunk of the field's older tables."""
    from trainables.networks.bn_inception import FEATURES, BNInception

    return BNInception(), FEATURES


def resnet(depth: int, features: int, channels: int) -> tuple[nn.Module, int]:
    """Build torchvision's ResNet up to its last feature map, with its files' parameter names."""
    from torchvision.models import get_model  # type: ignore[import-untyped]

    return _up_to_the_map(get_model(f"resnet{depth}", weights=None)), features


def googlenet(channels: int) -> tuple[nn.Module, int]:
    """Build torchvision's variant with batch norm.

    Its own change of normalisation is off, because our InputNorm does it already.
    """
    from torchvision.models import get_model

    model = get_model(
        "googlenet", weights=None, aux_logits=False, transform_input=False, init_weights=True
    )
    return _up_to_the_map(model), 1024


def _up_to_the_map(model: nn.Module) -> nn.Module:
    """Return the model's children in order, without pooling, dropout and classifier."""
    from torch import nn

    kept = [
        (name, child)
        for name, child in model.named_children()
        if name not in ("avgpool", "dropout", "fc")
    ]
    return nn.Sequential(OrderedDict(kept))


def _torchvision_url(name: str) -> str:
    from torchvision.models import get_model_weights

    # The first version: what the papers started from.
    url: str = get_model_weights(name)["IMAGENET1K_V1"].url
    return url


def _torchvision_file(name: str, digest: str) -> WeightFile:
    return WeightFile(f"{name}-{digest}.pth", partial(_torchvision_url, name), f"sha256:{digest}")


def _resnet(depth: int, features: int, digest: str) -> Backbone:
    return Backbone(
        f"ResNet-{depth}: {features} features",
        partial(resnet, depth, features),
        224,
        InputNorm(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        _torchvision_file(f"resnet{depth}", digest),
    )


BACKBONES: dict[str, Backbone] = {
    "tiny": Backbone(
        "three convolutions with group norm, for small images and laptops",
        tiny,
        64,
        InputNorm(),
        batch_norm=False,
    ),
    "small": Backbone(
        "six convolutions with group norm, for drawings; ships pretrained",
        small,
        28,
        InputNorm(),
        # benchmarks/pretrain_sketches.py made it; trainables/data/README.md says from what.
        WeightFile("small-c95570eb.safetensors", None, "sha256:c95570eb", channels=1),
        batch_norm=False,
    ),
    "bn_inception": Backbone(
        "Inception with batch norm, Ioffe & Szegedy 2015: 1024 features",
        bn_inception,
        224,
        InputNorm(mean=(104.0, 117.0, 128.0), divisor=1.0, bgr=True),
        WeightFile(
            "bn_inception-52deb4733.pth",
            lambda: "http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth",
            "sha256:52deb4733",
        ),
    ),
    "googlenet": Backbone(
        "GoogLeNet in torchvision's variant with batch norm, not the network of the older papers: "
        "1024 features",
        googlenet,
        224,
        # torchvision turns the usual normalisation into this one inside the model.
        InputNorm(mean=(0.5,) * 3, std=(0.5,) * 3),
        _torchvision_file("googlenet", "1378be20"),
    ),
    "resnet18": _resnet(18, 512, "f37072fd"),
    "resnet34": _resnet(34, 512, "b627a593"),
    "resnet50": _resnet(50, 2048, "0676ba61"),
    "pixels": Backbone(
        "raw pixels, a baseline that cannot be trained", pixels, 32, InputNorm(), head=False
    ),
}


# The backbone of vectors that the user brings; apart from those that see images.
ABSENT = Backbone(
    "no network: the vectors of dataset=features", pixels, 1, InputNorm(), batch_norm=False
)


def find_backbone(name: str) -> Backbone:
    """Return one of BACKBONES, any model of timm as 'timm:NAME', or ABSENT.

    Raise ValueError if there is none of that name, or if timm is not installed.
    """
    if name.startswith(TIMM):
        return _timm(name.removeprefix(TIMM))
    if name == NO_TRUNK:
        return ABSENT
    return pick(BACKBONES, name, f"backbone (or {TIMM}NAME)")


@cache
def _timm(name: str) -> Backbone:
    """Return the backbone that timm's configuration of these weights describes."""
    if find_spec("timm") is None:
        raise ValueError(
            f"{TIMM}{name} needs the package timm, which is not installed; install fairtrial[timm]."
        )
    from trainables.networks import timm_trunk

    config = timm_trunk.config(name)
    address = timm_trunk.address(name, config)
    return Backbone(
        about=f"{name} of timm",
        build=lambda channels: timm_trunk.build_trunk(name, side=timm_trunk.side(name, config)),
        input_size=timm_trunk.side(name, config),
        input_norm=InputNorm(mean=tuple(config.mean), std=tuple(config.std)),
        weights=WeightFile(*address) if address else None,
    )
