"""Images of one's own: any folder and any CSV file works, or a sentence says what is wrong."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import pytest

from tests.support import trees
from trainables.contract import DatasetRef
from trainables.datasets.folders import read_own

NAMES = ["a", "b", "c", "d"]


def folder(root: Path, **chosen: tuple[str, ...]):
    return read_own(DatasetRef("image_folder", str(root), **chosen))


def table(path: Path, *lines: str, header: str = "file,label", **chosen: tuple[str, ...]):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return read_own(DatasetRef("csv", str(path), **chosen))


def named(found, half: str) -> list[str]:
    return [found.names[label] for label in getattr(found, half)]


def test_the_first_half_of_the_sorted_classes_is_to_train_on(tmp_path):
    found = folder(trees.folders(tmp_path, ["b", "d", "a", "c"]))
    assert found.names == ("a", "b", "c", "d")
    assert (found.train, found.test) == ((0, 1), (2, 3))
    assert found.files == (
        "a/0.jpg",
        "a/1.jpg",
        "b/0.jpg",
        "b/1.jpg",
        "c/0.jpg",
        "c/1.jpg",
        "d/0.jpg",
        "d/1.jpg",
    )
    assert found.labels == (0, 0, 1, 1, 2, 2, 3, 3)


def test_of_an_odd_number_of_classes_the_smaller_half_is_to_train_on(tmp_path):
    found = folder(trees.folders(tmp_path, ["a", "b", "c", "d", "e"]))
    assert (found.train, found.test) == ((0, 1), (2, 3, 4))


def test_spaces_umlauts_and_any_script_work_and_sort_by_code_point(tmp_path):
    names = ["Zebra", "apfel", "Äpfel, rot", "日本語", 'it\'s "x"', "with space"]
    found = folder(trees.folders(tmp_path / "Größe & Maß", names))
    assert found.names == tuple(sorted(names))
    assert all((found.root / file).is_file() for file in found.files)


@pytest.mark.parametrize("odd", [b"caf\xe9", b"a/caf\xe9.jpg", b"a/caf\xe9.txt"])
def test_a_name_that_is_not_utf_8_is_refused_in_a_sentence_that_any_terminal_can_show(
    tmp_path, odd
):
    root = trees.folders(tmp_path, NAMES)
    (root / os.fsdecode(odd)).mkdir()
    with pytest.raises(
        ValueError, match=r"must be UTF-8, but 'caf\\udce9.* in .* is not; rename it"
    ) as error:
        folder(root)
    str(error.value).encode()


def test_names_are_the_same_however_the_file_system_writes_its_letters(tmp_path):
    names = ["Äa", "Ab", "Öc", "Zd"]
    composed = folder(trees.folders(tmp_path / "nfc", names))
    parted = folder(
        trees.folders(tmp_path / "nfd", [unicodedata.normalize("NFD", name) for name in names])
    )
    assert composed.names == parted.names
    assert composed.labels == parted.labels
    assert all((parted.root / file).is_file() for file in parted.files)


def test_two_folders_of_one_name_in_different_code_points_are_refused(tmp_path):
    trees.folders(tmp_path, [*NAMES, "Ä", unicodedata.normalize("NFD", "Ä")])
    with pytest.raises(ValueError, match=r"Two folders in .* have the name"):
        folder(tmp_path)


def test_nested_folders_belong_to_their_class_and_any_case_of_suffix_counts(tmp_path):
    trees.folders(tmp_path, NAMES)
    trees.jpeg(tmp_path / "a" / "2020" / "may" / "x.JPEG")
    found = folder(tmp_path)
    assert found.labels[found.files.index("a/2020/may/x.JPEG")] == 0


def test_hidden_files_are_left_out_and_files_that_are_not_images_are_listed(tmp_path):
    trees.folders(tmp_path, NAMES)
    for name in (".git/x.jpg", "a/.x.jpg", "a/.hidden/x.jpg"):
        trees.jpeg(tmp_path / name)
    (tmp_path / "a" / "notes.txt").write_text("x")
    (tmp_path / "Thumbs.db").write_text("x")
    trees.jpeg(tmp_path / "astray.jpg")
    found = folder(tmp_path)
    assert len(found.files) == 8
    assert sorted(found.ignored) == ["Thumbs.db", "a/notes.txt", "astray.jpg"]


def test_links_are_followed_but_not_in_circles(tmp_path):
    trees.folders(tmp_path / "real", NAMES)
    (tmp_path / "links").mkdir()
    for name in NAMES:
        os.symlink(tmp_path / "real" / name, tmp_path / "links" / name)
    assert folder(tmp_path / "links").files == folder(tmp_path / "real").files
    os.symlink(tmp_path / "real", tmp_path / "real" / "a" / "loop")
    with pytest.raises(ValueError, match="link to a folder around it"):
        folder(tmp_path / "real")


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda root: None, "There is no folder"),
        (lambda root: trees.jpeg(root), "is a file; image_folder takes the folder"),
        (lambda root: root.mkdir(), "it holds no folder and no image"),
        (
            lambda root: trees.jpeg(root / "x.jpg"),
            "its images lie directly in it, but there must be one folder per class",
        ),
        (
            lambda root: trees.folders(root, ["a", "b", "c"]),
            r"has 3 classes \(a, b, c\), but two to train on and two to test are needed\.$",
        ),
        (
            lambda root: trees.folders(root, ["train/a", "train/b", "test/a"]),
            r"has 2 classes \(test, train\).*They are halves, not classes",
        ),
        (
            lambda root: (trees.folders(root, NAMES), (root / "e é").mkdir()),
            "The class folder 'e é' in .* holds no image",
        ),
        (
            lambda root: (trees.folders(root, NAMES), os.symlink("gone", root / "a" / "x.jpg")),
            "is a link to a file that is gone",
        ),
    ],
)
def test_a_folder_that_is_no_dataset_is_refused_with_what_is_wrong(build, sentence, tmp_path):
    build(tmp_path / "data")
    with pytest.raises(ValueError, match=sentence):
        folder(tmp_path / "data")


def test_listed_classes_take_the_place_of_the_halves(tmp_path):
    trees.folders(tmp_path, ["a", "b", "c", "d", "é"])
    both = folder(tmp_path, train_classes=("d", "a"), test_classes=("b", "c"))
    assert (named(both, "train"), named(both, "test")) == (["a", "d"], ["b", "c"])
    assert both.names[4] == "é"  # in neither: known, not used
    assert named(folder(tmp_path, train_classes=("d", "a")), "test") == ["b", "c", "é"]
    assert named(
        folder(tmp_path, test_classes=("d", unicodedata.normalize("NFD", "é"))), "train"
    ) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        (
            {"train_classes": ("sparow", "b")},
            r"There is no class 'sparow' in .*\. Did you mean 'sparrow'\?",
        ),
        ({"test_classes": ("nothing like it",)}, r"There is no class 'nothing like it' in [^?]*$"),
        (
            {"train_classes": ("b", "c"), "test_classes": ("c", "d")},
            "The class 'c' is in train_classes and in test_classes",
        ),
        ({"train_classes": ("b",)}, "has 1 classes to train on of 4, but at least two"),
        ({"train_classes": ("b", "c", "d")}, "has 1 classes to test of 4"),
    ],
)
def test_lists_that_cannot_be_are_refused(chosen, sentence, tmp_path):
    trees.folders(tmp_path, ["sparrow", "b", "c", "d"])
    with pytest.raises(ValueError, match=sentence):
        folder(tmp_path, **chosen)


@pytest.fixture
def photos(tmp_path):
    return trees.folders(tmp_path / "Fotos ä", NAMES)


def rows(*, labels=NAMES, splits=None):
    extra = [f",{split}" for split in splits] if splits else [""] * len(labels)
    return [
        f"{name}/{i}.jpg,{label}{split}"
        for name, label, split in zip(NAMES, labels, extra, strict=True)
        for i in (1, 0)
    ]


def test_a_csv_file_lists_files_below_itself_or_anywhere(photos, tmp_path):
    found = table(photos / "list.csv", *rows())
    assert found.files[:2] == ("a/1.jpg", "a/0.jpg")  # the order of the lines
    assert (found.train, found.test) == ((0, 1), (2, 3))
    lines = [f'"{photos}/{line.split(",")[0]}",{line.split(",")[1]}' for line in rows()]
    assert table(photos / "list.csv", *lines).files == found.files
    far = table(tmp_path / "elsewhere" / "list.csv", *lines)
    assert all((far.root / file).is_file() for file in far.files)


def test_numbers_sort_as_numbers_and_words_as_words(photos):
    assert table(photos / "l.csv", *rows(labels=["10", "9", "-1", "2"])).names == (
        "-1",
        "2",
        "9",
        "10",
    )
    assert table(photos / "l.csv", *rows(labels=["10", "9", "x", "2"])).names == (
        "10",
        "2",
        "9",
        "x",
    )


def test_the_split_column_gives_the_halves_and_lists_go_before_it(photos):
    found = table(
        photos / "l.csv",
        *rows(splits=["test", "Train", "test", "train"]),
        header="\ufeffFile, label,split",
    )
    assert (named(found, "train"), named(found, "test")) == (["b", "d"], ["a", "c"])
    chosen = table(
        photos / "l.csv",
        *rows(splits=["test", "train", "test", "train"]),
        header="file,label,split",
        train_classes=("a", "b"),
    )
    assert named(chosen, "train") == ["a", "b"]


@pytest.mark.parametrize(
    ("header", "lines", "sentence"),
    [
        (
            "file;label",
            rows(),
            "must begin with the columns file,label or file,label,split, but begins with "
            "'file;label'",
        ),
        ("file,label,set", rows(splits=["train"] * 4), "begins with 'file,label,set'"),
        ("a/0.jpg,a", rows(), "must begin with the columns"),
        ("file,label", [], "lists nothing below its columns"),
        ("file,label", ["a/0.jpg"], "In line 2 of .*, every column needs a value"),
        ("file,label", ["a/0.jpg,"], "In line 2 of"),
        ("file,label", ["a/0.jpg,a,b"], "In line 2 of .* double quotes"),
        ("file,label", [*rows(), "a/0.jpg,b"], "lists 'a/0.jpg' more than once"),
        ("file,label", [*rows(), "a/../a/0.jpg,b"], "lists 'a/0.jpg' more than once"),
        (
            "file,label",
            [*rows(), "a/7 ü.jpg,a", "x.jpg,a"],
            r"lists 2 of 10 files that are not there; the first is .*a/7 ü\.jpg",
        ),
        ("file,label", rows(labels=["a", "a", "b", "b"]), "has 2 classes"),
        (
            "file,label,split",
            rows(splits=["train", "val", "test", "test"]),
            "In line 4 of .*, split is 'val', but can be train or test",
        ),
        (
            "file,label,split",
            [*rows(splits=["train", "train", "test", "test"])[1:], "a/1.jpg,a,test"],
            "The class 'a' is in train and in",
        ),
        ("file,label,split", rows(splits=["train"] * 4), "has 0 classes to test of 4"),
        ("file,label", ['"a/0.jpg,a'], "is not a valid CSV file"),
    ],
)
def test_a_csv_file_that_is_no_dataset_is_refused_with_the_line(header, lines, sentence, photos):
    with pytest.raises(ValueError, match=sentence):
        table(photos / "list.csv", *lines, header=header)


def test_a_csv_file_that_is_not_there_or_no_text_is_refused(photos):
    with pytest.raises(ValueError, match="There is no file"):
        read_own(DatasetRef("csv", str(photos / "none.csv")))
    with pytest.raises(ValueError, match="is a folder; csv takes the file"):
        read_own(DatasetRef("csv", str(photos)))
    (photos / "latin.csv").write_bytes("file,label\nä,ö\n".encode("latin-1"))
    with pytest.raises(ValueError, match="is not in UTF-8"):
        read_own(DatasetRef("csv", str(photos / "latin.csv")))
