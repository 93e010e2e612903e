"""Open one file of features: .npz, .npy with its labels beside it, or Parquet."""

import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trainables.datasets.classes import read_split
from trainables.datasets.folders import below, csv_rows

BLOCK = 16 * 2**20  # bytes of float32 that are read at a time

Array = NDArray[Any]


class FeatureError(ValueError):
    """Report features that cannot be used; the sentence says what to change."""


@dataclass(frozen=True)
class Source:
    """Name a file of features and, for .npy, the file beside it that has the labels."""

    features: Path
    labels: Path | None = None


@dataclass(frozen=True, eq=False)
class FeatureFile:
    """Hold the shape and the columns of one file; its numbers are read a block at a time."""

    path: Path
    rows: int
    size: int  # numbers of each row
    labels: tuple[str, ...]
    split: tuple[str, ...]  # train or test; this column and those below are empty if not there
    ids: tuple[str, ...]
    pictures: tuple[str, ...]  # below the folder of the file
    blocks: Callable[[], Iterator[Array]]  # all rows in order, as they are stored
    mapped: NDArray[np.float32] | None = None  # all rows, if the file lies on disk as in memory


def open_source(source: Source) -> FeatureFile:
    """Return the file with its columns checked. Raise ValueError if it is not a set of vectors."""
    return OPENERS[source.features.suffix.lower()](source)


def _open_npz(source: Source) -> FeatureFile:
    path = source.features
    with _readable(path), zipfile.ZipFile(path) as archive:
        members = {name.removesuffix(".npy") for name in archive.namelist()}
    _check_present(path, "array", ("features", "labels"), members)

    def member(name: str) -> Array:
        with _readable(path), zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
            _header(path, name, file)  # refuses objects
        with _readable(path), np.load(path, allow_pickle=False) as arrays:
            array: Array = arrays[name]
        return array

    with _readable(path), zipfile.ZipFile(path) as archive, archive.open("features.npy") as file:
        shape, dtype, _ = _header(path, "features", file)
    rows, size = _check_matrix(path, shape, dtype)
    labels = member("labels")
    found = {name: member(name) for name in ("split", "ids") if name in members}
    return FeatureFile(
        path,
        rows,
        size,
        labels=_check_labels(
            path, _named(path, labels, member("names")) if "names" in members else labels, rows
        ),
        split=_split(path, _words(path, "split", found.get("split"), rows)),
        ids=_words(path, "ids", found.get("ids"), rows),
        pictures=(),
        blocks=lambda: _slices(member("features"), size),
    )


def _open_npy(source: Source) -> FeatureFile:
    path = source.features
    with _readable(path), path.open("rb") as file:
        shape, dtype, fortran = _header(path, "the array", file)
        offset = file.tell()
    rows, size = _check_matrix(path, shape, dtype)
    with _readable(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    assert source.labels is not None
    if source.labels.suffix == ".npy":
        with _readable(source.labels), source.labels.open("rb") as file:
            _header(source.labels, "the array", file)
        with _readable(source.labels):
            labels = np.load(source.labels, allow_pickle=False)
        columns: dict[str, Any] = {}
    else:
        lines = list(csv_rows(source.labels, needed=["label"], optional=["split", "id", "image"]))
        columns = {name: np.array([line[name] for line in lines]) for name in lines[0]}
        labels = columns["label"]
    as_memory = dtype == np.float32 and dtype.isnative and not fortran and offset % 4 == 0
    where = source.labels
    return FeatureFile(
        path,
        rows,
        size,
        labels=_check_labels(where, labels, rows),
        split=_split(where, _words(where, "split", columns.get("split"), rows)),
        ids=_words(where, "id", columns.get("id"), rows),
        pictures=_pictures(path, _words(where, "image", columns.get("image"), rows)),
        blocks=lambda: _slices(array, size),
        mapped=array if as_memory else None,
    )


def _open_parquet(source: Source) -> FeatureFile:
    from trainables.datasets.parquet import ParquetFeatures

    path = source.features
    with _readable(path):
        table = ParquetFeatures(path)
    _check_present(path, "column", ("features", "label"), table.names)
    table.check_kind()
    with _readable(path):
        size = table.size()
    _check_matrix(path, (table.rows, size), np.dtype(np.float32))
    columns = {name: table.column(name) for name in ("label", "split", "id", "image")}
    return FeatureFile(
        path,
        table.rows,
        size,
        labels=_check_labels(path, columns["label"], table.rows),
        split=_split(path, _words(path, "split", columns["split"], table.rows)),
        ids=_words(path, "id", columns["id"], table.rows),
        pictures=_pictures(path, _words(path, "image", columns["image"], table.rows)),
        blocks=lambda: _guarded(path, table.blocks(size, _block_rows(size))),
    )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn what libraries say about a damaged file into one sentence."""
    try:
        yield
    except FeatureError:
        raise
    except (OSError, EOFError, ValueError, zlib.error, zipfile.BadZipFile) as error:
        reason = " ".join(str(getattr(error, "strerror", None) or error).split()).rstrip(".")
        raise ValueError(
            f"{path} cannot be read as a {path.suffix} file ({reason}); write it again."
        ) from None


def _guarded(path: Path, blocks: Iterator[Array]) -> Iterator[Array]:
    with _readable(path):
        yield from blocks


def _header(path: Path, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], bool]:
    """Return shape, dtype and Fortran order. Objects are pickles, which run code when loaded."""
    version = np.lib.format.read_magic(file)
    readers = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    if version not in readers:
        raise ValueError(f"version {version} of the format")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise FeatureError(
            f"{path} must hold plain numbers and strings, but {name} holds Python objects, which "
            f"are never loaded, since they may run code; convert it with .astype(str) or a number "
            f"type."
        )
    return shape, dtype, fortran


def _check_present(path: Path, what: str, needed: Sequence[str], found: set[str]) -> None:
    if missing := [name for name in needed if name not in found]:
        raise ValueError(
            f"{path} needs the {what}s {' and '.join(needed)}, but has no {what} {missing[0]}, "
            f"only {', '.join(sorted(found)) or 'none'}; rename or add it."
        )


def _check_matrix(path: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> tuple[int, int]:
    if not shape or not shape[0]:
        raise ValueError(f"{path} holds no vector; give a file that does.")
    if len(shape) != 2 or not shape[1]:
        raise ValueError(
            f"{path} must hold features of the shape (vectors, numbers of each), but they have "
            f"{shape}; reshape them."
        )
    if dtype.kind not in "fiub":
        raise ValueError(
            f"{path} must hold features that are real numbers, but they are {dtype}; convert them "
            f"to float32."
        )
    return shape[0], shape[1]


def _named(path: Path, labels: Array, names: Array) -> Array:
    """Return the class names that integer labels count."""
    if labels.ndim != 1 or names.ndim != 1 or labels.dtype.kind not in "iu" or not labels.size:
        raise ValueError(
            f"With names, {path} needs labels that are integers, but they are {labels.dtype} of "
            f"the shape {labels.shape}; leave names out."
        )
    if labels.min() < 0 or labels.max() >= len(names):
        raise ValueError(
            f"{path} has {len(names)} names, so labels go from 0 to {len(names) - 1}, but they go "
            f"from {labels.min()} to {labels.max()}; correct them, or leave names out."
        )
    if len(set(names.tolist())) < len(names):
        raise ValueError(f"{path} has two classes of one name in names; rename one.")
    return names[labels]


def _check_labels(path: Path, labels: Array | None, rows: int) -> tuple[str, ...]:
    words = _words(path, "labels", labels, rows)
    if not all(map(str.strip, words)):
        row = next(row for row, word in enumerate(words) if not word.strip())
        raise ValueError(
            f"Every vector of {path} needs a label, but that of row {row} (from 0) is empty; fill "
            f"it, or leave the row out."
        )
    return words


def _words(path: Path, name: str, column: Array | None, rows: int) -> tuple[str, ...]:
    """Return the column as strings, one for each row; none if there is no such column."""
    if column is None:
        return ()
    if column.ndim != 1 or column.dtype.kind not in "iuU":
        raise ValueError(
            f"{name} in {path} must be one column of integers or strings, but is {column.dtype} of "
            f"the shape {column.shape}; convert it."
        )
    if len(column) != rows:
        raise ValueError(
            f"Every vector needs one value of {name}, but there are {rows:,} vectors and "
            f"{len(column):,} values in {path}; they must belong to the same rows."
        )
    return tuple(map(str, column.tolist()))


def _split(path: Path, words: tuple[str, ...]) -> tuple[str, ...]:
    known = {word: read_split(word, str(path)) for word in sorted(set(words))}
    return tuple(known[word] for word in words)


def _pictures(path: Path, words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(below(path.parent, word) for word in words)


def _slices(array: Array, size: int) -> Iterator[Array]:
    step = _block_rows(size)
    return (array[start : start + step] for start in range(0, len(array), step))


def _block_rows(size: int) -> int:
    return max(1, BLOCK // (4 * size))


OPENERS: dict[str, Callable[[Source], FeatureFile]] = {
    ".npz": _open_npz,
    ".npy": _open_npy,
    ".parquet": _open_parquet,
}
