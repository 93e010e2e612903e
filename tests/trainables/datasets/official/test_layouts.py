"""Each official layout is recognised with its halves; each broken one is refused by name."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import trees
from trainables.contract import DatasetRef
from trainables.datasets.catalogue import DATASETS, check_counts
from trainables.datasets.indexing import halves
from trainables.datasets.official.layouts import LAYOUTS, read_layout


def read(name: str, folder: Path):
    found = read_layout(name, folder, DATASETS[name].train_classes or 0)
    check_counts(name, found)
    return found


@pytest.mark.parametrize("name", sorted(LAYOUTS))
@pytest.mark.parametrize("deeper", ["", "a b", "ä/ü"])
def test_a_miniature_is_found_from_above_and_from_inside(name, deeper, tmp_path, monkeypatch):
    tree, small = trees.TREES[name]
    small(monkeypatch)
    root = tree(tmp_path / deeper)
    above = read(name, tmp_path / deeper)
    assert above == read(name, root)
    assert all((above.root / file).is_file() for file in above.files)
    assert len(above.files) == len(above.labels) == DATASETS[name].images
    assert (above.train, above.test) == (DATASETS[name].train, DATASETS[name].test)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_the_real_counts_refuse_a_miniature_and_name_both_numbers(name, tmp_path):
    trees.TREES[name][0](tmp_path)
    with pytest.raises(ValueError, match=f"{name} has ") as error:
        read(name, tmp_path)
    assert f"{DATASETS[name].images:,} images" in str(error.value)
    assert "10 images" in str(error.value)


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_an_empty_folder_is_refused_with_what_it_lacks(name, tmp_path):
    with pytest.raises(ValueError, match=r"is not .*(lacks|there is no)"):
        read(name, tmp_path)


def test_the_official_counts_are_those_of_the_papers():
    counts = {
        name: (s.classes, s.images, len(s.train), s.train_images, len(s.test), s.test_images)
        for name, s in DATASETS.items()
    }
    assert counts["cub200"] == (200, 11_788, 100, 5_864, 100, 5_924)
    assert counts["cars196"] == (196, 16_185, 98, 8_054, 98, 8_131)
    assert counts["sop"] == (22_634, 120_053, 11_318, 59_551, 11_316, 60_502)


def test_birds_are_in_the_order_of_their_numbers_and_the_closed_set_split_is_not_read(
    tmp_path, monkeypatch
):
    trees.small_cub(monkeypatch)
    root = trees.cub(tmp_path)
    (root / "train_test_split.txt").write_bytes(b"\xff\xfe nonsense")
    found = read("cub200", tmp_path)
    assert found.names == ("001.Bird_d", "002.Bird_c", "003.Bird_b", "004.Bird_a")
    assert found.labels == (0, 1, 1, 2, 2, 2, 3, 3, 3, 3)
    assert found.files[0] == "images/001.Bird_d/001.Bird_d_0000.jpg"


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("images.txt", "1 a.jpg\n1 b.jpg\n", "Line 2 of .*images.txt repeats the number 1"),
        ("images.txt", "1 a.jpg\nx\n", "Line 2 of .*images.txt is not a number and a text: 'x'"),
        (
            "images.txt",
            "1 a.jpg\n99 b.jpg\n",
            "Image 2 is in only one of images.txt and image_class_labels.txt",
        ),
        (
            "image_class_labels.txt",
            "\n".join(f"{i} 77" for i in range(1, 11)),
            "gives image 1 the class 77, which classes.txt lacks",
        ),
        ("image_class_labels.txt", None, "lacks image_class_labels.txt"),
        ("classes.txt", None, "lacks classes.txt"),
    ],
)
def test_damaged_lists_of_birds_are_refused_with_the_line(
    file, text, sentence, tmp_path, monkeypatch
):
    trees.small_cub(monkeypatch)
    path = trees.cub(tmp_path) / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read("cub200", tmp_path)


def test_cub_200_of_2010_is_refused_by_name(tmp_path):
    trees.folders(tmp_path / "images", ["001.Black_footed_Albatross"])
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "files.txt").write_text("001.Black_footed_Albatross/0.jpg\n")
    with pytest.raises(
        ValueError,
        match="holds CUB-200 of 2010, with 6,033 images; cub200 is CUB-200-2011, with 11,788",
    ):
        read("cub200", tmp_path)


def test_cub_200_of_2010_is_known_by_its_count_too(tmp_path):
    root = trees.cub(tmp_path)
    (root / "images.txt").write_text("".join(f"{i} x/{i}.jpg\n" for i in range(1, 6034)))
    (root / "image_class_labels.txt").write_text("".join(f"{i} 1\n" for i in range(1, 6034)))
    with pytest.raises(ValueError, match=r"6,033 images .*That is CUB-200 of 2010"):
        read("cub200", tmp_path)


def test_birds_cut_by_the_closed_set_split_are_refused_by_name(tmp_path):
    for half in ("train", "test"):
        trees.folders(
            tmp_path / "CUB" / half, ["001.Black_footed_Albatross", "002.Laysan_Albatross"]
        )
    with pytest.raises(ValueError, match=r"cut by train_test_split.txt .*closed-set"):
        read("cub200", tmp_path)


def test_the_order_of_the_cars_is_the_official_one_and_not_the_alphabets(tmp_path, monkeypatch):
    trees.small_cars(monkeypatch)
    original = read("cars196", trees.cars(tmp_path / "original"))
    mirror = read("cars196", trees.cars_mirror(tmp_path / "mirror"))
    for found in (original, mirror):
        assert [found.names[label] for label in found.train] == trees.FERRARIS[:2]
    assert original.names == mirror.names == (*trees.FERRARIS, trees.RAM)
    assert list(original.names) != sorted(original.names)
    with pytest.raises(
        ValueError, match=r"has no names.csv beside it, which holds the official order"
    ):
        read("cars196", trees.cars_mirror(tmp_path / "bare", names=False))


def test_both_halves_of_the_mirror_are_one_dataset(tmp_path, monkeypatch):
    trees.small_cars(monkeypatch)
    found = read("cars196", trees.cars_mirror(tmp_path))
    assert found.files[:2] == (
        "test/FIAT 500 Convertible 2012/00001.jpg",
        "train/FIAT 500 Convertible 2012/00001.jpg",
    )
    assert found.files[-1] == "train/Ram C-V Cargo Van Minivan 2012/00001.jpg"
    assert (
        found
        == read("cars196", tmp_path / "car_data")
        == read("cars196", tmp_path / "car_data" / "car_data")
    )


def test_a_mirror_whose_names_differ_from_its_folders_is_refused(tmp_path, monkeypatch):
    trees.small_cars(monkeypatch)
    shutil.rmtree(
        trees.cars_mirror(tmp_path) / "car_data" / "car_data" / "train" / trees.FERRARIS[0]
    )
    # The class is still in test, so only the count of images shows the loss.
    assert len(read_layout("cars196", tmp_path, 2).files) == 9
    with pytest.raises(ValueError, match=r"10 images .* has 5 classes and 9 images"):
        read("cars196", tmp_path)
    shutil.rmtree(tmp_path / "car_data" / "car_data" / "test" / trees.FERRARIS[0])
    with pytest.raises(ValueError, match=f"'{trees.FERRARIS[0]}' is in only one of them"):
        read("cars196", tmp_path)


def test_a_wrong_order_of_the_cars_gives_halves_of_other_sizes_and_is_refused(
    tmp_path, monkeypatch
):
    trees.small_cars(monkeypatch)
    root = trees.cars_mirror(tmp_path)
    trees.jpeg(root / "car_data" / "car_data" / "train" / trees.FERRARIS[1] / "2.jpg", 7)
    trees.count(monkeypatch, "cars196", classes=5, images=11, train_classes=2, train_images=5)
    read("cars196", root)
    (root / "names.csv").write_text("\n".join(sorted([*trees.FERRARIS, trees.RAM])))
    with pytest.raises(ValueError, match=r"11 images \(5 \+ 6\), but .* 11 images \(4 \+ 7\)"):
        read("cars196", root)


@pytest.mark.parametrize("halves", [["cars_train"], ["cars_test"], ["cars_train", "cars_test"]])
def test_cars_of_the_closed_set_split_are_refused_by_name(halves, tmp_path):
    for half in halves:
        trees.jpeg(tmp_path / half / "00001.jpg")
    with pytest.raises(
        ValueError, match=f"holds only {' and '.join(halves)} of the closed-set split"
    ):
        read("cars196", tmp_path)


def test_damaged_annotations_of_cars_are_refused(tmp_path):
    trees.cars(tmp_path)
    (tmp_path / "cars_annos.mat").write_bytes(b"MATLAB 5.0" + bytes(200))
    with pytest.raises(
        ValueError, match=r"cars_annos.mat cannot be read as the annotations of Cars-196"
    ):
        read("cars196", tmp_path)


def test_the_halves_of_the_products_are_those_of_their_lists(tmp_path, monkeypatch):
    trees.small_sop(monkeypatch)
    found = read("sop", trees.sop(tmp_path))
    assert (found.train, found.test) == ((0, 1, 2), (3, 4))
    assert found.names == ("bicycle 1", "sofa 2", "bicycle 3", "sofa 4", "bicycle 5")
    assert found.labels == (0, 0, 1, 1, 2, 2, 3, 3, 4, 4)


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        ("Ebay_test.txt", None, "lacks Ebay_test.txt"),
        (
            "Ebay_test.txt",
            "image_id class_id super_class_id path\n1 3 1 a/b.JPG\n",
            "Class 3 is in both Ebay_train.txt and Ebay_test.txt",
        ),
        (
            "Ebay_test.txt",
            "image_id class_id super_class_id path\n1 3\n",
            "Line 2 of .*Ebay_test.txt is not 'image_id",
        ),
        (
            "Ebay_test.txt",
            "image_id class_id super_class_id path\n1 4 1 a b.JPG\n",
            "has 4 classes and 7 images",
        ),
    ],
)
def test_damaged_lists_of_products_are_refused(file, text, sentence, tmp_path, monkeypatch):
    trees.small_sop(monkeypatch)
    path = trees.sop(tmp_path) / file
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read("sop", tmp_path)


def test_products_of_equal_halves_are_refused_even_if_the_totals_are_right(tmp_path, monkeypatch):
    trees.sop(tmp_path)
    trees.count(monkeypatch, "sop", classes=5, images=10, train_classes=2, train_images=6)
    with pytest.raises(ValueError, match="Its halves have 3 and 2 classes"):
        read("sop", tmp_path)
    assert halves(DatasetRef("sop")) == ((0, 1), (2, 3, 4))
