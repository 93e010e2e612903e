"""Images of your own: a folder with one folder per class, or a CSV file with file, label and split."""

import csv
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from unicodedata import normalize

from trainables.contract import Origin
from trainables.datasets.layouts import Listing

LEAST = 4  # classes: two on each side, or nothing can be confused
COLUMNS = ("file", "label", "split")
CUTS = {"train", "training", "test", "testing", "val", "valid", "validation"}  # folders that are no classes


def read_own(origin: Origin) -> Listing:
    """The files, classes and halves of an image_folder or csv, as they lie there now. ValueError: what is wrong where.

    The first half of the sorted classes is for training (of an odd number, the smaller half), unless the CSV has a column split or
    the origin lists classes. One list given: all other classes are the other half. Two lists given: a class in neither is not used.
    """
    assert origin.root is not None
    listing = OWN[origin.dataset](Path(origin.root).expanduser().absolute())
    if len(listing.names) < LEAST:
        hint = " They are halves, not classes: give the folder whose folders are the classes." if CUTS.issuperset(listing.names) else ""
        names = ", ".join(listing.names)
        raise ValueError(f"{origin.root} has {len(listing.names)} classes ({names}), but two to train on and two to test are needed.{hint}")
    return _chosen(listing, origin.train_classes, origin.test_classes)


def _image_folder(root: Path) -> Listing:
    if not root.is_dir():
        raise ValueError(f"{root} is a file; image_folder takes the folder." if root.exists() else f"There is no folder {root}.")
    found = list(_walk(root))
    images, ignored = ([file for file in found if _is_image(file) is wanted] for wanted in (True, False))
    inside = [file for file in images if "/" in file]
    classes: dict[str, str] = {}
    with os.scandir(root) as entries:
        for folder in sorted(entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")):
            if normalize("NFC", folder) in classes:
                raise ValueError(f"Two folders in {root} have the name '{folder}', written with different code points; rename one.")
            classes[normalize("NFC", folder)] = folder
    if not classes:
        where = "its images lie directly in it, but there must be one folder per class" if images else "it holds no folder and no image"
        raise ValueError(f"{root} has no class folders: {where}.")
    full = {file.split("/")[0] for file in inside}
    empty = next((folder for folder in classes.values() if folder not in full), None)
    if empty is not None:
        raise ValueError(f"The class folder '{empty}' in {root} holds no image; fill it, or remove it.")
    names = tuple(sorted(classes))
    order = {classes[name]: label for label, name in enumerate(names)}
    labels = tuple(order[file.split("/")[0]] for file in inside)
    astray = [file for file in images if "/" not in file]  # beside the class folders: of no class
    return _by_order(root, tuple(inside), labels, names, tuple(ignored + astray))


def _is_image(file: str) -> bool:
    from trainables.datasets.decode import SUFFIXES

    return os.path.splitext(file)[1].lower() in SUFFIXES


def _walk(root: Path, below: str = "", above: tuple[str, ...] = ()) -> Iterator[str]:
    """All files that are not hidden, by the code points of their names, on any file system the same. Links are followed."""
    here = os.path.realpath(root / below)
    if here in above:
        raise ValueError(f"{root / below} is a link to a folder around it; remove it.")
    try:
        entries = sorted(os.scandir(root / below), key=lambda entry: (normalize("NFC", entry.name), entry.name))
    except PermissionError:
        raise ValueError(f"The folder {root / below} may not be read; change its permissions.") from None
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if os.fsencode(entry.name) != entry.name.encode(errors="replace"):  # no table, page or terminal could show it
            raise ValueError(f"Names of files and folders must be UTF-8, but {entry.name!a} in {root / below} is not; rename it.")
        if entry.is_dir():
            yield from _walk(root, f"{below}{entry.name}/", (*above, here))
        elif not entry.is_file() and _is_image(entry.name):
            raise ValueError(f"{entry.path} is a link to a file that is gone, or no file; remove it.")
        else:
            yield below + entry.name


def _csv_file(path: Path) -> Listing:
    if not path.is_file():
        raise ValueError(f"{path} is a folder; csv takes the file." if path.exists() else f"There is no file {path}.")
    rows = list(_rows(path))
    files = [_below(path.parent, row["file"]) for row in rows]
    if twice := [file for file, count in Counter(files).items() if count > 1]:
        raise ValueError(f"{path} lists '{twice[0]}' more than once ({len(twice)} such files); an image has one line.")
    if missing := [file for file in files if not (path.parent / file).is_file()]:
        raise ValueError(f"{path} lists {len(missing)} of {len(files)} files that are not there; the first is {path.parent / missing[0]}.")
    words = [normalize("NFC", row["label"]) for row in rows]
    numbers = all(re.fullmatch(r"-?[0-9]+", word) for word in words)
    names = tuple(sorted(set(words), key=(lambda word: (int(word), word)) if numbers else None))
    order = {name: label for label, name in enumerate(names)}
    labels = tuple(order[word] for word in words)
    if "split" not in rows[0]:
        return _by_order(path.parent, tuple(files), labels, names)
    sides = {side: {label for label, row in zip(labels, rows, strict=True) if row["split"] == side} for side in ("train", "test")}
    if both := sides["train"] & sides["test"]:
        raise ValueError(
            f"The class '{names[min(both)]}' has images in train and in test ({len(both)} such classes in {path}): a closed-set split "
            "cannot be used, since the classes that are tested must be new; give each class one side, or leave the column out."
        )
    return Listing(path.parent, tuple(files), labels, names, tuple(sorted(sides["train"])), tuple(sorted(sides["test"])))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            header = [column.strip().lower() for column in next(reader, [])]
            if not {"file", "label"} <= set(header) or len(set(header)) < len(header) or not set(header) <= set(COLUMNS):
                raise ValueError(
                    f"{path} must begin with the columns file,label or file,label,split, but begins with {','.join(header)!r}."
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
                raise ValueError(f"{path} lists no image.")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not in UTF-8; save it as 'CSV UTF-8'.") from None
    except csv.Error as error:
        raise ValueError(f"{path} is no good CSV file: {error}.") from None


def _row(row: dict[str, str], full: bool, where: str) -> dict[str, str]:
    if not full or not all(row.values()):
        raise ValueError(f"In {where}, every column needs a value; put a text that holds a comma in double quotes.")
    if "split" in row:
        row["split"] = row["split"].lower()
        if row["split"] not in ("train", "test"):
            raise ValueError(f"In {where}, split is '{row['split']}', but can be train or test; validation classes are taken from train.")
    return row


def _below(root: Path, file: str) -> str:
    """Relative to the CSV file where it can be; '/' between folders."""
    path = Path(os.path.normpath(root / file))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _by_order(
    root: Path, files: tuple[str, ...], labels: tuple[int, ...], names: tuple[str, ...], ignored: tuple[str, ...] = ()
) -> Listing:
    classes = tuple(range(len(names)))
    border = len(names) // 2
    return Listing(root, files, labels, names, classes[:border], classes[border:], ignored)


def _chosen(listing: Listing, train: Sequence[str], test: Sequence[str]) -> Listing:
    if train or test:
        first, second = ([_label(listing, name) for name in names] for names in (train, test))
        if both := set(first) & set(second):
            raise ValueError(f"The class '{listing.names[min(both)]}' is in train_classes and in test_classes; a class has one side.")
        rest = set(range(len(listing.names))) - set(first) - set(second)
        train_ids, test_ids = (tuple(sorted(set(ids) or rest)) for ids in (first, second))
    else:
        train_ids, test_ids = listing.train, listing.test
    for side, ids in (("train on", train_ids), ("test", test_ids)):
        if len(ids) < LEAST // 2:
            raise ValueError(f"{listing.root} has {len(ids)} classes to {side} of {len(listing.names)}, but at least two are needed.")
    return Listing(listing.root, listing.files, listing.labels, listing.names, train_ids, test_ids, listing.ignored)


def _label(listing: Listing, name: str) -> int:
    """pick() would print every class; here there may be thousands."""
    wanted = normalize("NFC", name)
    if wanted in listing.names:
        return listing.names.index(wanted)
    near = get_close_matches(wanted, listing.names, n=1, cutoff=0.5)
    raise ValueError(f"There is no class '{name}' in {listing.root}." + (f" Did you mean '{near[0]}'?" if near else ""))


OWN: dict[str, Callable[[Path], Listing]] = {"image_folder": _image_folder, "csv": _csv_file}
