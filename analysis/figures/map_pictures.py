"""Draw kept embeddings: maps, similarities and a gallery of one loss or of several."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.figures.embedding_maps import joint_map, yoked_map
from analysis.figures.gallery import GalleryImage, GalleryRow, gallery
from analysis.figures.similarity import same_vs_different
from analysis.figures.style import Drawing
from analysis.maps.embeddings import FC, GAP, TrialEmbeddings, read_embeddings, whole_classes
from analysis.maps.nearest import nearest, neighbours
from analysis.maps.plane import Plane, joint_tsne, umap
from analysis.record.frames import StudyRows
from trainables.contract import EMBEDDINGS, TrialSpec

if TYPE_CHECKING:
    from trainables.datasets.indexing import Index

LAYERS = {"fc": FC, "gap": GAP}  # the embedding layer, and the features that it is made from
JOINT_POINTS, YOKED_POINTS = 3000, 1500  # on a page: seconds, not minutes
QUERIES, NEIGHBOURS = 5, 8  # rows of a gallery, and neighbours in each
PICTURE_SIDE = 160  # pixels of the shorter side of a vector's picture in a gallery

SIMILARITY_CAPTION = (
    "How near every image is to its own class, and to the nearest other one: exact cosines in the "
    "embedding's own space."
)
JOINT_CAPTION = (
    "Train and test images in one t-SNE of the embedding layer. Distances between groups and the "
    "sizes of groups mean little."
)
UMAP_CAPTION = (
    "Train and test images by UMAP. Distances between groups mean a little more than in t-SNE, and "
    "still little."
)
YOKED_CAPTION = (
    "Test images by the embedding layer (fc) and by the features below it (gap). The maps are "
    "yoked: an image lies in about the same position in both."
)
MODELS_CAPTION = (
    "Test images by the embedding layers of two models. The maps are yoked: an image lies in about "
    "the same position in both."
)
GALLERY_CAPTION = (
    "Test images as queries with their nearest test images: some whose nearest is right, some "
    "whose nearest is wrong."
)

Array = NDArray[Any]


def first_embeddings(rows: StudyRows, finals: pd.DataFrame, loss: str) -> TrialEmbeddings | None:
    """Return the embeddings of the loss's first final trial that kept any; of its first fold.

    Trials of the validation setup come before those of the default setup.
    """
    own = finals[(finals["loss"] == loss) & (finals["role"] == "final")].sort_values(
        ["peeks", "seed"], kind="stable"
    )
    for run in map(str, own["run_id"]):
        if embeddings := rows.fetch(run, EMBEDDINGS):
            return read_embeddings(embeddings, TrialSpec.from_dict(rows.spec(run)))[0]
    return None


def similarity_scatter(embeddings: TrialEmbeddings) -> Drawing | None:
    """Draw how near train and test images are to their own class and to others, by layer."""
    parts = {part: embeddings.only(part) for part in ("train", "test")}
    found = {
        (name, part): nearest(own.units(layer), own.label)
        for name, layer in LAYERS.items()
        for part, own in parts.items()
    }
    return same_vs_different(found, name=embeddings.name)


def tsne_map(
    embeddings: TrialEmbeddings, *, points: int = JOINT_POINTS, cache: Path | None = None
) -> Drawing | None:
    """Draw train and test images in one t-SNE."""
    own = whole_classes(embeddings, points)
    (plane,) = cached_maps(cache, "joint", [own.units(FC)], lambda units: [joint_tsne(units[0])])
    return joint_map(plane, own.label, own.part, name=embeddings.name)


def umap_map(
    embeddings: TrialEmbeddings, *, points: int = JOINT_POINTS, cache: Path | None = None
) -> Drawing | None:
    """Draw train and test images by UMAP."""
    own = whole_classes(embeddings, points)
    (plane,) = cached_maps(cache, "umap", [own.units(FC)], lambda units: [umap(units[0])])
    return joint_map(plane, own.label, own.part, name=embeddings.name, kind="UMAP")


def yoked_layers(
    embeddings: TrialEmbeddings, *, points: int = YOKED_POINTS, cache: Path | None = None
) -> Drawing | None:
    """Draw both layers of one model, yoked, on its test images."""
    from analysis.maps.yoked import zoom

    own = whole_classes(embeddings.only("test"), points)
    if not len(own):
        return None
    names = list(LAYERS)
    units = [own.units(LAYERS[layer]) for layer in names]
    maps = cached_maps(cache, "yoked", units, make_yoked)
    boxes = zoom(maps, compact_region(maps[0], own.label))
    return yoked_map(
        maps, names, own.label, boxes=boxes, title=f"{embeddings.name}: test images, yoked"
    )


def make_yoked(units: Sequence[Array]) -> list[Plane]:
    from analysis.maps.yoked import yoked_tsne

    return list(yoked_tsne(units))


def yoked_models(
    models: Sequence[TrialEmbeddings], *, points: int = YOKED_POINTS, cache: Path | None = None
) -> Drawing | None:
    """Draw the embedding layers of several models, yoked, on the test images that all kept."""
    from analysis.maps.yoked import zoom

    common = whole_classes(common_images(models[0].only("test"), models), points)
    if not len(common):
        return None
    same = [model.take(rows_of(model, common.image)) for model in models]
    maps = cached_maps(cache, "yoked", [each.units(FC) for each in same], make_yoked)
    return yoked_map(
        maps,
        [model.name for model in models],
        common.label,
        boxes=zoom(maps, compact_region(maps[0], common.label)),
        title=f"fc: test images by {len(models)} models, yoked",
    )


def common_images(one: TrialEmbeddings, models: Sequence[TrialEmbeddings]) -> TrialEmbeddings:
    """Return only the images that all models kept."""
    return one.take(
        np.flatnonzero(np.all([np.isin(one.image, model.image) for model in models], axis=0))
    )


def rows_of(model: TrialEmbeddings, images: Array) -> Array:
    """Return the rows of these images, in their order."""
    order = np.argsort(model.image, kind="stable")
    return order[np.searchsorted(model.image, images, sorter=order)]


def compact_region(plane: Plane, labels: Array) -> Array:
    """Return the images of the three classes around the most compact one: a region to zoom into."""
    known = np.unique(labels)
    middles = np.array([np.median(plane[labels == label], axis=0) for label in known])
    spreads = [
        np.median(np.linalg.norm(plane[labels == label] - middle, axis=1))
        for label, middle in zip(known, middles, strict=True)
    ]
    away = np.linalg.norm(middles - middles[int(np.argmin(spreads))], axis=1)
    return np.flatnonzero(np.isin(labels, known[np.argsort(away, kind="stable")[:3]]))


def query_gallery(embeddings: TrialEmbeddings) -> Drawing | None:
    """Draw test queries with their neighbours; None where the images are not on this machine."""
    own = embeddings.only("test")
    images = _images(own)
    if len(own) < 2 or images is None:
        return None
    pixels, names = images
    units = own.units(FC)
    first = np.concatenate(
        [
            neighbours(units, np.arange(i, min(i + 256, len(own))), 1)
            for i in range(0, len(own), 256)
        ]
    )[:, 0]
    right = own.label[first] == own.label
    chosen = np.concatenate(
        [
            _spread(np.flatnonzero(right), QUERIES - QUERIES // 2),
            _spread(np.flatnonzero(~right), QUERIES // 2),
        ]
    )
    gallery_rows = []
    for query, rows in zip(chosen, neighbours(units, chosen, NEIGHBOURS), strict=True):
        near = tuple(
            GalleryImage(pixels(row), names(row), right=bool(own.label[row] == own.label[query]))
            for row in rows
        )
        gallery_rows.append(GalleryRow(GalleryImage(pixels(query), names(query)), near))
    return gallery(gallery_rows, name=embeddings.name)


def _images(own: TrialEmbeddings) -> tuple[Callable[[int], Array], Callable[[int], str]] | None:
    """Return two functions of a row: what the network sees of its image, and its class's name."""
    from trainables.datasets.catalogue import DATASETS
    from trainables.datasets.indexing import index
    from trainables.datasets.pixels import cache_folder, load
    from trainables.inputs.images import Images

    spec = own.spec
    sizes = spec.transform.cache_size, spec.transform.resize
    try:
        listed = index(spec.dataset_ref)
    except (ValueError, OSError):
        return None
    if listed.fingerprint != spec.fingerprint:
        return None
    if not DATASETS[spec.dataset_ref.dataset].channels:
        return _pictures(own, listed)
    if not (
        DATASETS[spec.dataset_ref.dataset].pixels or cache_folder(spec.dataset_ref, *sizes).exists()
    ):
        return None
    data = load(spec.dataset_ref, *sizes)
    ids = data.index.ids(np.unique(own.label).tolist())
    images = Images(data, ids, spec.transform)
    row_of = {int(image): row for row, image in enumerate(images.ids)}

    def pixels(row: int) -> Array:
        image = images.plain(np.array([row_of[int(own.image[row])]])).now()[0]
        channels_last: Array = image.permute(1, 2, 0).numpy()
        return channels_last

    return pixels, lambda row: data.index.names[int(own.label[row])]


def _pictures(
    own: TrialEmbeddings, listed: Index
) -> tuple[Callable[[int], Array], Callable[[int], str]] | None:
    """Return the same two functions for vectors; None without pictures on this machine."""
    from trainables.datasets.decode import BrokenImageError, decode, resize_shorter_side

    def pixels(row: int) -> Array:
        file = listed.pictures[int(own.image[row])]
        try:
            return np.asarray(resize_shorter_side(decode(listed.root, file), PICTURE_SIDE))
        except BrokenImageError:  # nothing was computed from it
            return np.full((PICTURE_SIDE, PICTURE_SIDE, 3), 255, dtype=np.uint8)

    if not listed.pictures or not (listed.root / listed.pictures[int(own.image[0])]).is_file():
        return None
    return pixels, lambda row: listed.names[int(own.label[row])]


def _spread(rows: Array, count: int) -> Array:
    """Return at most `count` rows, evenly from the first to the last."""
    return (
        rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)]
        if len(rows)
        else rows
    )


def cached_maps(
    folder: Path | None,
    kind: str,
    units: Sequence[Array],
    make: Callable[[Sequence[Array]], list[Plane]],
) -> list[Plane]:
    """Return the maps from the cache, whose key is the embeddings themselves, or make them."""
    if not folder:
        return make(units)
    digest = sha256(
        b"".join(f"{each.shape}".encode() + np.ascontiguousarray(each).tobytes() for each in units)
    ).hexdigest()
    file = folder / f"{kind}-{digest[:16]}.npy"
    if file.exists():
        return list(np.load(file, allow_pickle=False))
    planes = np.stack(make(units)).astype(np.float32)  # as the cache has them, the first time too
    folder.mkdir(parents=True, exist_ok=True)
    np.save(file, planes)
    return list(planes)


MapMaker = Callable[[Sequence[TrialEmbeddings], Path | None], Drawing | None]
MAPS: dict[str, tuple[MapMaker, str]] = {  # each with its caption
    "same_vs_different": (lambda models, cache: similarity_scatter(models[0]), SIMILARITY_CAPTION),
    "joint_map": (lambda models, cache: tsne_map(models[0], cache=cache), JOINT_CAPTION),
    "yoked_map": (lambda models, cache: yoked_layers(models[0], cache=cache), YOKED_CAPTION),
    "yoked_models": (lambda models, cache: yoked_models(models, cache=cache), MODELS_CAPTION),
    "umap": (lambda models, cache: umap_map(models[0], cache=cache), UMAP_CAPTION),
    "gallery": (lambda models, cache: query_gallery(models[0]), GALLERY_CAPTION),
}
