"""Read Cars-196 from either layout: the original car_ims, or the mirror by class folders."""

import csv
from pathlib import Path

import numpy as np

from trainables.datasets.listing import Listing, candidates, find_holding, subfolders


def read_cars196(folder: Path, train_classes: int) -> Listing:
    """Return the listing of the layout in `folder`. Raise ValueError if neither layout is there."""
    root = find_holding(folder, "cars_annos.mat")
    if root is not None:
        return _original(root, train_classes)
    for mirror in candidates(folder):
        if subfolders(mirror / "train") and subfolders(mirror / "test"):
            return _mirror(mirror, train_classes)
    halves = [
        name
        for name in ("cars_train", "cars_test", "train", "test")
        if find_holding(folder, name) is not None
    ]
    if halves:
        raise ValueError(
            f"{folder} holds only {' and '.join(halves)} of the closed-set split, and no folder "
            f"per class; cars196 needs car_ims with cars_annos.mat, or the mirror whose train and "
            f"test have a folder per class."
        )
    raise ValueError(
        f"{folder} is not Cars-196: there is no car_ims with cars_annos.mat, and no train and test "
        f"with a folder per class."
    )


def _original(root: Path, train_classes: int) -> Listing:
    from scipy.io import loadmat

    path = root / "cars_annos.mat"
    try:
        content = loadmat(path, squeeze_me=True)
        annotations = np.atleast_1d(content["annotations"])
        names = np.atleast_1d(content["class_names"])
        files = [str(file) for file in annotations["relative_im_path"]]
        # Classes count from 1. The field `test` is the closed-set split, so nothing reads it.
        classes = [int(number) for number in annotations["class"]]
    except Exception as error:  # scipy raises anything on a damaged file
        raise ValueError(
            f"{path} cannot be read as the annotations of Cars-196 ({type(error).__name__}: "
            f"{error})."
        ) from None
    for file, number in zip(files, classes, strict=True):
        if not 1 <= number <= len(names):
            raise ValueError(f"{path} gives {file} a class outside of 1 to {len(names)}.")
    return Listing.in_order(
        root,
        files=files,
        labels=[number - 1 for number in classes],
        names=[str(name) for name in names],
        train_classes=train_classes,
    )


def _mirror(root: Path, train_classes: int) -> Listing:
    """Join train/ and test/, the closed-set split, into the whole dataset.

    An image of train/ and an image of test/ may have the same name.
    """
    class_folders = [found for half in ("train", "test") for found in subfolders(root / half)]
    names_file = _names_file(root)
    with names_file.open(encoding="utf-8-sig", newline="") as file:
        names = [row[0].strip() for row in csv.reader(file) if row]
    # The class 'Ram C/V' is the folder 'Ram C-V'.
    order = {name.replace("/", "-"): label for label, name in enumerate(names)}
    if different := {found.name for found in class_folders} ^ order.keys():
        raise ValueError(
            f"The folders in {root} and the names in {names_file} differ: '{min(different)}' is "
            f"in only one of them."
        )
    found = sorted(
        (order[class_folder.name], image.relative_to(root).as_posix())
        for class_folder in class_folders
        for image in class_folder.iterdir()
        if image.suffix.lower() in (".jpg", ".jpeg") and not image.name.startswith(".")
    )
    return Listing.in_order(
        root,
        files=[image for _, image in found],
        labels=[label for label, _ in found],
        names=names,
        train_classes=train_classes,
    )


def _names_file(root: Path) -> Path:
    for folder in (root, *root.parents[:2]):
        if (folder / "names.csv").is_file():
            return folder / "names.csv"
    raise ValueError(
        f"{root} has no names.csv beside it, which holds the official order of the 196 classes "
        f"(alphabetical order is another); put the names.csv of the mirror there."
    )
