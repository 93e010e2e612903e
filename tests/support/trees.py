"""Write miniature datasets in each official layout, with real JPEG files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from trainables.datasets import catalogue

FERRARIS = [  # in the official order, which is not the alphabet's
    "FIAT 500 Convertible 2012",
    "Ferrari FF Coupe 2012",
    "Ferrari California Convertible 2012",
    "Ferrari 458 Italia Convertible 2012",
]
RAM = "Ram C/V Cargo Van Minivan 2012"


def jpeg(path: Path, number: int = 0) -> Path:
    """Write a small photo; each number gives another one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 255, (3, 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((24 + number % 3, 20)).save(path, "JPEG")
    return path


def folders(root: Path, names: Sequence[str], images: int = 2) -> Path:
    """Write one folder of photos per class."""
    for label, name in enumerate(names):
        for i in range(images):
            jpeg(root / name / f"{i}.jpg", label * 100 + i)
    return root


def count(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    *,
    classes: int,
    images: int,
    train_classes: int,
    train_images: int,
) -> None:
    """Make the catalogue expect these counts of the dataset."""
    counts = {
        "classes": classes,
        "images": images,
        "train_classes": train_classes,
        "train_images": train_images,
    }
    monkeypatch.setitem(catalogue.DATASETS, name, replace(catalogue.DATASETS[name], **counts))


def cub(folder: Path, classes: int = 4) -> Path:
    """Write CUB: class i has i + 1 images, and the lists are not in the order of the classes."""
    root = folder / "CUB_200_2011"
    names = [f"{i + 1:03d}.Bird_{'dcba'[i % 4]}" for i in range(classes)]
    images = [
        (label, f"{names[label]}/{names[label]}_{i:04d}.jpg")
        for label in range(classes)
        for i in range(label + 1)
    ]
    for number, (_, file) in enumerate(images):
        jpeg(root / "images" / file, number)
    _lines(
        root / "classes.txt", [f"{i + 1} {name}" for i, name in reversed(list(enumerate(names)))]
    )
    _lines(root / "images.txt", [f"{i + 1} {file}" for i, (_, file) in enumerate(images)])
    _lines(
        root / "image_class_labels.txt",
        [f"{i + 1} {label + 1}" for i, (label, _) in enumerate(images)],
    )
    _lines(root / "train_test_split.txt", [f"{i + 1} {i % 2}" for i in range(len(images))])
    return root


def small_cub(monkeypatch: pytest.MonkeyPatch) -> None:
    count(monkeypatch, "cub200", classes=4, images=10, train_classes=2, train_images=3)


def cars(folder: Path) -> Path:
    """Write the original Cars: every class has 2 images, numbered across the classes."""
    names = [*FERRARIS, RAM]
    kind = [("relative_im_path", object), ("class", object), ("test", object)]
    rows = np.array(
        [(f"car_ims/{i + 1:06d}.jpg", i % len(names) + 1, i % 2) for i in range(2 * len(names))],
        dtype=kind,
    )
    for i, row in enumerate(rows):
        jpeg(folder / row["relative_im_path"], i)
    savemat(
        folder / "cars_annos.mat",
        {"annotations": rows.reshape(1, -1), "class_names": np.array([names], dtype=object)},
    )
    return folder


def cars_mirror(folder: Path, *, names: bool = True) -> Path:
    """Write the mirror of Cars: a folder per class, twice, with the same file names in both."""
    classes = [*FERRARIS, RAM]
    for half, first in (("train", 0), ("test", 50)):
        for label, name in enumerate(classes):
            jpeg(
                folder / "car_data" / "car_data" / half / name.replace("/", "-") / "00001.jpg",
                first + label,
            )
    if names:
        _lines(folder / "names.csv", classes)
        _lines(folder / "anno_train.csv", ["00001.jpg,1,2,3,4,1"])
        _lines(folder / "anno_test.csv", ["00001.jpg,1,2,3,4,1"])
    return folder


def small_cars(monkeypatch: pytest.MonkeyPatch) -> None:
    count(monkeypatch, "cars196", classes=5, images=10, train_classes=2, train_images=4)


def sop(folder: Path) -> Path:
    """Write SOP: three classes to train on and two to test, so the halves are not equal."""
    root = folder / "Stanford_Online_Products"
    number = 0
    for name, classes in (("Ebay_train.txt", (1, 2, 3)), ("Ebay_test.txt", (4, 5))):
        lines = ["image_id class_id super_class_id path"]
        for label in classes:
            for i in range(2):
                number += 1
                file = f"{'bicycle' if label % 2 else 'sofa'}_final/{label}_{i}.JPG"
                jpeg(root / file, number)
                lines.append(f"{number} {label} 1 {file}")
        _lines(root / name, lines)
    return root


def small_sop(monkeypatch: pytest.MonkeyPatch) -> None:
    count(monkeypatch, "sop", classes=5, images=10, train_classes=3, train_images=6)


def _lines(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n")


TREES = {"cub200": (cub, small_cub), "cars196": (cars, small_cars), "sop": (sop, small_sop)}
