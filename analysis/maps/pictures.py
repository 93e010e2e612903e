"""From a study's kept embeddings to drawings: maps, similarities and a gallery of the loss that a page is about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.figures.gallery import Found, Line, gallery
from analysis.figures.planes import joint_map, yoked_map
from analysis.figures.similarity import same_vs_different
from analysis.figures.style import Drawing
from analysis.maps.kept import FC, GAP, Kept, read_kept, whole_classes
from analysis.maps.nearest import nearest, neighbours
from analysis.maps.plane import Plane, joint_tsne, umap
from analysis.tracking import StudyRows
from trainables.contract import EMBEDDINGS

SPEC = "trial.yaml"
LAYERS = {"fc": FC, "gap": GAP}  # the embedding layer, and the features that it is made from
JOINT_POINTS, YOKED_POINTS = 3000, 1500  # on a page: seconds, not minutes
QUERIES, FOUND = 5, 8  # lines of a gallery, and neighbours in each

NEAR = "Every image: the cosine to the nearest of its class and to the nearest of another one; exact, in the embedding's own space."
JOINT = "Train and test images in one t-SNE of the embedding layer. Distances between groups and the sizes of groups mean little."
BY_UMAP = "The same images by UMAP: distances between groups mean a little more than in t-SNE, and still little."
YOKED = "Test images by the embedding layer (fc) and by the features below it (gap), yoked: an image lies in about the same place in both."
MODELS = "Test images by the embedding layers of two models, yoked: an image lies in about the same place in both."
GALLERY = "Test images as queries with their nearest test images: some whose nearest is right, some whose nearest is wrong."

Array = NDArray[Any]


def kept_of(rows: StudyRows, finals: pd.DataFrame, loss: str) -> Kept | None:
    """The embeddings of the first final trial of this loss that left any, by the honest setup if there is one; the first fold's."""
    own = finals[(finals["loss"] == loss) & (finals["role"] == "final")].sort_values(["peeks", "seed"], kind="stable")
    for run in map(str, own["run_id"]):
        embeddings, spec = rows.fetch(run, EMBEDDINGS), rows.fetch(run, SPEC)
        if embeddings and spec:
            return read_kept(embeddings, spec)[0]
    return None


def similarities(kept: Kept) -> Drawing | None:
    parts = {part: kept.only(part) for part in ("train", "test")}
    found = {(layer, part): nearest(own.units(place), own.label) for layer, place in LAYERS.items() for part, own in parts.items()}
    return same_vs_different(found, name=kept.name)


def joint(kept: Kept, *, points: int = JOINT_POINTS, cache: Path | None = None) -> Drawing | None:
    own = whole_classes(kept, points)
    (plane,) = _cached(cache, "joint", [own.units(FC)], lambda units: [joint_tsne(units[0])])
    return joint_map(plane, own.label, own.part, name=kept.name)


def by_umap(kept: Kept, *, points: int = JOINT_POINTS, cache: Path | None = None) -> Drawing | None:
    own = whole_classes(kept, points)
    (plane,) = _cached(cache, "umap", [own.units(FC)], lambda units: [umap(units[0])])
    return joint_map(plane, own.label, own.part, name=kept.name, kind="UMAP")


def yoked(kept: Kept, *, points: int = YOKED_POINTS, part: str = "test", cache: Path | None = None) -> Drawing | None:
    """fc and gap of one model."""
    from analysis.maps.yoked import zoom

    own = whole_classes(kept.only(part), points)
    if not len(own):
        return None
    names = list(LAYERS)
    units = [own.units(LAYERS[layer]) for layer in names]
    maps = _cached(cache, "yoked", units, _yoked_maps)
    boxes = zoom(maps, around(maps[0], own.label))
    return yoked_map(maps, names, own.label, boxes=boxes, title=f"{kept.name}: {part} images, yoked")


def _yoked_maps(units: Sequence[Array]) -> list[Plane]:
    from analysis.maps.yoked import yoked_tsne

    return list(yoked_tsne(units).maps)


def yoked_models(models: Sequence[Kept], *, points: int = YOKED_POINTS, layer: str = "fc", cache: Path | None = None) -> Drawing | None:
    """The same layer of several models, on the test images that all of them kept."""
    from analysis.maps.yoked import zoom

    common = whole_classes(_of_images(models[0].only("test"), models), points)
    if not len(common):
        return None
    same = [model.take(_rows(model, common.image)) for model in models]
    maps = _cached(cache, "yoked", [each.units(LAYERS[layer]) for each in same], _yoked_maps)
    title = f"{layer}: test images by {len(models)} models, yoked"
    return yoked_map(maps, [model.name for model in models], common.label, boxes=zoom(maps, around(maps[0], common.label)), title=title)


def _of_images(kept: Kept, models: Sequence[Kept]) -> Kept:
    """Only images that all models kept."""
    return kept.take(np.flatnonzero(np.all([np.isin(kept.image, model.image) for model in models], axis=0)))


def _rows(kept: Kept, images: Array) -> Array:
    """Where these images stand, in their order."""
    order = np.argsort(kept.image, kind="stable")
    return order[np.searchsorted(kept.image, images, sorter=order)]


def around(plane: Plane, labels: Array) -> Array:
    """The images of the three classes whose middles lie nearest to that of the most compact class: a region worth a closer look."""
    known = np.unique(labels)
    middles = np.array([np.median(plane[labels == label], axis=0) for label in known])
    spreads = [np.median(np.linalg.norm(plane[labels == label] - middle, axis=1)) for label, middle in zip(known, middles, strict=True)]
    away = np.linalg.norm(middles - middles[int(np.argmin(spreads))], axis=1)
    return np.flatnonzero(np.isin(labels, known[np.argsort(away, kind="stable")[:3]]))


def shown(kept: Kept) -> Drawing | None:
    """None where the images are not on this machine."""
    own = kept.only("test")
    images = _images(own)
    if len(own) < 2 or images is None:
        return None
    pixels, names = images
    units = own.units(FC)
    first = np.concatenate([neighbours(units, np.arange(i, min(i + 256, len(own))), 1) for i in range(0, len(own), 256)])[:, 0]
    right = own.label[first] == own.label
    chosen = np.concatenate([_spread(np.flatnonzero(right), QUERIES - QUERIES // 2), _spread(np.flatnonzero(~right), QUERIES // 2)])
    lines = []
    for query, rows in zip(chosen, neighbours(units, chosen, FOUND), strict=True):
        near = tuple(Found(pixels(row), names(row), right=bool(own.label[row] == own.label[query])) for row in rows)
        lines.append(Line(Found(pixels(query), names(query)), near))
    return gallery(lines, name=kept.name)


def _images(kept: Kept) -> tuple[Callable[[int], Array], Callable[[int], str]] | None:
    """What the network saw of a row's image, and the name of its class."""
    import torch

    from trainables.datasets.catalogue import DATASETS, index
    from trainables.datasets.pixels import cache_folder, load
    from trainables.images import Images

    spec = kept.spec
    try:
        here = index(spec.origin).fingerprint == spec.fingerprint
    except (ValueError, OSError):
        return None
    if not here or not (DATASETS[spec.origin.dataset].pixels or cache_folder(spec.origin, spec.look.cache_size).exists()):
        return None
    data = load(spec.origin, spec.look.cache_size)
    images = Images(data, tuple(np.unique(kept.label).tolist()), spec.look, torch.device("cpu"))
    row_of = {int(image): row for row, image in enumerate(images.ids)}

    def pixels(row: int) -> Array:
        found: Array = images.plain(np.array([row_of[int(kept.image[row])]]))[0].permute(1, 2, 0).numpy()
        return found

    return pixels, lambda row: data.index.names[int(kept.label[row])]


def _spread(rows: Array, count: int) -> Array:
    """At most so many of them, from the first to the last."""
    return rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)] if len(rows) else rows


def _cached(folder: Path | None, kind: str, units: Sequence[Array], make: Callable[[Sequence[Array]], list[Plane]]) -> list[Plane]:
    """By what the places are made of, so that embeddings that were made again get places of their own."""
    if not folder:
        return make(units)
    digest = sha256(b"".join(f"{each.shape}".encode() + np.ascontiguousarray(each).tobytes() for each in units)).hexdigest()
    file = folder / f"{kind}-{digest[:16]}.npy"
    if file.exists():
        return list(np.load(file, allow_pickle=False))
    planes = make(units)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(file, np.stack(planes).astype(np.float32))
    return planes


MAPS: dict[str, tuple[Callable[[Sequence[Kept], Path | None], Drawing | None], str]] = {  # with what is said below
    "same_vs_different": (lambda models, cache: similarities(models[0]), NEAR),
    "joint_map": (lambda models, cache: joint(models[0], cache=cache), JOINT),
    "yoked_map": (lambda models, cache: yoked(models[0], cache=cache), YOKED),
    "yoked_models": (lambda models, cache: yoked_models(models, cache=cache), MODELS),
    "umap": (lambda models, cache: by_umap(models[0], cache=cache), BY_UMAP),
    "gallery": (lambda models, cache: shown(models[0]), GALLERY),
}
