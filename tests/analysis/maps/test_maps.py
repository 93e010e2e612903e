"""Maps of kept embeddings hold the right images, and their numbers are those of the metrics."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from analysis.figures.map_pictures import tsne_map, yoked_layers
from analysis.maps.embeddings import FC, GAP, read_embeddings, whole_classes
from analysis.maps.nearest import nearest, neighbours
from analysis.maps.plane import joint_tsne, umap
from tests.support import trees, vectors
from tests.support.synthetic_embeddings import (
    spec_of,
    synthetic_embeddings,
    unit_vectors,
    write_embeddings,
)
from trainables.contract import DatasetRef, Split
from trainables.datasets.indexing import index
from trainables.metrics.retrieval import score_retrieval


def test_every_image_is_in_the_part_that_its_split_names(tmp_path, config):
    spec = spec_of(config())
    (embeddings,) = read_embeddings(write_embeddings(tmp_path, spec), spec)
    (split,) = spec.splits
    for part in ("train", "select", "test"):
        assert set(embeddings.only(part).label) == set(getattr(split, part))
    np.testing.assert_allclose(np.linalg.norm(embeddings.units(FC), axis=1), 1, rtol=1e-3)
    assert embeddings.features[GAP].shape == (len(embeddings), 12)


def test_under_the_default_setup_what_chooses_is_test(tmp_path, config):
    spec = spec_of(config(), protocol="default")
    (embeddings,) = read_embeddings(write_embeddings(tmp_path, spec), spec)
    assert set(embeddings.part) == {"train", "test"}


def test_fewer_images_are_whole_classes_of_every_part(tmp_path, config):
    embeddings = synthetic_embeddings(tmp_path, config(), per_class=4)
    fewer = whole_classes(embeddings, 100)
    assert abs(len(fewer) - 100) <= 12
    assert set(fewer.part) == set(embeddings.part)
    for label in np.unique(fewer.label):
        assert (fewer.label == label).sum() == (embeddings.label == label).sum()
    assert len(whole_classes(embeddings, len(embeddings))) == len(embeddings)


def test_the_share_of_right_images_is_recall_at_1():
    found, labels = unit_vectors(12, 9, spread=0.9)
    scored = score_retrieval(torch.from_numpy(found), torch.from_numpy(labels), ("recall_at_1",))
    assert 0.1 < scored.means["recall_at_1"] < 0.9
    assert nearest(found, labels).share == pytest.approx(scored.means["recall_at_1"])


def test_nearest_is_what_plain_loops_find(monkeypatch):
    monkeypatch.setattr("analysis.maps.nearest.BLOCK", 5)
    found, labels = unit_vectors(4, 4, spread=0.8)
    labels[-1] = 99  # alone in its class: left out
    same, different = [], []
    for i in range(len(labels) - 1):
        others = [j for j in range(len(labels)) if j != i]
        same.append(max(found[i] @ found[j] for j in others if labels[j] == labels[i]))
        different.append(max(found[i] @ found[j] for j in others if labels[j] != labels[i]))
    ours = nearest(found, labels)
    np.testing.assert_allclose(ours.same, same, rtol=1e-6)
    np.testing.assert_allclose(ours.different, different, rtol=1e-6)


def test_neighbours_are_in_order_and_never_the_query():
    found, _ = unit_vectors(3, 5, spread=0.7)
    rows = neighbours(found, np.array([2, 9]), 4)
    for query, others in zip((2, 9), rows, strict=True):
        ranked = sorted(
            (i for i in range(len(found)) if i != query), key=lambda i: -found[i] @ found[query]
        )
        assert others.tolist() == ranked[:4]
    assert neighbours(found[:2], np.array([0]), 8).tolist() == [[1]]


# numba compiles umap for a quarter of a minute.
LAYOUTS = [joint_tsne, pytest.param(umap, marks=pytest.mark.slow)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_map_keeps_groups_together(layout):
    found, labels = unit_vectors(5, 30)
    plane = layout(found)
    away = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    np.fill_diagonal(away, np.inf)
    assert (labels[away.argmin(axis=1)] == labels).mean() > 0.98


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("count", [1, 3])
def test_a_map_of_a_few_images_is_one_too(layout, count):
    assert layout(unit_vectors(1, count)[0]).shape == (count, 2)


def test_a_layout_is_cached_for_the_embeddings_that_it_was_made_of(tmp_path, config, monkeypatch):
    embeddings = whole_classes(synthetic_embeddings(tmp_path, config()), 120)
    cache = tmp_path / "maps"
    assert tsne_map(embeddings, cache=cache)
    assert yoked_layers(embeddings, points=60, cache=cache)
    assert len(list(cache.iterdir())) == 2
    with monkeypatch.context() as patch:
        patch.setattr(
            "analysis.figures.map_pictures.joint_tsne",
            lambda units: pytest.fail("the layout was not cached"),
        )
        assert tsne_map(embeddings, cache=cache)
    trained_again = replace(
        embeddings,
        features={name: values[::-1].copy() for name, values in embeddings.features.items()},
    )
    assert tsne_map(
        trained_again, cache=cache
    )  # the same cell, seed and fold, but other embeddings
    assert tsne_map(embeddings.only("test"), cache=cache)  # and other images
    assert len(list(cache.iterdir())) == 4


def test_models_are_yoked_on_the_images_that_all_of_them_kept(tmp_path, config):
    from analysis.figures.map_pictures import common_images, rows_of, yoked_models

    one = synthetic_embeddings(tmp_path, config(), per_class=2)
    other = one.take(np.random.default_rng(0).permutation(len(one))[: len(one) // 2])
    common = common_images(one.only("test"), [one, other])
    assert 0 < len(common) < (one.part == "test").sum()
    assert other.image[rows_of(other, common.image)].tolist() == common.image.tolist()
    drawing = yoked_models([one, other], points=40)
    assert drawing
    assert len(drawing.figure.axes) == 4


def test_where_the_images_are_others_there_is_no_gallery(tmp_path, config):
    from analysis.figures.map_pictures import query_gallery

    embeddings = synthetic_embeddings(tmp_path, config())
    assert query_gallery(embeddings)
    assert (
        query_gallery(replace(embeddings, spec=replace(embeddings.spec, fingerprint="another")))
        is None
    )


def test_a_gallery_of_vectors_shows_their_pictures_where_they_are(tmp_path, config):
    from analysis.figures.map_pictures import PICTURE_SIDE, query_gallery

    rows, labels = vectors.sample()
    files = [trees.jpeg(tmp_path / f"{row}.jpg", row).name for row in range(len(rows))]

    def drawn(**columns):
        path = vectors.write("parquet", tmp_path, rows, label=labels, **columns)
        index.cache_clear()
        ref = DatasetRef("features", str(path))
        splits = (Split((0,), (1,), (2, 3, 4)),)
        spec = replace(
            spec_of(config()), dataset_ref=ref, splits=splits, fingerprint=index(ref).fingerprint
        )
        (embeddings,) = read_embeddings(write_embeddings(tmp_path / "kept", spec), spec)
        return query_gallery(embeddings)

    assert drawn() is None
    assert drawn(image=[f"gone/{file}" for file in files]) is None
    (tmp_path / files[labels.index("gull")]).write_text("spoiled")
    gallery = drawn(image=files)
    shown = [image.get_array() for axis in gallery.figure.axes for image in axis.images]
    assert {min(pixels.shape[:2]) for pixels in shown} == {PICTURE_SIDE}
    blank = [bool((pixels == 255).all()) for pixels in shown]
    assert any(blank)
    assert not all(blank)
