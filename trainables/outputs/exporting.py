"""Export a final trial's chosen weights for other programs: safetensors with a config, and ONNX."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from trainables.contract import NO_TRUNK, TrialSpec
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.vectors import load_vectors
from trainables.networks.network import (
    HeadConfig,
    HeadNetwork,
    InputLayer,
    Network,
    build_network,
)
from trainables.networks.weights import weights_path
from trainables.outputs.embedder import (
    CONFIG,
    ONNX,
    WEIGHTS,
    Embedder,
    export_config,
    load_networks,
    unit_embeddings,
)

OPSET = 18
TRACEABLE = ("tiny", "small", "resnet18", "resnet34", "resnet50", NO_TRUNK)


def export_model(best: Path, spec: TrialSpec, folder: Path) -> Embedder:
    """Write model.safetensors, config.json and model.onnx, and return the same model.

    best: the trial's best.pt.
    """
    states: list[dict[str, Tensor]] = torch.load(best, map_location="cpu", weights_only=True)
    own = spec.cell.backbone == NO_TRUNK  # vectors that the user brought
    if spec.reads_features and not own:  # the trial left its head only
        trunk = _frozen_trunk(spec)
        states = [trunk | state for state in states]
    info = DATASETS[spec.dataset_ref.dataset]
    features = _width(spec, states[0]) if own else 0
    config = export_config(
        spec, channels=info.channels, shrinks=info.pixels is None, features=features
    )
    tensors = {
        f"{i}/{name}": value.contiguous()
        for i, state in enumerate(states)
        for name, value in state.items()
    }
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    embedder = Embedder(config, load_networks(config, tensors))
    side = spec.transform.image_size
    example = torch.rand(2, features) if own else torch.rand(2, info.channels, side, side) * 255
    write_onnx(embedder.networks, folder / ONNX, example, traced=_can_be_traced(spec))
    return embedder


def _can_be_traced(spec: TrialSpec) -> bool:
    """Return whether torch's older exporter gives the same model: 0.1 s in place of 3 to 15 s.

    It refuses grids and BN-Inception, and fixes the number of images of transformers.
    """
    backbone = spec.cell.backbone
    return backbone in TRACEABLE and spec.model.pooling != "grid"


def _width(spec: TrialSpec, state: dict[str, Tensor]) -> int:
    """Return the length of the user's vectors: the head's input; without a head, their file's."""
    inputs = [value.shape[1] for name, value in state.items() if name.endswith("weight")]
    return inputs[0] if inputs else load_vectors(spec.dataset_ref).shape[1]


def _frozen_trunk(spec: TrialSpec) -> dict[str, Tensor]:
    """Return the parameters and statistics of the trunk under a head that was trained alone."""
    model, backbone = spec.model, spec.cell.backbone
    network = build_network(
        backbone,
        DATASETS[spec.dataset_ref.dataset].channels,
        head=HeadConfig(size=0),
        pooling=model.pooling,
        weights=weights_path(backbone, model.weights),
        freeze_bn=True,
        bf16=False,
        seed=0,
    )
    return network.state_dict()


def write_onnx(
    networks: Sequence[Network | HeadNetwork], path: Path, example: Tensor, *, traced: bool
) -> None:
    """Write an ONNX model from `images` or `features` to unit vectors.

    Images are floats of 0 to 255, (n, channels, side, side), cropped as in scoring; features are
    the user's own vectors, (n, length). example: two of them. traced: by torch's older exporter.
    """
    name = "images" if example.ndim == 4 else "features"
    shapes: dict[str, Any] = (
        {"dynamic_axes": {name: {0: "n"}, "embeddings": {0: "n"}}}
        if traced
        else {"dynamic_shapes": ({0: torch.export.Dim("n")},)}
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        torch.onnx.export(
            Exported(networks).eval(),
            (example,),
            path,
            input_names=[name],
            output_names=["embeddings"],
            opset_version=OPSET,
            dynamo=not traced,
            external_data=False,
            verbose=False,
            **shapes,
        )


class Exported(nn.Module):
    """Wrap the networks in operations that any runtime knows: nothing in place, always float32."""

    def __init__(self, networks: Sequence[Network | HeadNetwork]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        return unit_embeddings([_Plain(network) for network in self.networks], images)  # type: ignore[misc, arg-type]


class _Plain:
    """Wrap one network in float32, with the input layer of _normalized()."""

    def __init__(self, network: Network | HeadNetwork) -> None:
        self.network = network

    def __call__(self, images: Tensor) -> Any:
        network = self.network
        if isinstance(network, HeadNetwork):
            return network(images)
        return network.head(network.pool(network.trunk(_normalized(network.input_layer, images))))


def _normalized(layer: InputLayer, images: Tensor) -> Tensor:
    """Do what InputLayer.forward does, as one product and one sum."""
    images = images.flip(1) if layer.bgr else images
    images = (
        images.expand(-1, layer.channels, -1, -1) if images.shape[1] < layer.channels else images
    )
    return images * layer.scale + layer.shift
