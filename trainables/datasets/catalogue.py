"""Datasets: files, labels, class names and the official halves, checked by their counts."""

import hashlib
import posixpath
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files as resources
from pathlib import Path
from unicodedata import normalize

import numpy as np
from numpy.typing import NDArray

from search_spaces.space import pick
from trainables.contract import Origin
from trainables.datasets import manifest
from trainables.datasets.folders import read_own
from trainables.datasets.layouts import Listing

Halves = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Index:
    """What a dataset consists of; no pixel has been read."""

    root: Path
    files: tuple[str, ...]  # below root, '/' between folders (a CSV may list absolute ones); none where the pixels are shipped
    labels: NDArray[np.int64]  # of every image; indices of names
    names: tuple[str, ...]
    train: tuple[int, ...]  # classes
    test: tuple[int, ...]
    fingerprint: str  # of what the pixels are and how they are labelled, as hex
    channels: int
    ignored: tuple[str, ...] = ()  # files below root that are no images by their names, or of no class

    def ids(self, classes: Sequence[int]) -> NDArray[np.int64]:
        """The images of these classes, in file order."""
        return np.flatnonzero(np.isin(self.labels, classes))


@dataclass(frozen=True)
class Source:
    """What is known of a dataset before any file is opened. None: it depends on the user's files."""

    about: str
    licence: str
    classes: int | None = None
    images: int | None = None
    train_classes: int | None = None
    train_images: int | None = None
    recalls: tuple[int, ...] = (1, 2, 4, 8)  # the k of its papers' tables
    channels: int = 3
    side: int | None = None  # pixels, where all images have one size
    pixels: Callable[[], NDArray[np.uint8]] | None = None  # shipped: (n, height, width, channels)
    needs_root: bool = False
    url: str | None = None
    checksum: str = ""
    size: str = ""  # of the download
    wanted: str = ""  # what --from takes

    @property
    def train(self) -> tuple[int, ...]:
        return tuple(range(self.train_classes or 0))

    @property
    def test(self) -> tuple[int, ...]:
        return tuple(range(self.train_classes or 0, self.classes or 0))

    @property
    def test_images(self) -> int | None:
        return None if self.images is None or self.train_images is None else self.images - self.train_images


def halves(origin: Origin) -> Halves:
    """The classes to train on and those to test; where the halves are official, no file is needed to know them."""
    source, most = _source(origin), origin.max_classes
    if source.classes is not None:
        return source.train[:most], source.test[:most]
    found = index(origin)
    return found.train, found.test


@cache
def index(origin: Origin) -> Index:
    """What the dataset consists of, read once per process. ValueError: what is wrong where."""
    found, most = _whole(origin), origin.max_classes
    return replace(found, train=found.train[:most], test=found.test[:most])


def _whole(origin: Origin) -> Index:
    source = _source(origin)
    if source.pixels is not None:
        return _shipped(origin.dataset, source)
    if source.needs_root:
        listing = _without(read_own(origin), origin.exclude)
        return _index(listing, manifest.fingerprint([origin.dataset, _state(listing)]), source.channels)
    try:
        found = manifest.read(origin.dataset)
    except FileNotFoundError:
        raise ValueError(f"{origin.dataset} is not here yet: {how_to_get(origin.dataset)}") from None
    check_counts(origin.dataset, found.listing)
    mark = manifest.fingerprint([found.fingerprint, sorted(origin.exclude)]) if origin.exclude else found.fingerprint
    return _index(_without(found.listing, origin.exclude), mark, source.channels)


def is_here(name: str) -> bool | None:
    """Whether a study can use it now; None: that depends on the root."""
    source = DATASETS[name]
    if source.needs_root:
        return None
    return source.pixels is not None or manifest.path(name).exists()


def how_to_get(name: str) -> str:
    """The command, as the second half of a sentence."""
    source = DATASETS[name]
    if source.url is None:
        return f"it has no working download; get {source.wanted}, then `fairtrial data prepare {name} --from PATH` takes it."
    return f"`fairtrial data prepare {name}` fetches it ({source.size}), or takes what you have with --from PATH."


def check_counts(name: str, listing: Listing) -> None:
    """The guard of all layouts: a wrong order of the classes, too, gives halves of other sizes."""
    source = DATASETS[name]
    wanted = (source.classes, source.images, source.train_images, source.test_images)
    found = (len(listing.names), len(listing.files), listing.images(listing.train), listing.images(listing.test))
    if found == wanted and (listing.train, listing.test) == (source.train, source.test):
        return
    should, are = (
        f"{classes:,} classes and {images:,} images ({first:,} + {second:,})" for classes, images, first, second in (wanted, found)
    )
    hint = " That is CUB-200 of 2010; take CUB_200_2011.tgz." if name == "cub200" and found[1] == 6033 else ""
    hint = hint or (f" Its halves have {len(listing.train):,} and {len(listing.test):,} classes." if found[:2] == wanted[:2] else "")
    raise ValueError(f"{name} has {should}, but {listing.root} has {are}.{hint}")


def _source(origin: Origin) -> Source:
    source = pick(DATASETS, origin.dataset, "dataset")
    if source.needs_root and not origin.root:
        raise ValueError(f"{origin.dataset} needs --set data_root=PATH (`fairtrial data`: --root PATH): {source.wanted}.")
    if not source.needs_root and (origin.root or origin.train_classes or origin.test_classes):
        key = "root" if origin.root else "train_classes" if origin.train_classes else "test_classes"
        raise ValueError(f"{key} is for image_folder and csv; {origin.dataset} has its own place and its official halves.")
    if source.pixels is not None and origin.exclude:
        raise ValueError(f"{origin.dataset} ships without files, so exclude='{origin.exclude[0]}' can name none.")
    return source


def _index(listing: Listing, fingerprint: str, channels: int) -> Index:
    labels = np.asarray(listing.labels, dtype=np.int64)
    return Index(listing.root, listing.files, labels, listing.names, listing.train, listing.test, fingerprint, channels, listing.ignored)


def _state(listing: Listing) -> list[object]:
    """Path, label, size and time of every file; the halves."""
    stats = [(listing.root / file).stat() for file in listing.files]
    rows = [[file, label, stat.st_size, stat.st_mtime_ns] for file, label, stat in zip(listing.files, listing.labels, stats, strict=True)]
    return [rows, listing.names, listing.train, listing.test]


def _without(listing: Listing, exclude: Sequence[str]) -> Listing:
    if not exclude:
        return listing
    known = {normalize("NFC", file): file for file in listing.files}  # typed and stored letters may differ in code points
    gone = set()
    for file in exclude:
        key = normalize("NFC", posixpath.normpath(file))
        if key not in known:
            beside = [each for each in known if posixpath.basename(each) == posixpath.basename(key)]
            beside = beside or [each for each in known if posixpath.dirname(each) == posixpath.dirname(key)] or list(known)[:2000]
            near = get_close_matches(key, beside, n=1, cutoff=0.4)
            hint = f" Did you mean '{known[near[0]]}'?" if near else ""
            raise ValueError(f"exclude names '{file}', but there is no such image in {listing.root}.{hint}")
        gone.add(known[key])
    kept = [(file, label) for file, label in zip(listing.files, listing.labels, strict=True) if file not in gone]
    if emptied := set(range(len(listing.names))) - {label for _, label in kept}:
        raise ValueError(f"exclude leaves no image of the class '{listing.names[min(emptied)]}'; a class needs images.")
    files, labels = (tuple(column) for column in zip(*kept, strict=True))
    return Listing(listing.root, files, labels, listing.names, listing.train, listing.test, listing.ignored)


SKETCHES = resources("trainables") / "data" / "sketches.npz"


def _shipped(name: str, source: Source) -> Index:
    with SKETCHES.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        labels, names = arrays["labels"].astype(np.int64), tuple(map(str, arrays["names"]))
    mark = hashlib.sha256(SKETCHES.read_bytes()).hexdigest()
    if (len(names), len(labels)) != (source.classes, source.images):
        raise ValueError(f"{name} has {source.classes} classes and {source.images} images, but {len(names)} and {len(labels)} were found.")
    return Index(Path(str(SKETCHES)).parent, (), labels, names, source.train, source.test, mark, source.channels)


def _sketches() -> NDArray[np.uint8]:
    with SKETCHES.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images: NDArray[np.uint8] = arrays["images"]
    return images[..., None]


DATASETS: dict[str, Source] = {
    "sketches": Source(
        about="200 classes of 60 drawings that people made in twenty seconds each, 28 x 28; ships with Fair Trial",
        licence="CC BY 4.0: the Quick, Draw! dataset, made available by Google, Inc.",
        classes=200,
        images=12_000,
        train_classes=100,
        train_images=6_000,
        channels=1,
        side=28,
        pixels=_sketches,
    ),
    "cub200": Source(
        about="CUB-200-2011: 200 species of birds, 11,788 photos; classes 1 to 100 to train on, 101 to 200 to test",
        licence="for non-commercial research and education; the photos belong to their photographers",
        classes=200,
        images=11_788,
        train_classes=100,
        train_images=5_864,
        url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
        checksum="md5:97eceeb196236b17998738112f37df78",
        size="about 1.1 GB",
        wanted="CUB_200_2011.tgz, or the folder CUB_200_2011 from it",
    ),
    "cars196": Source(
        about="Cars-196: 196 models of cars, 16,185 photos; classes 1 to 98 to train on, 99 to 196 to test",
        licence="for non-commercial research; the photos belong to their photographers",
        classes=196,
        images=16_185,
        train_classes=98,
        train_images=8_054,
        size="about 2 GB",
        wanted="car_ims with cars_annos.mat (the original), or the mirror with car_data/train and car_data/test, one folder per class",
    ),
    "sop": Source(
        about="Stanford Online Products: 22,634 things sold online, 120,053 photos; 11,318 classes to train on, 11,316 to test",
        licence="for research; the photos belong to their sellers",
        classes=22_634,
        images=120_053,
        train_classes=11_318,
        train_images=59_551,
        recalls=(1, 10, 100, 1000),
        url="ftp://cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
        checksum="md5:7f73d41a2f44250d4779881525aea32e",
        size="about 3 GB",
        wanted="Stanford_Online_Products.zip, or the folder Stanford_Online_Products from it",
    ),
    "image_folder": Source(
        about="your own images, one folder per class; the first half of the sorted classes to train on, or the classes that you list",
        licence="yours",
        needs_root=True,
        wanted="the folder whose folders are the classes",
    ),
    "csv": Source(
        about="your own images, listed in a CSV file with the columns file, label and, if you like, split (train or test, by class)",
        licence="yours",
        needs_root=True,
        wanted="the CSV file with the columns file, label and, if you like, split",
    ),
}
