"""A trained network for other programs: images in, unit vectors out, with the crops that it was scored with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainables.contract import Look, TrialSpec

# An import of this package must not take the seconds that torch takes.
if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image
    from torch import Tensor

    from trainables.networks.network import Network

    Picture = str | Path | Image | NDArray[np.uint8]

WEIGHTS, CONFIG, ONNX = EXPORTED = ("model.safetensors", "config.json", "model.onnx")
BATCH = 64


class Embedder:
    """embed(images) gives one unit vector per image; cosines are products of them. Several models (folds) are joined as one."""

    def __init__(self, config: dict[str, Any], networks: Sequence[Network]) -> None:
        self.config, self.networks = config, list(networks)
        look: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in config["look"].items()}
        self.look = Look(**look)

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        return int(self.config["embedding_size"]) * len(self.networks)

    def __call__(self, images: Sequence[Picture]) -> NDArray[np.float32]:
        """images: files, Pillow images or arrays (height, width[, channels]) of 0 to 255. A row per image."""
        import numpy as np
        import torch

        batches = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
        with torch.inference_mode():
            rows = [unit(self.networks, self.crops(batch)).numpy() for batch in batches]
        return np.concatenate([np.zeros((0, self.size), dtype=np.float32), *rows])

    def crops(self, images: Sequence[Picture]) -> Tensor:
        """What the network sees: uint8, (n, channels, side, side)."""
        import numpy as np

        from trainables.crops import centre, cut

        pixels = [self._pixels(image) for image in images]
        boxes = centre(np.array([each.shape for each in pixels]), self.look)
        return cut(pixels, boxes, self.look.image_size)

    def _pixels(self, image: Picture) -> NDArray[np.uint8]:
        """Upright and of the size at which the dataset's images were decoded."""
        import numpy as np
        from PIL import Image

        from trainables.datasets.decode import BrokenImageError, decode, shrink

        if isinstance(image, str | Path):
            path = Path(image).expanduser().absolute()
            try:
                image = decode(path.parent, path.name)
            except BrokenImageError as error:
                raise ValueError(f"{path} must be an image, but cannot be decoded ({error.reason}).") from None
        elif not isinstance(image, Image.Image):
            image = Image.fromarray(np.ascontiguousarray(image.squeeze(-1) if image.ndim == 3 and image.shape[-1] == 1 else image))
        image = image.convert("L" if self.config["channels"] == 1 else "RGB")
        image = shrink(image, self.look.cache_size) if self.config["shrinks"] else image
        return np.atleast_3d(np.asarray(image, dtype=np.uint8))


def unit(networks: Sequence[Network], images: Tensor) -> Tensor:
    """As scoring joins models: normalise, concatenate, normalise."""
    import torch
    from torch.nn import functional as F

    return F.normalize(torch.cat([F.normalize(network(images).float()) for network in networks], dim=1))


def load_embedder(folder: str | Path) -> Embedder:
    """What `fairtrial export` wrote. ValueError: the folder holds no exported model."""
    from safetensors.torch import load_file

    folder = Path(folder).expanduser()
    missing = [name for name in (WEIGHTS, CONFIG) if not (folder / name).is_file()]
    if missing:
        raise ValueError(f"{folder} must hold an exported model, but has no {missing[0]}; `fairtrial export STUDY CELL` writes one.")
    config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    return Embedder(config, networks_of(config, load_file(folder / WEIGHTS)))


def config_of(spec: TrialSpec, *, channels: int, shrinks: bool) -> dict[str, Any]:
    """All that load_embedder needs to know, and where the model comes from. shrinks: the dataset's images were decoded at a size."""
    built = {"backbone": spec.cell.backbone, "embedding_size": spec.cell.embedding_size, "channels": channels, "models": len(spec.splits)}
    built |= {"pooling": spec.design.pooling, "freeze_bn": spec.design.freeze_bn, "precision": spec.design.precision}
    origin = {"loss": spec.cell.loss, "protocol": spec.cell.protocol, "dataset": spec.cell.dataset, "seed": spec.seed, "rule": spec.rule}
    return {**built, "shrinks": shrinks, "look": asdict(spec.look), **origin, "setting": dict(spec.setting)}


def networks_of(config: dict[str, Any], tensors: dict[str, Tensor]) -> list[Network]:
    from trainables.networks.network import build

    networks = []
    for i in range(config["models"]):
        network = build(
            config["backbone"],
            config["channels"],
            size=config["embedding_size"],
            pooling=config["pooling"],
            weights=None,
            freeze_bn=config["freeze_bn"],
            bf16=config["precision"] == "bfloat16",
            seed=0,
        )
        network.load_state_dict({name.partition("/")[2]: value for name, value in tensors.items() if name.partition("/")[0] == str(i)})
        networks.append(network.eval())
    return networks
