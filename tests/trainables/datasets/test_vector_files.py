"""Every kind of file gives the same vectors, and what is no set of vectors is one sentence."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import vectors as files
from trainables.contract import DatasetRef
from trainables.datasets.indexing import index
from trainables.datasets.vectors import read_vectors

ROWS, LABELS = files.sample()
IDS = [f"bird {row}" for row in range(len(ROWS))]
SPLIT = ["train" if label < "f" else "TEST" for label in LABELS]


def read(path: Path):
    return read_vectors(DatasetRef("features", str(path)))


@pytest.mark.parametrize("kind", files.WRITERS)
def test_every_kind_of_file_gives_the_same_vectors(kind, tmp_path):
    found = read(files.write(kind, tmp_path, ROWS, label=LABELS, split=SPLIT, id=IDS))
    assert np.array_equal(found.rows, ROWS)
    assert found.rows.dtype == np.float32
    assert found.labels == tuple(LABELS)
    assert found.split == tuple(map(str.lower, SPLIT))
    assert found.ids == tuple(IDS)
    assert found.root == tmp_path


def test_the_index_is_the_same_whatever_file_holds_the_vectors(tmp_path):
    marks = {
        index(
            DatasetRef("features", str(files.write(kind, tmp_path / kind, ROWS, label=LABELS)))
        ).fingerprint
        for kind in files.WRITERS
    }
    assert len(marks) == 1


@pytest.mark.parametrize("kind", files.WRITERS)
def test_a_folder_of_files_is_read_in_the_order_of_their_names(kind, tmp_path):
    for start, stem in ((10, "b"), (0, "a")):
        part = slice(start, start + 10)
        files.write(kind, tmp_path, ROWS[part], stem=stem, label=LABELS[part], id=IDS[part])
    (tmp_path / "README.txt").write_text("beside them")
    (tmp_path / ".hidden.npz").write_text("")
    found = read(tmp_path)
    assert np.array_equal(found.rows, ROWS)
    assert (found.labels, found.ids) == (tuple(LABELS), tuple(IDS))
    assert found.root == tmp_path


@pytest.mark.parametrize("kind", files.WRITERS)
@pytest.mark.parametrize("dtype", ["float64", "int16", "uint8", "float16"])
def test_other_numbers_become_float32(kind, dtype, tmp_path):
    numbers = (np.abs(ROWS) * 10 + 1).astype(dtype)
    found = read(files.write(kind, tmp_path, numbers, label=LABELS))
    assert found.rows.dtype == np.float32
    assert np.array_equal(found.rows, numbers.astype(np.float32))


@pytest.mark.parametrize("beside", ["birds.labels.npy", "birds.csv", "labels.npy", "labels.csv"])
def test_labels_lie_beside_an_npy_file(beside, tmp_path):
    np.save(tmp_path / "birds.npy", ROWS)
    if beside.endswith(".npy"):
        np.save(tmp_path / beside, np.array(LABELS))
    else:
        (tmp_path / beside).write_text("\n".join(["label", *LABELS]))
    assert read(tmp_path / "birds.npy").labels == tuple(LABELS)
    assert read(tmp_path).labels == tuple(LABELS)


def test_labels_named_after_the_file_come_before_others(tmp_path):
    files.write("npy", tmp_path, ROWS, label=LABELS)
    np.save(tmp_path / "labels.npy", np.zeros(3))
    assert read(tmp_path / "birds.npy").labels == tuple(LABELS)


def test_integer_labels_sort_by_value_and_names_give_them_words(tmp_path):
    numbers = np.array([files.NAMES.index(label) for label in LABELS])
    np.savez(tmp_path / "a.npz", features=ROWS, labels=numbers * 7)
    names = index(DatasetRef("features", str(tmp_path / "a.npz"))).names
    assert names == ("0", "7", "14", "21", "28")
    np.savez(tmp_path / "b.npz", features=ROWS, labels=numbers, names=np.array(files.NAMES))
    assert read(tmp_path / "b.npz").labels == tuple(LABELS)


def test_a_fortran_ordered_or_swapped_array_is_read_as_it_was_meant(tmp_path):
    for name, array in (("f", np.asfortranarray(ROWS)), ("s", ROWS.astype(">f4"))):
        found = read(files.write("npy", tmp_path, array, stem=name, label=LABELS))
        assert np.array_equal(found.rows, ROWS)
        assert found.rows.flags.c_contiguous
        assert found.rows.dtype.isnative


@pytest.mark.parametrize("values", [pa.dictionary(pa.int32(), pa.string()), pa.large_string()])
def test_parquet_labels_may_be_categories(values, tmp_path):
    table = pa.table({"features": pa.array(list(ROWS)), "label": pa.array(LABELS).cast(values)})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read(tmp_path / "x.parquet").labels == tuple(LABELS)


def test_pictures_are_relative_to_the_file(tmp_path):
    pictures = [f"photos/{row}.jpg" for row in range(len(ROWS) - 1)] + ["/else/where.jpg"]
    for kind in ("npy", "parquet"):
        found = read(files.write(kind, tmp_path, ROWS, label=LABELS, image=pictures))
        assert found.pictures == tuple(pictures)


def changed(row: int, value: float) -> np.ndarray:
    rows = ROWS.copy()
    rows[row] = value
    return rows


def _npz(**arrays):
    return lambda folder: np.savez(folder / "x.npz", **arrays)


def _table(**columns):
    return lambda folder: pq.write_table(pa.table(columns), folder / "x.parquet")


def _npy(rows, labels=LABELS, name="x.labels.npy"):
    def write(folder):
        np.save(folder / "x.npy", rows)
        np.save(folder / name, np.array(labels))

    return write


def _kind(kind, rows, **columns):
    return lambda folder: files.write(kind, folder, rows, stem="x", label=LABELS, **columns)


def _text(name, text="no such format"):
    return lambda folder: (folder / name).write_text(text)


def _several(*writes):
    return lambda folder: [write(folder) for write in writes]


LISTS = pa.array(list(ROWS))
BAD = {
    "nothing there": (lambda folder: folder.rmdir(), "", "There is no file or folder"),
    "unknown extension": (_text("x.pkl"), "x.pkl", r"takes a .npz, .npy or .parquet file .*x\.pkl"),
    "empty folder": (lambda folder: None, "", "has no .npz, .npy or .parquet file"),
    "two kinds": (
        _several(_npz(features=ROWS, labels=LABELS), _table(features=LISTS, label=LABELS)),
        "",
        r"must be of one kind, but .* has \.npz and \.parquet; keep one",
    ),
    "not a zip": (_text("x.npz"), "x.npz", r"cannot be read as a \.npz file \(.*\); write it"),
    "not an array": (_text("x.npy"), "x.npy", "needs its labels beside it: x.labels.npy or x.csv"),
    "damaged array": (
        _several(_text("x.npy"), _text("x.csv", "label\na")),
        "x.npy",
        r"cannot be read as a \.npy file",
    ),
    "cut array": (
        _several(
            _npy(ROWS),
            lambda folder: (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-9]),
        ),
        "x.npy",
        r"cannot be read as a \.npy file",
    ),
    "not parquet": (_text("x.parquet"), "x.parquet", r"cannot be read as a \.parquet file"),
    "empty file": (_text("x.npz", ""), "x.npz", r"cannot be read as a \.npz file"),
    "no array labels": (
        _npz(features=ROWS, label=LABELS),
        "x.npz",
        "needs the arrays features and labels, but has no array labels, only features, label;",
    ),
    "no column features": (
        _table(vectors=LISTS, label=LABELS),
        "x.parquet",
        "needs the columns features and label, but has no column features, only label, vectors;",
    ),
    "no labels for several": (
        _several(_npy(ROWS, name="labels.npy"), lambda folder: np.save(folder / "y.npy", ROWS)),
        "",
        r"x\.npy needs its labels beside it: x\.labels\.npy or x\.csv, but there is none",
    ),
    "labels twice": (
        _several(_npy(ROWS), _text("x.csv", "label\na")),
        "",
        r"labels in one file, but x\.labels\.npy and x\.csv are beside it; remove one",
    ),
    "one axis": (_npy(ROWS[:, 0]), "x.npy", r"shape \(vectors, .*, but they have \(20,\)"),
    "three axes": (
        _npz(features=ROWS[..., None], labels=LABELS),
        "x.npz",
        r"but they have \(20, 6, 1\); reshape them",
    ),
    "no numbers": (_npy(ROWS[:, :0]), "x.npy", r"but they have \(20, 0\)"),
    "no rows": (_npz(features=ROWS[:0], labels=LABELS[:0]), "x.npz", "holds no vector"),
    "no rows in a table": (
        _table(features=pa.array([], pa.list_(pa.float32())), label=pa.array([], pa.string())),
        "x.parquet",
        "holds no vector",
    ),
    "words as features": (
        _npz(features=ROWS.astype(str), labels=LABELS),
        "x.npz",
        "features that are real numbers, but they are <U",
    ),
    "complex features": (_npy(ROWS * 1j), "x.npy", "real numbers, but they are complex"),
    "words in lists": (
        _table(features=pa.array([["a"]] * 20), label=LABELS),
        "x.parquet",
        "must have lists of numbers, but has list",
    ),
    "numbers, not lists": (
        _table(features=ROWS[:, 0], label=LABELS),
        "x.parquet",
        "must have lists of numbers, but has float",
    ),
    "lists of two sizes": (
        _table(features=pa.array([*ROWS[:-1], ROWS[-1, :4]]), label=LABELS),
        "x.parquet",
        "the same size, but row 0 has 6 numbers and row 19 has 4;",
    ),
    "a missing list": (
        _table(features=pa.array([*ROWS[:-1], None]), label=LABELS),
        "x.parquet",
        "row 0 has 6 numbers and row 19 has 0;",
    ),
    "a missing number": (
        _table(features=pa.array([*ROWS[:-1].tolist(), [1, 2, None, 4, 5, 6]]), label=LABELS),
        "x.parquet",
        "1 of 20 in .* hold NaN or infinity .the first is row 19",
    ),
    "a missing label": (
        _table(features=LISTS, label=[*LABELS[:-1], None]),
        "x.parquet",
        "label of .* a value in every row, but 1 of 20 are null",
    ),
    "an empty label": (
        _npz(features=ROWS, labels=[*LABELS[:-1], " "]),
        "x.npz",
        "needs a label, but that of row 19 .from 0. is empty",
    ),
    "fewer labels": (
        _npz(features=ROWS, labels=LABELS[:-1]),
        "x.npz",
        "there are 20 vectors and 19 values in",
    ),
    "more lines": (
        _several(_npy(ROWS, name="y.labels.npy"), _text("x.csv", "label\n" + "a\n" * 21)),
        "x.npy",
        r"there are 20 vectors and 21 values in .*x\.csv",
    ),
    "labels in a table": (
        _npz(features=ROWS, labels=np.zeros((20, 5), int)),
        "x.npz",
        r"integers or strings, but is int64 of the shape \(20, 5\)",
    ),
    "labels with fractions": (
        _npz(features=ROWS, labels=np.arange(20.0)),
        "x.npz",
        "labels in .* integers or strings, but is float64",
    ),
    "objects as labels": (
        _npz(features=ROWS, labels=np.array(LABELS, dtype=object)),
        "x.npz",
        "labels holds Python objects, which are never loaded",
    ),
    "objects as features": (
        _npy(ROWS.astype(object)),
        "x.npy",
        "holds Python objects, which are never loaded",
    ),
    "objects beside": (
        _npy(ROWS, np.array(LABELS, dtype=object)),
        "x.npy",
        r"x\.labels\.npy must hold plain .* Python objects",
    ),
    "names and words": (
        _npz(features=ROWS, labels=LABELS, names=files.NAMES),
        "x.npz",
        "With names, .* integers, but they are <U",
    ),
    "a label without a name": (
        _npz(features=ROWS, labels=np.arange(20), names=files.NAMES),
        "x.npz",
        "5 names, so labels go from 0 to 4, but they go from 0 to 19",
    ),
    "a name twice": (
        _npz(features=ROWS, labels=np.arange(20) % 5, names=["a"] * 5),
        "x.npz",
        "two classes of one name",
    ),
    "NaN": (
        _kind("npy", changed(3, np.nan)),
        "x.npy",
        "1 of 20 in .* hold NaN or infinity .the first is row 3",
    ),
    "infinity": (_kind("npz", changed(4, np.inf)), "x.npz", "NaN or infinity .the first is row 4"),
    "zeros": (_kind("parquet", changed(5, 0)), "x.parquet", "are zero .the first is row 5"),
    "beyond float32": (
        _kind("npz", changed(6, 1.0).astype(np.float64) * 1e300),
        "x.npz",
        "20 of 20 in .* are too long for float32 .*; divide all vectors",
    ),
    "another split": (
        _kind("npz", ROWS, split=["val", *SPLIT[1:]]),
        "x.npz",
        "split is 'val', but can be train or test",
    ),
    "one class": (
        _npz(features=ROWS, labels=["a"] * 20),
        "x.npz",
        r"has 1 class \(a\), but two to train on and two to test",
    ),
    "three classes": (
        _npz(features=ROWS, labels=np.arange(20) % 3),
        "x.npz",
        r"has 3 classes \(0, 1, 2\), but two to train on",
    ),
    "a class in both splits": (
        _kind("parquet", ROWS, split=["train", "test"] * 10),
        "x.parquet",
        r"The class 'dove' is in train and in test .* give each class one side",
    ),
    "one class to test": (
        _kind("npz", ROWS, split=["test" if label == "gull" else "train" for label in LABELS]),
        "x.npz",
        "has 1 classes to test of 5, but at least two",
    ),
    "unknown column": (
        _kind("npy", ROWS, group=LABELS),
        "x.npy",
        "must begin with the columns label or label,split,id,image, but begins with 'label,group'",
    ),
    "two sizes": (
        _several(
            _npz(features=ROWS, labels=LABELS),
            lambda folder: files.write("npz", folder, ROWS[:, :4], stem="y", label=LABELS),
        ),
        "",
        r"have 6 numbers and those of .*y\.npz 4;",
    ),
    "split in one only": (
        _several(
            _npz(features=ROWS, labels=LABELS),
            lambda folder: files.write("npz", folder, ROWS, stem="y", label=LABELS, split=SPLIT),
        ),
        "",
        r"only some have split: compare x\.npz and y\.npz",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_set_of_vectors_is_refused_with_one_sentence(case, tmp_path, own_home):
    write, name, sentence = BAD[case]
    folder = tmp_path / "Vögel"
    folder.mkdir()
    write(folder)
    with pytest.raises(ValueError, match=sentence) as error:
        index(DatasetRef("features", str(folder / name)))
    text = str(error.value)
    assert type(error.value).__module__ in ("builtins", "trainables.datasets.vector_files")
    assert "\n" not in text
    assert text.endswith(".")
    assert re.search("Vögel", text)
    assert not list(own_home.glob("vectors/*.unfinished"))


class Evil:
    """Leaves a file when it is unpickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_no_pickle_is_ever_loaded(name, tmp_path):
    trap = tmp_path / "sprung"
    evil = np.array([Evil(str(trap))] * 4, dtype=object)
    if name == "x.npy":
        np.save(tmp_path / name, ROWS)
        np.save(tmp_path / "labels.npy", evil, allow_pickle=True)
    else:
        np.savez(tmp_path / name, features=ROWS, labels=evil)
    with pytest.raises(ValueError, match="never loaded"):
        read(tmp_path / name)
    (tmp_path / "y.npz").write_bytes(pickle.dumps(Evil(str(trap))))
    with pytest.raises(ValueError, match="cannot be read"):
        read(tmp_path / "y.npz")
    assert not trap.exists()
