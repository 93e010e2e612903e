"""Any model of timm as a trunk: its configuration, its feature map, its weight file."""

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

ANY_SIZE: tuple[dict[str, Any], ...] = ({"strict_img_size": False}, {"dynamic_img_size": True}, {})  # swin, vit, convolutions
DINOV2_SIDE = 224  # trained there, and only finished at 518; the position embedding is resampled


class TimmTrunk(nn.Module):
    """The model's feature map as (n, features, h, w), whether it comes as tokens, channels last or channels first."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.model.forward_features(images)  # type: ignore[operator]
        if found.ndim == 3:
            return _grid(found[:, getattr(self.model, "num_prefix_tokens", 0) :], images)
        return found.permute(0, 3, 1, 2) if getattr(self.model, "output_fmt", "NCHW") == "NHWC" else found

    def convert(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """A file in its authors' layout, under timm's names and at this model's sizes: timm's own conversion, where it has one."""
        translate = getattr(sys.modules[type(self.model).__module__], "checkpoint_filter_fn", None)
        converted: dict[str, Tensor] = translate(state, self.model) if translate else state
        return converted


def _grid(tokens: Tensor, images: Tensor) -> Tensor:
    """(n, tokens, features) -> (n, features, h, w) with the sides in the proportion of the image's."""
    height = round(math.sqrt(tokens.shape[1] * images.shape[2] / images.shape[3]))
    width = tokens.shape[1] // max(height, 1)
    if height * width != tokens.shape[1]:
        raise ValueError(f"{tokens.shape[1]} tokens are no grid, so this timm model has no feature map to pool; choose another one.")
    return tokens.transpose(1, 2).reshape(len(tokens), -1, height, width)


def config(name: str) -> Any:
    """timm's configuration of a model's weights, or a ValueError with near names."""
    import timm

    if name not in (known := {*timm.list_models(), *timm.list_models(pretrained=True)}):
        near = get_close_matches(name, known, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else "timm.list_models() lists them all."
        raise ValueError(f"timm has no model '{name}'; {hint}")
    return timm.get_pretrained_cfg(name)


def side(name: str, config: Any) -> int:
    """Of the square that the model is used at."""
    return DINOV2_SIDE if "dinov2" in name else int(config.input_size[-1])


def address(name: str, config: Any) -> tuple[str, Callable[[], str], str] | None:
    """File name, where to ask for it, checksum; None: there are no weights, or none that are plain tensors."""
    found: tuple[str, Callable[[], str], str]
    if config.hf_hub_id:
        file = config.hf_hub_filename or "model.safetensors"
        exact = name if "." in name or not config.tag else f"{name}.{config.tag}"  # the tag says which weights
        found = exact + Path(file).suffix, partial(_hub_url, config.hf_hub_id, file), "sha256:"  # the hub's names hold no digest
    elif isinstance(config.url, str) and config.url:
        digest = re.search(r"-([0-9a-f]{8,})\.", config.url)
        found = config.url.rsplit("/", 1)[-1], lambda: str(config.url), f"sha256:{digest[1] if digest else ''}"
    else:
        return None
    return None if found[0].endswith((".npz", ".npy")) else found


def _hub_url(repository: str, file: str) -> str:
    from huggingface_hub import hf_hub_url

    return str(hf_hub_url(repository, file))


def build(name: str, *, side: int) -> tuple[nn.Module, int]:
    """The trunk with random weights, and the number of features.

    What does not reach the feature map (a norm in front of the classifier, say) is frozen, or DDP would wait for its gradient.
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
    """Without a classifier, and ready for any input size where the architecture can."""
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
