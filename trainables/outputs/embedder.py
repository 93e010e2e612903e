"""Use a trained network in other programs: images or features in, unit vectors out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.contract import NO_TRUNK, PCA, POOLED, ImageTransform, TrialSpec

# An import of this package must not take the seconds that torch takes.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from torch import Tensor

    from trainables.networks.network import HeadNetwork, Network

    AnyNetwork = Network | HeadNetwork
    Picture = str | Path | Image | NDArray[np.uint8]

WEIGHTS, CONFIG, ONNX = "model.safetensors", "config.json", "model.onnx"
BATCH = 64  # images per forward pass


class Embedder:
    """Embed images: one unit vector per image, whose dot products are cosines.

    They are cropped as in scoring. A model that was trained on vectors (dataset=features) takes
    such vectors in place of images. Several models (folds) are joined as one.
    """

    def __init__(self, config: dict[str, Any], networks: Sequence[AnyNetwork]) -> None:
        self.config, self.networks = config, list(networks)
        # Models exported by versions up to 0.5 say "look".
        seen: dict[str, Any] = config.get("transform") or config["look"]
        values: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in seen.items()
        }
        self.transform = ImageTransform(**values)

    @property
    def size(self) -> int:
        """Return the length of a vector."""
        return sum(network.size for network in self.networks)

    @property
    def features(self) -> int:
        """Return the length of the vectors that this model takes; 0 if it takes images."""
        return int(self.config.get("features", 0))  # versions up to 0.5 know images only

    def __call__(self, images: Sequence[Picture] | NDArray[np.float32]) -> NDArray[np.float32]:
        """Return a row per image.

        images: files, Pillow images or arrays (height, width[, channels]) of 0 to 255; for a model
        that takes vectors, an array (n, features).
        """
        import numpy as np
        import torch

        read: Callable[[Any], Tensor] = self._vectors if self.features else self.crops
        batches = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
        with torch.inference_mode():
            rows = [unit_embeddings(self.networks, read(batch)).numpy() for batch in batches]
        return np.concatenate(rows) if rows else np.zeros((0, self.size), dtype=np.float32)

    def crops(self, images: Sequence[Picture]) -> Tensor:
        """Return what the network sees: uint8, (n, channels, side, side)."""
        import numpy as np

        from trainables.inputs.crops import centre, crops

        pixels = [self._pixels(image) for image in images]
        boxes = centre(np.array([each.shape for each in pixels]), self.transform)
        return crops(pixels, boxes, self.transform.image_size).now()

    def _vectors(self, rows: Sequence[Any]) -> Tensor:
        import numpy as np
        import torch

        vectors = np.asarray(rows, dtype=np.float32)
        if vectors.ndim != 2 or vectors.shape[1] != self.features:
            raise ValueError(
                f"This model takes vectors of {self.features} numbers, but got an array of shape "
                f"{vectors.shape}; compute them as those that it was trained on."
            )
        return torch.from_numpy(vectors)

    def _pixels(self, image: Picture) -> NDArray[np.uint8]:
        """Return the image upright, at the size at which the dataset's images were decoded."""
        import numpy as np
        from PIL import Image

        from trainables.datasets.decode import BrokenImageError, decode, resized

        if isinstance(image, str | Path):
            path = Path(image).expanduser().absolute()
            try:
                image = decode(path.parent, path.name)
            except BrokenImageError as error:
                raise ValueError(
                    f"{path} must be an image, but cannot be decoded ({error.reason})."
                ) from None
        elif not isinstance(image, Image.Image):
            grey = image.ndim == 3 and image.shape[-1] == 1
            image = Image.fromarray(np.ascontiguousarray(image.squeeze(-1) if grey else image))
        image = image.convert("L" if self.config["channels"] == 1 else "RGB")
        if self.config["shrinks"]:
            image = resized(image, self.transform.cache_size, self.transform.resize)
        return np.atleast_3d(np.asarray(image, dtype=np.uint8))


def unit_embeddings(networks: Sequence[AnyNetwork], images: Tensor) -> Tensor:
    """Join models as scoring does: normalise, concatenate, normalise."""
    import torch
    from torch.nn import functional as F

    return F.normalize(
        torch.cat([F.normalize(network(images).float()) for network in networks], dim=1)
    )


def load_embedder(folder: str | Path) -> Embedder:
    """Load what `fairtrial export` wrote. Raise ValueError if the folder holds no model."""
    from safetensors.torch import load_file

    folder = Path(folder).expanduser()
    missing = [name for name in (WEIGHTS, CONFIG) if not (folder / name).is_file()]
    if missing:
        raise ValueError(
            f"{folder} must hold an exported model, but has no {missing[0]}; `fairtrial export "
            f"STUDY CELL` writes one."
        )
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return Embedder(config, load_networks(config, load_file(folder / WEIGHTS)))


def export_config(
    spec: TrialSpec, *, channels: int, shrinks: bool, features: int
) -> dict[str, Any]:
    """Return all that load_embedder needs, and where the model comes from.

    shrinks: whether decoding resized the dataset's images. features: of the user's own vectors; 0
    for images.
    """
    return {
        "backbone": spec.cell.backbone,
        "embedding_size": 0 if spec.cell.loss == POOLED else spec.cell.embedding_size,
        "channels": channels,
        "features": features,
        "models": len(spec.splits),
        "pooling": spec.model.pooling,
        "freeze_bn": spec.model.freeze_bn,
        "precision": spec.model.precision,
        "head": "linear" if spec.cell.loss == PCA else spec.model.head,
        "head_width": spec.model.head_width,
        "shrinks": shrinks,
        "transform": asdict(spec.transform),
        "loss": spec.cell.loss,
        "protocol": spec.cell.protocol,
        "dataset": spec.cell.dataset,
        "seed": spec.seed,
        "rule": spec.rule,
        "setting": dict(spec.setting),
    }


def load_networks(config: dict[str, Any], tensors: dict[str, Tensor]) -> list[AnyNetwork]:
    """Build the networks of an exported config, and load the tensors named `model/parameter`."""
    networks = []
    for i in range(config["models"]):
        network = _build(config)
        prefix = f"{i}/"
        network.load_state_dict(
            {
                name.removeprefix(prefix): value
                for name, value in tensors.items()
                if name.startswith(prefix)
            }
        )
        networks.append(network.eval())
    return networks


def _build(config: dict[str, Any]) -> AnyNetwork:
    from trainables.networks.network import HeadConfig, build_head_network, build_network

    # Models exported by versions up to 0.5 have linear heads and do not say so.
    kind, width = config.get("head", "linear"), config.get("head_width", 0)
    head = HeadConfig(config["embedding_size"], kind, width)
    if config["backbone"] == NO_TRUNK:
        return build_head_network(config["features"], head, seed=0)
    return build_network(
        config["backbone"],
        config["channels"],
        head=head,
        pooling=config["pooling"],
        weights=None,
        freeze_bn=config["freeze_bn"],
        bf16=config["precision"] == "bfloat16",
        seed=0,
    )
