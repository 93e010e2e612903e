"""Read your own images: a folder with one folder per class, or a CSV of file, label and split."""

import csv
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from unicodedata import normalize

from trainables.contract import DatasetRef
from trainables.datasets.classes import (
    MIN_CLASSES,
    choose_halves,
    divide_by_split,
    name_classes,
    read_split,
)
from trainables.datasets.listing import Listing

# Names of folders that are halves, not classes.
SPLIT_FOLDERS = {"train", "training", "test", "testing", "val", "valid", "validation"}


def read_own(dataset_ref: DatasetRef) -> Listing:
    """Return the files, classes and halves of an image_folder or csv, or raise ValueError.

    The first half of the sorted classes is for training (with an odd number, the smaller half),
    unless the CSV has a column split or dataset_ref lists classes. With one list, all other classes
    are the other half. With two lists, a class in neither is not used.
    """
    assert dataset_ref.root is not None
    listing = READERS[dataset_ref.dataset](Path(dataset_ref.root).expanduser().absolute())
    if len(listing.names) < MIN_CLASSES:
        hint = (
            " They are halves, not classes: give the folder whose folders are the classes."
            if SPLIT_FOLDERS.issuperset(listing.names)
            else ""
        )
        names = ", ".join(listing.names)
        raise ValueError(
            f"{dataset_ref.root} has {len(listing.names)} classes ({names}), but two to train on "
            f"and two to test are needed.{hint}"
        )
    return choose_halves(listing, dataset_ref.train_classes, dataset_ref.test_classes)


def _image_folder(root: Path) -> Listing:
    if not root.is_dir():
        raise ValueError(
            f"{root} is a file; image_folder takes the folder."
            if root.exists()
            else f"There is no folder {root}."
        )
    found = list(_walk(root))
    images, ignored = (
        [file for file in found if _is_image(file) is wanted] for wanted in (True, False)
    )
    inside = [file for file in images if "/" in file]
    classes = _class_folders(root)
    if not classes:
        where = (
            "its images lie directly in it, but there must be one folder per class"
            if images
            else "it holds no folder and no image"
        )
        raise ValueError(f"{root} has no class folders: {where}.")
    full = {file.split("/")[0] for file in inside}
    empty = next((folder for folder in classes.values() if folder not in full), None)
    if empty is not None:
        raise ValueError(
            f"The class folder '{empty}' in {root} holds no image; fill it, or remove it."
        )
    names = tuple(sorted(classes))
    order = {classes[name]: label for label, name in enumerate(names)}
    outside = [file for file in images if "/" not in file]  # beside the class folders: of no class
    return Listing.in_order(
        root,
        files=inside,
        labels=[order[file.split("/")[0]] for file in inside],
        names=names,
        train_classes=len(names) // 2,
        ignored=ignored + outside,
    )


def _class_folders(root: Path) -> dict[str, str]:
    """Return the folder of each class, by its name in one spelling (NFC)."""
    classes: dict[str, str] = {}
    with os.scandir(root) as entries:
        for folder in sorted(
            entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
        ):
            if normalize("NFC", folder) in classes:
                raise ValueError(
                    f"Two folders in {root} have the name '{folder}', written with different code "
                    f"points; rename one."
                )
            classes[normalize("NFC", folder)] = folder
    return classes


def _is_image(file: str) -> bool:
    from trainables.datasets.decode import SUFFIXES

    return os.path.splitext(file)[1].lower() in SUFFIXES


def _walk(root: Path, below: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield all files that are not hidden, in the same order on any file system. Follow links."""
    here = os.path.realpath(root / below)
    if here in above:
        raise ValueError(f"{root / below} is a link to a folder around it; remove it.")
    try:
        entries = sorted(
            os.scandir(root / below), key=lambda entry: (normalize("NFC", entry.name), entry.name)
        )
    except PermissionError:
        raise ValueError(
            f"The folder {root / below} may not be read; change its permissions."
        ) from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        # No table, page or terminal could show such a name.
        if os.fsencode(entry.name) != entry.name.encode(errors="replace"):
            raise ValueError(
                f"Names of files and folders must be UTF-8, but {entry.name!a} in {root / below} "
                f"is not; rename it."
            )
        if entry.is_dir():
            yield from _walk(root, f"{below}{entry.name}/", (*above, here))
        elif not entry.is_file() and _is_image(entry.name):
            raise ValueError(
                f"{entry.path} is a link to a file that is gone, or not a file; remove it."
            )
        else:
            yield below + entry.name


def _csv_file(path: Path) -> Listing:
    if not path.is_file():
        raise ValueError(
            f"{path} is a folder; csv takes the file."
            if path.exists()
            else f"There is no file {path}."
        )
    rows = list(csv_rows(path, needed=("file", "label"), optional=("split",)))
    files = [below(path.parent, row["file"]) for row in rows]
    if twice := [file for file, count in Counter(files).items() if count > 1]:
        raise ValueError(
            f"{path} lists '{twice[0]}' more than once ({len(twice)} such files); an image has one "
            f"line."
        )
    if missing := [file for file in files if not (path.parent / file).is_file()]:
        raise ValueError(
            f"{path} lists {len(missing)} of {len(files)} files that are not there; the first is "
            f"{path.parent / missing[0]}."
        )
    names, labels = name_classes([row["label"] for row in rows])
    if "split" not in rows[0]:
        return Listing.in_order(
            path.parent, files=files, labels=labels, names=names, train_classes=len(names) // 2
        )
    train, test = divide_by_split(names, labels, [row["split"] for row in rows], path=path)
    return Listing(path.parent, tuple(files), labels, names, train, test)


def csv_rows(
    path: Path, *, needed: Sequence[str], optional: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, each with a value in every column. Raise ValueError if it lacks
    a needed column, has an unknown one, or lists nothing.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [column.strip().lower() for column in next(reader, [])]
            if (
                not set(needed) <= set(header)
                or len(set(header)) < len(header)
                or not set(header) <= {*needed, *optional}
            ):
                raise ValueError(
                    f"{path} must begin with the columns {','.join(needed)} or "
                    f"{','.join([*needed, *optional])}, but begins with {','.join(header)!r}."
                )
            count = 0
            for cells in reader:
                if cells:
                    count += 1
                    yield _row(
                        dict(zip(header, map(str.strip, cells), strict=False)),
                        len(cells) == len(header),
                        f"line {reader.line_num} of {path}",
                    )
            if not count:
                raise ValueError(f"{path} lists nothing below its columns.")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8; save it as 'CSV UTF-8'.") from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a valid CSV file: {error}.") from None


def _row(row: dict[str, str], full: bool, where: str) -> dict[str, str]:
    if not full or not all(row.values()):
        raise ValueError(
            f"In {where}, every column needs a value; put a text that holds a comma in double "
            f"quotes."
        )
    if "split" in row:
        row["split"] = read_split(row["split"], where)
    return row


def below(root: Path, file: str) -> str:
    """Return the path relative to the root where possible, with '/' between folders."""
    path = Path(os.path.normpath(root / file))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


READERS: dict[str, Callable[[Path], Listing]] = {"image_folder": _image_folder, "csv": _csv_file}
