"""The official layouts on disk: CUB_200_2011, car_ims and its mirror, Stanford_Online_Products."""

import csv
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Listing:
    """Which images belong to which class, and which classes to which half; no image has been opened."""

    root: Path
    files: tuple[str, ...]  # below root
    labels: tuple[int, ...]  # 0 .. len(names) - 1
    names: tuple[str, ...]
    train: tuple[int, ...]
    test: tuple[int, ...]
    ignored: tuple[str, ...] = ()

    def images(self, classes: Iterable[int]) -> int:
        return int(np.isin(self.labels, list(classes)).sum())


def read_layout(name: str, folder: Path, train_classes: int) -> Listing:
    """The dataset that lies in folder, or a folder or two further down. ValueError: what is there instead."""
    return LAYOUTS[name](folder, train_classes)


def _cub200(folder: Path, train_classes: int) -> Listing:
    # train_test_split.txt is never opened: it cuts every class in two, which is the closed-set task.
    lists = ("classes.txt", "images.txt", "image_class_labels.txt")
    root = _holding(folder, *lists, "images")
    if root is None:
        raise ValueError(_not_cub200(folder, lists))
    names = _pairs(root / "classes.txt")
    paths = _pairs(root / "images.txt")
    classes = _pairs(root / "image_class_labels.txt")
    if paths.keys() != classes.keys():
        lost = min(paths.keys() ^ classes.keys())
        raise ValueError(f"Image {lost} is in only one of images.txt and image_class_labels.txt of {root}.")
    unknown = next((image for image in classes if not classes[image].isdigit() or int(classes[image]) not in names), None)
    if unknown is not None:
        raise ValueError(f"{root / 'image_class_labels.txt'} gives image {unknown} the class {classes[unknown]}, which classes.txt lacks.")
    order = {number: label for label, number in enumerate(sorted(names))}
    return _listing(
        root,
        files=[f"images/{paths[image]}" for image in sorted(paths)],
        labels=[order[int(classes[image])] for image in sorted(paths)],
        names=[names[number] for number in order],
        train_classes=train_classes,
    )


def _not_cub200(folder: Path, lists: Iterable[str]) -> str:
    if (_holding(folder, "lists/files.txt") or _holding(folder, "lists/classes.txt")) is not None:
        return f"{folder} holds CUB-200 of 2010, with 6,033 images; cub200 is CUB-200-2011, with 11,788: CUB_200_2011.tgz."
    cut = next(
        (place for place in _places(folder) if all(any((place / half).glob("[0-9][0-9][0-9].*")) for half in ("train", "test"))), None
    )
    if cut is not None:
        return (
            f"{cut} is a copy of CUB-200-2011 that was cut by train_test_split.txt into train (5,994) and test (5,794), the closed-set "
            "split; its lists are gone. Take the original archive, CUB_200_2011.tgz."
        )
    near = _holding(folder, "images.txt") or _holding(folder, "images") or folder
    missing = ", ".join(name for name in (*lists, "images") if not (near / name).exists())
    return f"{near} is not CUB_200_2011: it lacks {missing}."


def _cars196(folder: Path, train_classes: int) -> Listing:
    root = _holding(folder, "cars_annos.mat")
    if root is not None:
        return _cars_original(root, train_classes)
    mirror = next((place for place in _places(folder) if _folders(place / "train") and _folders(place / "test")), None)
    if mirror is not None:
        return _cars_mirror(mirror, train_classes)
    halves = [name for name in ("cars_train", "cars_test", "train", "test") if _holding(folder, name) is not None]
    if halves:
        raise ValueError(
            f"{folder} holds only {' and '.join(halves)} of the closed-set split, and no folder per class; "
            "cars196 needs car_ims with cars_annos.mat, or the mirror whose train and test have a folder per class."
        )
    raise ValueError(f"{folder} is not Cars-196: there is no car_ims with cars_annos.mat, and no train and test with a folder per class.")


def _cars_original(root: Path, train_classes: int) -> Listing:
    from scipy.io import loadmat

    path = root / "cars_annos.mat"
    try:
        content = loadmat(path, squeeze_me=True)
        annotations, names = np.atleast_1d(content["annotations"]), np.atleast_1d(content["class_names"])
        files = [str(file) for file in annotations["relative_im_path"]]
        classes = [int(number) for number in annotations["class"]]  # counted from 1; its field `test` is the closed-set split
    except Exception as error:  # scipy raises anything on a damaged file
        raise ValueError(f"{path} cannot be read as the annotations of Cars-196 ({type(error).__name__}: {error}).") from None
    wrong = next((file for file, number in zip(files, classes, strict=True) if not 1 <= number <= len(names)), None)
    if wrong is not None:
        raise ValueError(f"{path} gives {wrong} a class outside of 1 to {len(names)}.")
    labels = [number - 1 for number in classes]
    return _listing(root, files=files, labels=labels, names=[str(name) for name in names], train_classes=train_classes)


def _cars_mirror(root: Path, train_classes: int) -> Listing:
    """train/ and test/ are the closed-set split; together they are the dataset. Image names repeat between the two."""
    folders = {place.name for half in ("train", "test") for place in _folders(root / half)}
    book = next((place / "names.csv" for place in (root, *root.parents[:2]) if (place / "names.csv").is_file()), None)
    if book is None:
        raise ValueError(
            f"{root} has no names.csv beside it, which holds the official order of the 196 classes (the alphabet's is another); "
            "put the one that comes with the mirror there."
        )
    names = _names(book)
    order = {name.replace("/", "-"): label for label, name in enumerate(names)}  # 'Ram C/V' is the folder 'Ram C-V'
    if strange := folders ^ order.keys():
        raise ValueError(f"The folders in {root} and the names in {book} differ: '{min(strange)}' is in only one of them.")
    found = sorted(
        (order[place.name], file.relative_to(root).as_posix())
        for half in ("train", "test")
        for place in _folders(root / half)
        for file in place.iterdir()
        if file.suffix.lower() in (".jpg", ".jpeg") and not file.name.startswith(".")
    )
    return _listing(root, files=[file for _, file in found], labels=[label for label, _ in found], names=names, train_classes=train_classes)


def _names(book: Path) -> list[str]:
    with book.open(encoding="utf-8-sig", newline="") as file:
        return [row[0].strip() for row in csv.reader(file) if row]


def _sop(folder: Path, train_classes: int) -> Listing:
    """The halves are those of the two lists (they are not equal), not those of a count."""
    lists = ("Ebay_train.txt", "Ebay_test.txt")
    root = _holding(folder, *lists)
    if root is None:
        near = next((place for name in lists if (place := _holding(folder, name))), folder)
        missing = " and ".join(name for name in lists if not (near / name).exists())
        raise ValueError(f"{near} is not Stanford_Online_Products: it lacks {missing}.")
    train, test = (list(_products(root / name)) for name in lists)
    if both := {number for number, _ in train} & {number for number, _ in test}:
        raise ValueError(f"Class {min(both)} is in both {lists[0]} and {lists[1]} of {root}; the halves must share no class.")
    order = {number: label for label, number in enumerate(sorted({number for number, _ in (*train, *test)}))}
    names = {order[number]: f"{Path(file).parent.name.removesuffix('_final')} {number}" for number, file in (*train, *test)}
    return Listing(
        root,
        files=tuple(file for _, file in (*train, *test)),
        labels=tuple(order[number] for number, _ in (*train, *test)),
        names=tuple(names[label] for label in sorted(names)),
        train=tuple(sorted({order[number] for number, _ in train})),
        test=tuple(sorted({order[number] for number, _ in test})),
    )


def _products(path: Path) -> Iterator[tuple[int, str]]:
    """image_id class_id super_class_id path, below a header."""
    for number, line in enumerate(_lines(path), start=1):
        parts = line.split(maxsplit=3)
        if number == 1 and parts[:2] == ["image_id", "class_id"]:
            continue
        if len(parts) != 4 or not parts[1].isdigit():
            raise ValueError(f"Line {number} of {path} is not 'image_id class_id super_class_id path': {line!r}.")
        yield int(parts[1]), parts[3]


def _pairs(path: Path) -> dict[int, str]:
    """number text, one pair a line."""
    pairs: dict[int, str] = {}
    for at, line in enumerate(_lines(path), start=1):
        number, _, text = line.partition(" ")
        if not number.isdigit() or not text:
            raise ValueError(f"Line {at} of {path} is not a number and a text: {line!r}.")
        if int(number) in pairs:
            raise ValueError(f"Line {at} of {path} repeats the number {number}.")
        pairs[int(number)] = text.strip()
    return pairs


def _lines(path: Path) -> list[str]:
    try:
        return [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8.") from None


def _listing(root: Path, *, files: Iterable[str], labels: Iterable[int], names: Iterable[str], train_classes: int) -> Listing:
    """Halves by the order of the classes."""
    names = tuple(names)
    return Listing(
        root, tuple(files), tuple(labels), names, tuple(range(len(names)))[:train_classes], tuple(range(train_classes, len(names)))
    )


def _holding(folder: Path, *names: str) -> Path | None:
    """The first place that holds all of these."""
    return next((place for place in _places(folder) if all((place / name).exists() for name in names)), None)


def _places(folder: Path) -> Iterator[Path]:
    """The folder, its folders and theirs."""
    nearer = _folders(folder)
    return chain([folder], nearer, chain.from_iterable(map(_folders, nearer)))


def _folders(folder: Path) -> list[Path]:
    """Those that are not hidden, in order."""
    if not folder.is_dir():
        return []
    return sorted(place for place in folder.iterdir() if not place.name.startswith((".", "__MACOSX")) and place.is_dir())


LAYOUTS: dict[str, Callable[[Path, int], Listing]] = {"cub200": _cub200, "cars196": _cars196, "sop": _sop}
