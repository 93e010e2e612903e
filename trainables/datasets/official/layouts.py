"""Read the official layouts on disk: CUB_200_2011, Cars-196 and Stanford_Online_Products."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from trainables.datasets.listing import Listing, candidates, find_holding
from trainables.datasets.official.cars196 import read_cars196


def read_layout(name: str, folder: Path, train_classes: int) -> Listing:
    """Return the dataset in this folder or up to two levels below, or raise ValueError."""
    return LAYOUTS[name](folder, train_classes)


def _cub200(folder: Path, train_classes: int) -> Listing:
    # train_test_split.txt cuts every class in two, the closed-set task; nothing here opens it.
    lists = ("classes.txt", "images.txt", "image_class_labels.txt")
    root = find_holding(folder, *lists, "images")
    if root is None:
        raise ValueError(_not_cub200(folder, lists))
    names = _pairs(root / "classes.txt")
    paths = _pairs(root / "images.txt")
    classes = _pairs(root / "image_class_labels.txt")
    if paths.keys() != classes.keys():
        lost = min(paths.keys() ^ classes.keys())
        raise ValueError(
            f"Image {lost} is in only one of images.txt and image_class_labels.txt of {root}."
        )
    for image, number in classes.items():
        if not number.isdigit() or int(number) not in names:
            raise ValueError(
                f"{root / 'image_class_labels.txt'} gives image {image} the class {number}, which "
                f"classes.txt lacks."
            )
    order = {number: label for label, number in enumerate(sorted(names))}
    return Listing.in_order(
        root,
        files=[f"images/{paths[image]}" for image in sorted(paths)],
        labels=[order[int(classes[image])] for image in sorted(paths)],
        names=[names[number] for number in order],
        train_classes=train_classes,
    )


def _not_cub200(folder: Path, lists: Iterable[str]) -> str:
    """Say what the folder holds instead of CUB_200_2011."""
    if find_holding(folder, "lists/files.txt") or find_holding(folder, "lists/classes.txt"):
        return (
            f"{folder} holds CUB-200 of 2010, with 6,033 images; cub200 is CUB-200-2011, with "
            f"11,788: CUB_200_2011.tgz."
        )
    for found in candidates(folder):
        if all(any((found / half).glob("[0-9][0-9][0-9].*")) for half in ("train", "test")):
            return (
                f"{found} is a copy of CUB-200-2011 that was cut by train_test_split.txt into "
                f"train (5,994) and test (5,794), the closed-set split; its lists are gone. Take "
                f"the original archive, CUB_200_2011.tgz."
            )
    near = find_holding(folder, "images.txt") or find_holding(folder, "images") or folder
    missing = ", ".join(name for name in (*lists, "images") if not (near / name).exists())
    return f"{near} is not CUB_200_2011: it lacks {missing}."


def _sop(folder: Path, train_classes: int) -> Listing:
    """Take the halves from the two lists, whose numbers of classes differ, not from a count."""
    lists = ("Ebay_train.txt", "Ebay_test.txt")
    root = find_holding(folder, *lists)
    if root is None:
        near = next((found for name in lists if (found := find_holding(folder, name))), folder)
        missing = " and ".join(name for name in lists if not (near / name).exists())
        raise ValueError(f"{near} is not Stanford_Online_Products: it lacks {missing}.")
    train, test = (list(_products(root / name)) for name in lists)
    if both := {number for number, _ in train} & {number for number, _ in test}:
        raise ValueError(
            f"Class {min(both)} is in both {lists[0]} and {lists[1]} of {root}; the halves must "
            f"share no class."
        )
    images = [*train, *test]
    order = {number: label for label, number in enumerate(sorted({number for number, _ in images}))}
    names = {
        order[number]: f"{Path(file).parent.name.removesuffix('_final')} {number}"
        for number, file in images
    }
    return Listing(
        root,
        files=tuple(file for _, file in images),
        labels=tuple(order[number] for number, _ in images),
        names=tuple(names[label] for label in sorted(names)),
        train=tuple(sorted({order[number] for number, _ in train})),
        test=tuple(sorted({order[number] for number, _ in test})),
    )


def _products(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (class_id, path) of each line `image_id class_id super_class_id path`."""
    for number, line in enumerate(_lines(path), start=1):
        parts = line.split(maxsplit=3)
        if number == 1 and parts[:2] == ["image_id", "class_id"]:
            continue
        if len(parts) != 4 or not parts[1].isdigit():
            raise ValueError(
                f"Line {number} of {path} is not 'image_id class_id super_class_id path': {line!r}."
            )
        yield int(parts[1]), parts[3]


def _pairs(path: Path) -> dict[int, str]:
    """Return text by number; each line holds one of each."""
    pairs: dict[int, str] = {}
    for line_number, line in enumerate(_lines(path), start=1):
        number, _, text = line.partition(" ")
        if not number.isdigit() or not text:
            raise ValueError(f"Line {line_number} of {path} is not a number and a text: {line!r}.")
        if int(number) in pairs:
            raise ValueError(f"Line {line_number} of {path} repeats the number {number}.")
        pairs[int(number)] = text.strip()
    return pairs


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8.") from None


LAYOUTS: dict[str, Callable[[Path, int], Listing]] = {
    "cub200": _cub200,
    "cars196": read_cars196,
    "sop": _sop,
}
