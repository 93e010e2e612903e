"""A final trial's chosen weights as files that other programs read: safetensors with a config, and ONNX."""

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

from trainables.contract import TrialSpec
from trainables.datasets.catalogue import DATASETS
from trainables.embedder import CONFIG, ONNX, WEIGHTS, Embedder, config_of, networks_of, unit
from trainables.networks.network import EntryLayer, Network

OPSET = 18


def export(best: Path, spec: TrialSpec, folder: Path) -> Embedder:
    """best: the trial's best.pt. Writes model.safetensors, config.json and model.onnx; the same model, ready to embed."""
    states: list[dict[str, Tensor]] = torch.load(best, map_location="cpu", weights_only=True)
    source = DATASETS[spec.origin.dataset]
    config = config_of(spec, channels=source.channels, shrinks=source.pixels is None)
    tensors = {f"{i}/{name}": value.contiguous() for i, state in enumerate(states) for name, value in state.items()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / CONFIG).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    embedder = Embedder(config, networks_of(config, tensors))
    write_onnx(embedder.networks, folder / ONNX, channels=source.channels, side=spec.look.image_size)
    return embedder


def write_onnx(networks: Sequence[Network], path: Path, *, channels: int, side: int) -> None:
    """images: float, 0 to 255, (n, channels, side, side), cut as scoring cuts them -> unit vectors."""
    example = torch.rand(2, channels, side, side) * 255
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        torch.onnx.export(
            Exported(networks).eval(),
            (example,),
            path,
            input_names=["images"],
            output_names=["embeddings"],
            dynamic_shapes={"images": {0: torch.export.Dim("n")}},
            opset_version=OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )


class Exported(nn.Module):
    """The networks with an entry that any runtime can follow: no writing in place, always float32."""

    def __init__(self, networks: Sequence[Network]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, images: Tensor) -> Tensor:
        return unit([_Plain(network) for network in self.networks], images)  # type: ignore[misc, arg-type]


class _Plain:
    """One network, step by step."""

    def __init__(self, network: Network) -> None:
        self.network = network

    def __call__(self, images: Tensor) -> Any:
        network = self.network
        return network.head(network.pool(network.trunk(_entered(network.entry, images))))


def _entered(entry: EntryLayer, images: Tensor) -> Tensor:
    """What EntryLayer.forward does, as one product and one sum."""
    images = images.flip(1) if entry.bgr else images
    images = images.expand(-1, entry.channels, -1, -1) if images.shape[1] < entry.channels else images
    return images * entry.scale + entry.shift
