"""An exported model gives the embeddings that its trial was scored with, in any runtime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch.nn import functional as F

from tests.support import trees
from tests.support.specs import SPLIT, final, sketches
from trainables import load_embedder
from trainables.contract import (
    BEST,
    NO_TRUNK,
    NOT_TRAINED,
    DatasetRef,
    Outputs,
    Split,
    TrialSpec,
)
from trainables.datasets.indexing import index
from trainables.datasets.pixels import Dataset, load
from trainables.datasets.vectors import load_vectors
from trainables.inputs.features import Features, load_data
from trainables.networks.network import HeadConfig, build_head_network, build_network
from trainables.outputs import artifacts
from trainables.outputs.embedder import CONFIG, ONNX, WEIGHTS, Embedder
from trainables.outputs.exporting import (
    TRACEABLE,
    Exported,
    _normalized,
    export_model,
    write_onnx,
)
from trainables.training.learner import Learner


def trained(spec: TrialSpec, data: Dataset | Features, folder: Path) -> Learner:
    """A finished final trial, with the files that it leaves."""
    learner = Learner(replace(spec, outputs=Outputs(last=False, embeddings=True)), data)
    while not learner.done:
        learner.epoch()
    learner.read_test()
    folder.mkdir(exist_ok=True)
    artifacts.write_outputs(folder, {"state": learner.state(), "artifacts": learner.artifacts()})
    return learner


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Learner, Embedder, Path]:
    folder = tmp_path_factory.mktemp("exported")
    learner = trained(final(epochs=1), sketches(), folder / "trial")
    return (
        learner,
        export_model(folder / "trial" / BEST, learner.spec, folder / "model"),
        folder / "model",
    )


def units(learner: Learner, fold: int = 0) -> np.ndarray:
    return F.normalize(torch.from_numpy(learner.embeddings[fold]["embedding"]).float()).numpy()


def test_a_loaded_embedder_gives_the_trials_own_embeddings(exported):
    learner, _, folder = exported
    assert sorted(path.name for path in folder.iterdir()) == sorted([CONFIG, ONNX, WEIGHTS])
    ids, pixels = learner.embeddings[0]["image"][:90], sketches().pixels
    vectors = load_embedder(folder)([pixels[i] for i in ids])
    np.testing.assert_allclose(vectors, units(learner)[:90], atol=1e-6)
    assert vectors.dtype == np.float32
    assert load_embedder(folder)([]).shape == (0, 8)


@pytest.mark.slow
@pytest.mark.parametrize("loss", NOT_TRAINED)
def test_a_baseline_can_be_exported_with_the_vectors_that_it_was_scored_with(loss, tmp_path):
    spec = replace(
        final(loss, epochs=0), rule="untrained", splits=(Split(SPLIT.train, (), SPLIT.test),)
    )
    learner = trained(spec, sketches(), tmp_path / "trial")
    embedder = export_model(tmp_path / "trial" / BEST, learner.spec, tmp_path / "model")
    vectors = load_embedder(tmp_path / "model")(
        [sketches().pixels[i] for i in learner.embeddings[0]["image"][:9]]
    )
    assert vectors.shape == (9, embedder.size)
    np.testing.assert_allclose(vectors, units(learner)[:9], atol=1e-6)


def test_onnx_gives_the_same_vectors_for_any_number_of_images(exported):
    onnxruntime = pytest.importorskip("onnxruntime")
    learner, embedder, folder = exported
    images = [sketches().pixels[i] for i in learner.embeddings[0]["image"][:7]]
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    for count in (1, 7):
        (found,) = session.run(None, {"images": embedder.crops(images[:count]).float().numpy()})
        np.testing.assert_allclose(found, embedder(images[:count]), atol=1e-5)


def test_pretrained_features_side_by_side_are_the_same_in_onnx(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    base = final("pooled", epochs=0)
    spec = replace(
        base,
        rule="untrained",
        splits=(Split(SPLIT.train, (), SPLIT.test),),
        cell=replace(base.cell, backbone="small"),
        model=replace(base.model, weights="pretrained", pooling="gap-gmp"),
    )
    learner = trained(spec, sketches(), tmp_path / "trial")
    embedder = export_model(tmp_path / "trial" / BEST, learner.spec, tmp_path / "model")
    images = [sketches().pixels[i] for i in learner.embeddings[0]["image"][:7]]
    assert embedder.size == 256
    np.testing.assert_allclose(embedder(images), units(learner)[:7], atol=1e-6)
    session = onnxruntime.InferenceSession(tmp_path / "model" / ONNX)
    (found,) = session.run(None, {"images": embedder.crops(images).float().numpy()})
    np.testing.assert_allclose(found, embedder(images), atol=1e-5)


def test_several_folds_are_joined_as_scoring_joins_them(tmp_path):
    other = Split(train=SPLIT.select + SPLIT.train[4:], select=SPLIT.train[:4], test=SPLIT.test)
    learner = trained(
        replace(final(epochs=1), splits=(SPLIT, other)), sketches(), tmp_path / "trial"
    )
    embedder = export_model(tmp_path / "trial" / BEST, learner.spec, tmp_path / "model")
    rows = np.flatnonzero(np.isin(learner.embeddings[0]["class"], SPLIT.test))[:20]
    vectors = embedder([sketches().pixels[i] for i in learner.embeddings[0]["image"][rows]])
    parts = [
        units(learner, fold)[
            np.flatnonzero(np.isin(learner.embeddings[fold]["class"], SPLIT.test))[:20]
        ]
        for fold in (0, 1)
    ]
    np.testing.assert_allclose(vectors, np.hstack(parts) / np.sqrt(2), atol=2e-3)


def test_files_are_cropped_as_scoring_crops_them(tmp_path):
    root = trees.folders(tmp_path / "photos", [f"class_{i}" for i in range(8)], images=4)
    dataset_ref = DatasetRef("image_folder", str(root))
    split = Split(train=(0, 1), select=(2, 3), test=(4, 5, 6, 7))
    base = final(epochs=1, batch_size=4, images_per_class=2)
    transform = replace(base.transform, cache_size=18, center_crop=0.9)
    cell = replace(base.cell, dataset="image_folder")
    spec = replace(
        base,
        cell=cell,
        dataset_ref=dataset_ref,
        fingerprint=index(dataset_ref).fingerprint,
        splits=(split,),
        transform=transform,
    )
    learner = trained(spec, load(dataset_ref, 18), tmp_path / "trial")
    embed = export_model(tmp_path / "trial" / BEST, spec, tmp_path / "model")
    files = [root / index(dataset_ref).files[i] for i in learner.embeddings[0]["image"]]
    np.testing.assert_allclose(embed(files), units(learner), atol=2e-3)
    with Image.open(files[0]) as image:
        np.testing.assert_allclose(
            embed([image, np.asarray(image)]), embed([files[0]] * 2), atol=1e-6
        )


def test_the_entry_of_every_kind_of_backbone_is_the_same_in_onnx():
    images = torch.randint(0, 256, (2, 3, 16, 16)).float()
    for backbone in ("tiny", "small", "resnet18", "bn_inception"):
        network = build_network(
            backbone,
            3,
            head=HeadConfig(4),
            pooling="gap",
            weights=None,
            freeze_bn=False,
            bf16=False,
            seed=0,
        ).eval()
        torch.testing.assert_close(
            _normalized(network.input_layer, images),
            network.input_layer(images.byte()),
            atol=1e-4,
            rtol=1e-4,
        )
        assert Exported([network])(torch.zeros(1, 3, 64, 64)).shape == (1, 4)


def test_what_is_not_a_model_or_not_an_image_is_refused(exported, tmp_path):
    with pytest.raises(ValueError, match=r"has no model.safetensors; `fairtrial export"):
        load_embedder(tmp_path)
    (tmp_path / "a.jpg").write_text("no")
    with pytest.raises(ValueError, match=r"a.jpg must be an image"):
        exported[1]([tmp_path / "a.jpg"])


def vectors_spec(path: Path, loss: str = "contrastive") -> TrialSpec:
    """Return a final trial on vectors that a user brought: 106 classes, as SPLIT needs."""
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(106), 4)
    names = np.array([f"{label:03}" for label in labels])
    np.savez(path, features=rng.normal(size=(424, 6)) + labels[:, None] % 7, labels=names)
    ref = DatasetRef("features", str(path))
    base = final(loss, backbone="none", epochs=int(loss not in NOT_TRAINED))
    model = replace(base.model, train="head")
    cell = replace(base.cell, dataset="features")
    return replace(base, cell=cell, dataset_ref=ref, model=model)


@pytest.mark.parametrize("loss", ["contrastive", "pooled", "pca"])
def test_a_model_trained_on_vectors_takes_vectors(loss: str, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    spec = vectors_spec(tmp_path / "own.npz", loss)
    learner = trained(spec, load_data(spec), tmp_path / "trial")
    export_model(tmp_path / "trial" / BEST, learner.spec, tmp_path / "model")
    own = load_vectors(spec.dataset_ref)[learner.embeddings[0]["image"]]
    embedder = load_embedder(tmp_path / "model")
    assert embedder.features == 6
    np.testing.assert_allclose(embedder(own), units(learner), atol=1e-6)
    session = onnxruntime.InferenceSession(tmp_path / "model" / ONNX)
    for count in (1, 7):
        (found,) = session.run(None, {"features": own[:count]})
        np.testing.assert_allclose(found, units(learner)[:count], atol=1e-5)
    with pytest.raises(ValueError, match=r"takes vectors of 6 numbers, but got .* \(2, 5\)"):
        embedder(own[:2, :5])


@pytest.mark.parametrize(
    ("backbone", "pooling"),
    [
        pytest.param(
            name, pooling, marks=[pytest.mark.slow] * (name.startswith("resnet") and i > 0)
        )
        for name in TRACEABLE
        for i, pooling in enumerate(["gap", "gap+gmp", "gap-gmp"])
    ],
)
def test_a_traced_model_takes_any_number_of_images(
    backbone: str, pooling: str, tmp_path: Path
) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    if backbone == NO_TRUNK:
        network, shape = build_head_network(5, HeadConfig(4), seed=0), (5,)
    else:
        network = build_network(
            backbone,
            3,
            head=HeadConfig(4),
            pooling=pooling,
            weights=None,
            freeze_bn=False,
            bf16=False,
            seed=0,
        )
        shape = (3, 64, 64)
    network.eval()
    write_onnx([network], tmp_path / ONNX, torch.rand(2, *shape) * 255, traced=True)
    session = onnxruntime.InferenceSession(tmp_path / ONNX)
    for count in (1, 5):
        images = torch.rand(count, *shape) * 255
        (found,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
        wanted = Exported([network])(images).detach().numpy()
        np.testing.assert_allclose(found, wanted, atol=1e-5)
