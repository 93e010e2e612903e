"""Name, sort and divide the classes of your own data, whatever kind of file lists them."""

import re
from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from unicodedata import normalize

from trainables.datasets.listing import Listing

MIN_CLASSES = 4  # two in each half, or nothing can be confused
SPLITS = ("train", "test")


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
