"""List the datasets: what is known about each before any file is opened, and its counts."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as resources

import numpy as np
from numpy.typing import NDArray

from trainables.datasets.listing import Listing
from trainables.datasets.manifest import manifest_path

SKETCHES = resources("trainables") / "data" / "sketches.npz"


@dataclass(frozen=True)
class DatasetInfo:
    """Hold what is known about a dataset; None means that it depends on the user's files."""

    about: str
    licence: str
    classes: int | None = None
    images: int | None = None
    train_classes: int | None = None
    train_images: int | None = None
    closed_train_images: int | None = None  # of its official closed-set lists, if it has any
    recalls: tuple[int, ...] = (1, 2, 4, 8)  # the k of its papers' tables
    channels: int = 3  # 0: vectors, not images
    side: int | None = None  # pixels, where all images have one size
    pixels: Callable[[], NDArray[np.uint8]] | None = None  # shipped: (n, height, width, channels)
    needs_root: bool = False
    url: str | None = None
    checksum: str = ""
    size: str = ""  # of the download
    wanted: str = ""  # what --from takes

    @property
    def has_image_files(self) -> bool:
        """Return whether its images are decoded from files: not shipped, and no vectors."""
        return self.pixels is None and self.channels > 0

    @property
    def train(self) -> tuple[int, ...]:
        """Return the classes of the official half to train on."""
        return tuple(range(self.train_classes or 0))

    @property
    def test(self) -> tuple[int, ...]:
        """Return the classes of the official half to test on."""
        return tuple(range(self.train_classes or 0, self.classes or 0))

    @property
    def test_images(self) -> int | None:
        """Return how many images the test classes have."""
        if self.images is None or self.train_images is None:
            return None
        return self.images - self.train_images


def is_here(name: str) -> bool | None:
    """Return whether a study can use the dataset now; None if that depends on the root."""
    info = DATASETS[name]
    if info.needs_root:
        return None
    return info.pixels is not None or manifest_path(name).exists()


def how_to_get(name: str) -> str:
    """Return the command that brings the dataset here, as the second half of a sentence."""
    info = DATASETS[name]
    command = f"fairtrial data prepare {name}"
    if info.url is None:
        return (
            f"it has no working download; get {info.wanted}, then `{command} --from PATH` takes it."
        )
    return f"`{command}` fetches it ({info.size}), or takes what you have with --from PATH."


def check_counts(name: str, listing: Listing) -> None:
    """Raise ValueError unless the listing has the official numbers of classes and images.

    This guards all layouts: classes in a wrong order also give halves of other sizes.
    """
    info = DATASETS[name]
    wanted = (info.classes, info.images, info.train_images, info.test_images)
    found = (
        len(listing.names),
        len(listing.files),
        listing.images(listing.train),
        listing.images(listing.test),
    )
    if found == wanted and (listing.train, listing.test) == (info.train, info.test):
        return
    should, are = (
        f"{classes:,} classes and {images:,} images ({first:,} + {second:,})"
        for classes, images, first, second in (wanted, found)
    )
    hint = ""
    if name == "cub200" and found[1] == 6033:
        hint = " That is CUB-200 of 2010; take CUB_200_2011.tgz."
    elif found[:2] == wanted[:2]:
        hint = f" Its halves have {len(listing.train):,} and {len(listing.test):,} classes."
    raise ValueError(f"{name} has {should}, but {listing.root} has {are}.{hint}")


def _sketches() -> NDArray[np.uint8]:
    with SKETCHES.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        images: NDArray[np.uint8] = arrays["images"]
    return images[..., None]


DATASETS: dict[str, DatasetInfo] = {
    "sketches": DatasetInfo(
        about=(
            "200 classes of 60 drawings that people made in twenty seconds each, 28 x 28; ships "
            "with Fair Trial"
        ),
        licence="CC BY 4.0: the Quick, Draw! dataset, made available by Google, Inc.",
        classes=200,
        images=12_000,
        train_classes=100,
        train_images=6_000,
        channels=1,
        side=28,
        pixels=_sketches,
    ),
    "cub200": DatasetInfo(
        about=(
            "CUB-200-2011: 200 species of birds, 11,788 photos; classes 1 to 100 to train on, 101 "
            "to 200 to test"
        ),
        licence=(
            "for non-commercial research and education; the photos belong to their photographers"
        ),
        classes=200,
        images=11_788,
        train_classes=100,
        train_images=5_864,
        closed_train_images=5_994,
        url="https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
        checksum="md5:97eceeb196236b17998738112f37df78",
        size="about 1.1 GB",
        wanted="CUB_200_2011.tgz, or the folder CUB_200_2011 from it",
    ),
    "cars196": DatasetInfo(
        about=(
            "Cars-196: 196 models of cars, 16,185 photos; classes 1 to 98 to train on, 99 to 196 "
            "to test"
        ),
        licence="for non-commercial research; the photos belong to their photographers",
        classes=196,
        images=16_185,
        train_classes=98,
        train_images=8_054,
        size="about 2 GB",
        wanted=(
            "car_ims with cars_annos.mat (the original), or the mirror with car_data/train and "
            "car_data/test, one folder per class"
        ),
    ),
    "sop": DatasetInfo(
        about=(
            "Stanford Online Products: 22,634 things sold online, 120,053 photos; 11,318 classes "
            "to train on, 11,316 to test"
        ),
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
    "image_folder": DatasetInfo(
        about=(
            "your own images, one folder per class; the first half of the sorted classes to train "
            "on, or the classes that you list"
        ),
        licence="yours",
        needs_root=True,
        wanted="the folder whose folders are the classes",
    ),
    "csv": DatasetInfo(
        about=(
            "your own images, listed in a CSV file with the columns file, label and, if you like, "
            "split (train or test, by class)"
        ),
        licence="yours",
        needs_root=True,
        wanted="the CSV file with the columns file, label and, if you like, split",
    ),
    "features": DatasetInfo(
        about=(
            "your own vectors of any model, with a label each: .npz, .npy or Parquet, or a folder "
            "of one kind; no images, no backbone"
        ),
        licence="yours",
        channels=0,
        needs_root=True,
        wanted="the .npz, .npy or .parquet file, or the folder of such files",
    ),
}
