"""Name, sort and divide the classes of your own data, or the images of every class in two."""

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from random import Random
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from trainables.contract import DatasetRef
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.listing import Listing

MIN_CLASSES = 4  # two in each half, or nothing can be confused
SPLITS = ("train", "test")
LISTS = ("images.txt", "train_test_split.txt")  # CUB-200-2011: of its closed-set task


def name_classes(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return the sorted class names and the label of every word; numbers sort by their value.

    Both are independent of the order of the words and of how their letters are encoded.
    """
    spelling = {word: normalize("NFC", word) for word in set(words)}
    found = set(spelling.values())
    numbers = all(re.fullmatch(r"-?[0-9]+", word) for word in found)
    names = tuple(sorted(found, key=(lambda word: (int(word), word)) if numbers else None))
    order = {name: label for label, name in enumerate(names)}
    return names, tuple(order[spelling[word]] for word in words)


def divide_by_split(
    names: Sequence[str], labels: Sequence[int], split: Sequence[str], *, path: Path
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the classes whose rows say train and those whose rows say test.

    Raise ValueError if a class has rows of both.
    """
    train, test = (
        {label for label, word in zip(labels, split, strict=True) if word == side}
        for side in SPLITS
    )
    if both := train & test:
        raise ValueError(
            f"The class '{names[min(both)]}' is in train and in test ({len(both)} such classes in "
            f"{path}): a closed-set split cannot be used, since the classes that are tested must "
            f"be new; give each class one side, or leave split out."
        )
    return tuple(sorted(train)), tuple(sorted(test))


def read_split(word: str, where: str) -> str:
    """Return train or test, in any letter case. Raise ValueError for another word."""
    if word.lower() not in SPLITS:
        raise ValueError(
            f"In {where}, split is '{word}', but can be train or test; validation classes are "
            f"taken from train."
        )
    return word.lower()


def choose_halves(listing: Listing, train: Sequence[str], test: Sequence[str]) -> Listing:
    """Return the listing with the halves that the user lists, if any.

    With one list, all other classes are the other half. With two lists, a class in neither is not
    used. Raise ValueError if a half has fewer than two classes.
    """
    if train or test:
        first, second = ([_label(listing, name) for name in names] for names in (train, test))
        if both := set(first) & set(second):
            raise ValueError(
                f"The class '{listing.names[min(both)]}' is in train_classes and in test_classes; "
                f"a class has one side."
            )
        rest = set(range(len(listing.names))) - set(first) - set(second)
        train_ids, test_ids = (tuple(sorted(set(ids) or rest)) for ids in (first, second))
    else:
        train_ids, test_ids = listing.train, listing.test
    for side, ids in (("train on", train_ids), ("test", test_ids)):
        if len(ids) < MIN_CLASSES // 2:
            raise ValueError(
                f"{listing.root} has {len(ids)} classes to {side} of {len(listing.names)}, but at "
                f"least two are needed."
            )
    return replace(listing, train=train_ids, test=test_ids)


def _label(listing: Listing, name: str) -> int:
    """Return the label of a class. Unlike pick(), do not print every name: there may be many."""
    wanted = normalize("NFC", name)
    if wanted in listing.names:
        return listing.names.index(wanted)
    near = get_close_matches(wanted, listing.names, n=1, cutoff=0.5)
    raise ValueError(
        f"There is no class '{name}' in {listing.root}."
        + (f" Did you mean '{near[0]}'?" if near else "")
    )


def train_flags(
    dataset_ref: DatasetRef, labels: NDArray[np.int64], *, root: Path, files: Sequence[str]
) -> NDArray[np.bool_]:
    """Return which images train: those of the official lists, or a share of every class.

    Raise ValueError unless every class has images on both sides.
    """
    if dataset_ref.train_share is None:
        trains = _listed(dataset_ref.dataset, root, files)
    else:
        trains = _drawn(labels, dataset_ref.train_share, dataset_ref.share_seed)
    sides = [set(labels[trains].tolist()), set(labels[~trains].tolist())]
    if lost := sides[0] ^ sides[1]:
        raise ValueError(
            f"closed_set divides the images of every class of {dataset_ref.dataset}, so a class "
            f"needs two images or more, but class {min(lost)} has one side only; leave it out."
        )
    return trains


def _drawn(labels: NDArray[np.int64], share: float, seed: int) -> NDArray[np.bool_]:
    """Return this share of every class, and at least one image on either side."""
    trains = np.zeros(len(labels), dtype=bool)
    order = np.argsort(labels, kind="stable")
    starts = np.flatnonzero(np.diff(labels[order], prepend=-1))
    for mine in np.split(order, starts[1:]):
        count = min(max(1, round(share * len(mine))), len(mine) - 1)
        trains[Random(f"{seed} {labels[mine[0]]}").sample(mine.tolist(), max(0, count))] = True
    return trains


def _listed(dataset: str, root: Path, files: Sequence[str]) -> NDArray[np.bool_]:
    """Return which files train by the lists that come with the dataset."""
    info = DATASETS[dataset]
    assert info.closed_train_images, "the study's protocol gives the others a share"
    paths, flags = (_pairs(root / name) for name in LISTS)
    trains = {f"images/{paths.get(image)}": flag == "1" for image, flag in flags.items()}
    counted = sum(trains.values())
    if (counted, len(trains)) != (info.closed_train_images, info.images):
        raise ValueError(
            f"{root / LISTS[1]} must list {info.closed_train_images:,} train images of "
            f"{info.images:,}, but lists {counted:,} of {len(trains):,}; take the original archive."
        )
    return np.array([trains[file] for file in files])


def _pairs(path: Path) -> dict[str, str]:
    """Return the lines `number text` of a list."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return dict(line.split(maxsplit=1) for line in lines if line.strip())
    except (OSError, ValueError):
        raise ValueError(
            f"closed_set needs {path}, which cannot be read; take the original archive, or write "
            f"closed_set:0.5 to draw half of every class's images."
        ) from None
