"""Cache what a frozen trunk makes of every image: once per machine, for all trials there."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from trainables.contract import DatasetRef, ImageTransform, ModelConfig, TrialSpec
from trainables.datasets.indexing import index
from trainables.fetch import ProgressCallback, home
from trainables.networks.backbones import TIMM
from trainables.networks.weights import fetch_weights, weights_digest, weights_path

# The driver imports this module and would wait seconds for torch, which only extraction needs.
if TYPE_CHECKING:
    from trainables.networks.network import Network

FORMAT = 2  # of the files and their parts; part of every digest
PART = 128  # images whose features are computed, kept and lost together: seconds of one core
BATCH_PIXELS = 2**21  # per channel, of one forward pass
VIEWS = 20_261  # the first number of the key that draws a view's crops
ROWS, IDS, ABOUT = "features.npy", "ids.npy", "about.json"

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class FeaturePass:
    """Say which features a file holds: of which images, cropped how, through which trunk.

    view: None for the centre crop of all images, else which random crop of every train image.
    """

    dataset_ref: DatasetRef
    backbone: str
    weights: str
    pooling: str
    precision: str
    transform: ImageTransform
    view: int | None = None
    tf32: bool = False

    @cached_property
    def ids(self) -> Ints:
        """Return the images: those of the classes that the study uses."""
        found = index(self.dataset_ref)
        return found.ids(found.train if self.view is not None else found.train + found.test)

    @cached_property
    def about(self) -> dict[str, object]:
        """Return all that the features depend on."""
        found = index(self.dataset_ref)
        return {
            "format": FORMAT,
            "dataset": self.dataset_ref.dataset,
            "images": found.fingerprint,
            "train_classes": len(found.train),
            "test_classes": len(found.test),
            "backbone": self.backbone,
            "timm": version("timm") if self.backbone.startswith(TIMM) else "",
            "weights": weights_digest(self.backbone, self.weights),
            "pooling": self.pooling,
            "precision": self.precision,
            "view": self.view,
            "transform": _described(self.transform),
        } | ({"tf32": True} if self.tf32 else {})

    @cached_property
    def folder(self) -> Path:
        """Return the folder of the finished file, named by a digest of all it depends on."""
        digest = hashlib.sha256(json.dumps(self.about, sort_keys=True).encode()).hexdigest()
        backbone = self.backbone.replace(":", "-").replace("/", "-")
        return home() / "features" / f"{self.dataset_ref.dataset}-{backbone}-{digest[:16]}"

    @property
    def parts(self) -> range:
        """Return the numbers of the parts."""
        return range(-(-len(self.ids) // PART))

    def missing(self) -> list[int]:
        """Return the parts that are still to compute."""
        return [number for number in self.parts if not self._part(number).exists()]

    @property
    def is_cached(self) -> bool:
        """Return whether this machine has the features."""
        return self.folder.exists()

    def _beside(self, suffix: str) -> Path:
        return self.folder.with_name(self.folder.name + suffix)

    def _part(self, number: int) -> Path:
        return self._beside(".parts") / f"{number:06}.npy"

    def lock(self) -> FileLock:
        """Return the lock of whoever computes these features on this machine."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        return FileLock(self._beside(".lock"))

    def keep(self, number: int, features: Floats) -> None:
        """Keep a computed part, so that an extraction that is killed continues after it."""
        path = self._part(number)
        path.parent.mkdir(exist_ok=True)
        written = path.with_suffix(".written")
        with written.open("wb") as file:
            np.save(file, features)
        written.replace(path)

    def finish(self) -> None:
        """Join all parts into one file, and remove them."""
        parts = [np.load(self._part(number), allow_pickle=False) for number in self.parts]
        self.write(np.concatenate(parts))
        shutil.rmtree(self._beside(".parts"), ignore_errors=True)

    def write(self, features: Floats) -> None:
        """Write the file of all features; it takes its name only when it is whole and on disk."""
        unfinished = self._beside(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)  # of a process that was killed
        unfinished.mkdir()
        try:
            with (unfinished / ROWS).open("wb") as file:
                np.save(file, features)
                file.flush()
                os.fsync(file.fileno())
            np.save(unfinished / IDS, self.ids)
            (unfinished / ABOUT).write_text(json.dumps(self.about, indent=1) + "\n")
            unfinished.rename(self.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def open(self) -> tuple[Floats, Ints]:
        """Return the features, mapped read-only, and the image of every row."""
        mapped = np.load(self.folder / ROWS, mmap_mode="r", allow_pickle=False)
        return np.asarray(mapped), np.load(self.folder / IDS, allow_pickle=False)


def _described(transform: ImageTransform) -> dict[str, object]:
    """Return the transform without what older caches do not name, where it is as it was then."""
    return {k: v for k, v in asdict(transform).items() if (k, v) != ("resize", "shorter")}


def passes_of(
    dataset_ref: DatasetRef,
    backbone: str,
    model: ModelConfig,
    transform: ImageTransform,
    *,
    views: int,
) -> list[FeaturePass]:
    """Return the passes over the images that such trials read: the centre crop, then the views."""
    centred = replace(
        transform, crop="shifted", crop_scale=(1, 1), crop_ratio=(1, 1), max_shift=0, flip=False
    )
    centre = FeaturePass(
        dataset_ref,
        backbone,
        model.weights,
        model.pooling,
        model.precision,
        centred,
        tf32=model.tf32,
    )
    return [centre, *(replace(centre, transform=transform, view=view) for view in range(views))]


def passes_of_trial(spec: TrialSpec) -> list[FeaturePass]:
    """Return the passes that a trial reads."""
    return passes_of(
        spec.dataset_ref,
        spec.cell.backbone,
        spec.model,
        spec.transform,
        views=spec.training.views,
    )


def extract(wanted: FeaturePass, progress: ProgressCallback | None = None) -> None:
    """Compute the features in this process on all cores, unless this machine has them."""
    if wanted.is_cached:
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    try:
        with wanted.lock():
            if wanted.is_cached:  # while this one waited, another process did it
                return
            for number in wanted.missing():
                wanted.keep(number, compute_part(wanted, number))
                if progress:
                    progress(min((number + 1) * PART, len(wanted.ids)), len(wanted.ids))
            wanted.finish()
    finally:
        torch.set_num_threads(threads)


def compute_part(wanted: FeaturePass, number: int) -> Floats:
    """Return the features of one part of the images: (n, features)."""
    import torch

    from trainables.datasets.pixels import load
    from trainables.distributed.process import own_device, set_tf32
    from trainables.inputs.images import Images
    from trainables.inputs.loader import Pending, on_device

    set_tf32(wanted.tf32)
    fetch_weights(wanted.backbone, wanted.weights)  # this may not be the driver's node
    transform, device = wanted.transform, own_device()
    data = load(wanted.dataset_ref, transform.cache_size, transform.resize)
    network = _trunk(wanted, data.index.channels).to(device)
    ids = wanted.ids[number * PART : (number + 1) * PART]
    images = Images(data, ids, wanted.transform)
    numbers = None if wanted.view is None else images.draws((VIEWS, wanted.view))

    def crops(rows: Ints) -> Pending:
        return images.plain(rows) if numbers is None else images.augmented(rows, numbers)

    size = max(1, BATCH_PIXELS // wanted.transform.image_size**2)

    batches = [np.arange(at, min(at + size, len(images))) for at in range(0, len(images), size)]
    with torch.inference_mode(), closing(on_device(map(crops, batches), device)) as seen:
        found = [network.pooled(batch).cpu() for batch in seen]
        return torch.cat(found).float().numpy()


@lru_cache(maxsize=2)
def _trunk(wanted: FeaturePass, channels: int) -> Network:
    """Return the trunk with its pooling, kept in memory between parts."""
    from trainables.networks.network import HeadConfig, build_network

    network = build_network(
        wanted.backbone,
        channels,
        head=HeadConfig(size=0),
        pooling=wanted.pooling,
        weights=weights_path(wanted.backbone, wanted.weights),
        freeze_bn=True,
        bf16=wanted.precision == "bfloat16",
        seed=0,
    )
    return network.eval()
