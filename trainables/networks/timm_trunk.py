"""Use any timm model as a trunk: its configuration, its feature map, its weight file."""

import math
import re
import sys
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

# Options that let a model take any image size: of swin, of vit, of convolutions.
ANY_SIZE: tuple[dict[str, Any], ...] = (
    {"strict_img_size": False},
    {"dynamic_img_size": True},
    {},
)
# DINOv2 was trained at this side, and only finished at 518; the position embedding is resampled.
DINOV2_SIDE = 224


class TimmTrunk(nn.Module):
    """Return the model's feature map as (n, features, h, w), from any layout."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.model.forward_features(images)  # type: ignore[operator]
        if found.ndim == 3:
            return _grid(found[:, getattr(self.model, "num_prefix_tokens", 0) :], images)
        channels_last = getattr(self.model, "output_fmt", "NCHW") == "NHWC"
        return found.permute(0, 3, 1, 2) if channels_last else found

    def convert(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """Convert a file of the authors' to timm's names and this model's sizes, if timm can."""
        translate = getattr(sys.modules[type(self.model).__module__], "checkpoint_filter_fn", None)
        converted: dict[str, Tensor] = translate(state, self.model) if translate else state
        return converted


def _grid(tokens: Tensor, images: Tensor) -> Tensor:
    """Turn (n, tokens, features) into (n, features, h, w) with the aspect ratio of the images."""
    height = round(math.sqrt(tokens.shape[1] * images.shape[2] / images.shape[3]))
    width = tokens.shape[1] // max(height, 1)
    if height * width != tokens.shape[1]:
        raise ValueError(
            f"{tokens.shape[1]} tokens are not a grid, so this timm model has no feature map to "
            f"pool; choose another one."
        )
    return tokens.transpose(1, 2).reshape(len(tokens), -1, height, width)


def config(name: str) -> Any:
    """Return timm's configuration of a model's weights, or raise ValueError with near names."""
    import timm

    if name not in (known := {*timm.list_models(), *timm.list_models(pretrained=True)}):
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = (
            f"did you mean {' or '.join(near)}?" if near else "timm.list_models() lists them all."
        )
        raise ValueError(f"timm has no model '{name}'; {hint}")
    return timm.get_pretrained_cfg(name)


def side(name: str, config: Any) -> int:
    """Return the side of the square that the model takes."""
    return DINOV2_SIDE if "dinov2" in name else int(config.input_size[-1])


def address(name: str, config: Any) -> tuple[str, Callable[[], str], str] | None:
    """Return the name, the URL and the checksum of the weight file.

    Return None if there are no weights, or none that are plain tensors.
    """
    found: tuple[str, Callable[[], str], str]
    if config.hf_hub_id:
        file = config.hf_hub_filename or "model.safetensors"
        # The tag says which weights.
        exact = name if "." in name or not config.tag else f"{name}.{config.tag}"
        url = partial(_hub_url, config.hf_hub_id, file)
        found = (exact + Path(file).suffix, url, "sha256:")  # the hub's names hold no digest
    elif isinstance(config.url, str) and config.url:
        digest = re.search(r"-([0-9a-f]{8,})\.", config.url)
        found = (
            config.url.rsplit("/", 1)[-1],
            lambda: str(config.url),
            f"sha256:{digest[1] if digest else ''}",
        )
    else:
        return None
    return None if found[0].endswith((".npz", ".npy")) else found


def _hub_url(repository: str, file: str) -> str:
    from huggingface_hub import hf_hub_url

    return str(hf_hub_url(repository, file))


def build_trunk(name: str, *, side: int) -> tuple[nn.Module, int]:
    """Return the trunk with random weights, and its number of features.

    Parameters that do not reach the feature map, such as a norm in front of the classifier, are
    frozen, or DDP would wait for their gradients.
    """
    trunk = TimmTrunk(_create(name)).eval()
    parameters = [parameter for parameter in trunk.parameters() if parameter.requires_grad]
    with torch.enable_grad():
        features = trunk(torch.zeros(1, 3, side, side))
        gradients = torch.autograd.grad(features.sum(), parameters, allow_unused=True)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            parameter.requires_grad_(False)
    return trunk.train(), features.shape[1]


def _create(name: str) -> nn.Module:
    """Create the model without a classifier, for any input size if the architecture allows it."""
    import timm

    for options in ANY_SIZE:
        try:
            model: nn.Module = timm.create_model(name, num_classes=0, **options)
        except TypeError as error:  # it has no such option
            if not options:
                raise ValueError(f"timm could not build {name}: {error}.") from error
        else:
            return model
    raise AssertionError("the last options are none")
