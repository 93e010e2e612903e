"""fairtrial data, as a user types it."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq
import pytest
from PIL import Image
from typer.testing import CliRunner

from study.__main__ import app
from study.config.sources import _parse
from tests.support import ROOT, trees, vectors
from trainables import fetch
from trainables.contract import DatasetRef
from trainables.datasets import checking
from trainables.datasets.catalogue import DATASETS
from trainables.datasets.indexing import index
from trainables.datasets.official.layouts import LAYOUTS
from trainables.datasets.pixels import is_decoded


def run(*words: object):
    return CliRunner().invoke(app, ["data", *map(str, words)])


def said(result) -> str:
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("name", sorted(LAYOUTS))
@pytest.mark.parametrize("kind", ["folder", "tgz", "zip"])
def test_prepare_takes_folders_and_archives_and_every_image_is_good(
    name, kind, tmp_path, monkeypatch, own_home
):
    tree, small = trees.TREES[name]
    small(monkeypatch)
    tree(tmp_path / "Größe und Maß")
    given = tmp_path / "Größe und Maß"
    if kind == "tgz":
        given = tmp_path / "a b.tgz"
        with tarfile.open(given, "w:gz") as packed:
            packed.add(tmp_path / "Größe und Maß", ".")
    elif kind == "zip":
        given = Path(shutil.make_archive(str(tmp_path / "a b"), "zip", tmp_path / "Größe und Maß"))
    result = run("prepare", name, "--from", given)
    assert result.exit_code == 0, result.stderr
    source = DATASETS[name]
    assert f"{source.classes} classes, 10 images" in result.stdout
    assert (
        f"{source.train_classes} classes with {source.train_images} images to train on"
        in result.stdout
    )
    found = index(DatasetRef(name))
    assert str(found.root) in result.stdout
    assert found.root.is_relative_to(tmp_path if kind == "folder" else own_home)
    assert f"data check {name}" in result.stdout
    checked = run("check", name)
    assert checked.exit_code == 0
    assert "Every image is good." in checked.stdout


def test_prepare_is_told_once_and_again_if_another_place_is_given(tmp_path, monkeypatch):
    trees.small_cub(monkeypatch)
    first, second = trees.cub(tmp_path / "1"), trees.cub(tmp_path / "2")
    assert "cub200   is ready" in run("prepare", "cub200", "--from", first).stdout
    again = run("prepare", "cub200")
    assert "was prepared before: 4 classes, 10 images" in again.stdout
    assert str(first) in again.stdout
    run("prepare", "cub200", "--from", second)
    assert index(DatasetRef("cub200")).root == second


def test_prepare_fetches_what_has_a_source_and_keeps_no_archive(tmp_path, monkeypatch, own_home):
    trees.small_cub(monkeypatch)
    archive = tmp_path / "CUB_200_2011.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(trees.cub(tmp_path), "CUB_200_2011")

    def download(url, target, *, checksum, progress):
        assert (url, checksum) == (DATASETS["cub200"].url, DATASETS["cub200"].checksum)
        progress(1, 2)
        return shutil.copy(archive, target)

    monkeypatch.setattr("trainables.datasets.official.preparing.download", download)
    assert run("prepare", "cub200").exit_code == 0
    place = own_home / "datasets" / "cub200"
    assert sorted(path.name for path in place.iterdir()) in (
        ["files", "lock", "manifest.json"],
        ["files", "manifest.json"],
    )
    (place / "manifest.json").unlink()  # interrupted while it hashed: nothing is fetched again
    monkeypatch.setattr("trainables.datasets.official.preparing.download", None)
    assert run("prepare", "cub200").exit_code == 0


def test_what_someone_put_where_the_sentence_says_is_checked_and_taken(
    tmp_path, monkeypatch, own_home
):
    trees.small_sop(monkeypatch)
    place = own_home / "datasets" / "sop"
    place.mkdir(parents=True)
    shutil.make_archive(str(place / "Stanford_Online_Products"), "zip", trees.sop(tmp_path).parent)
    refused = run("prepare", "sop")
    assert refused.exit_code == 2
    assert "has the md5" in said(refused)
    assert (place / "Stanford_Online_Products.zip").exists()


@pytest.mark.parametrize("name", sorted(name for name in LAYOUTS if DATASETS[name].url))
def test_without_a_network_prepare_ends_with_exit_4_and_says_what_to_put_where(
    name, monkeypatch, own_home
):
    def none(*words, **more):
        raise OSError("Name or service not known")

    monkeypatch.setattr(fetch.urllib.request, "urlopen", none)
    result = run("prepare", name)
    assert result.exit_code == 4
    assert DATASETS[name].url in said(result)
    assert f"put the file at {own_home}/datasets/{name}/" in said(result)


def test_cars_without_a_source_say_what_to_get():
    result = run("prepare", "cars196")
    assert result.exit_code == 2
    assert "it has no working download; get car_ims with cars_annos.mat" in said(result)
    assert "data prepare cars196 --from PATH` takes it" in said(result)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["prepare", "cub"], "Unknown dataset 'cub'. Did you mean 'cub200'?"),
        (["prepare", "sketches"], "There is nothing to prepare: sketches ships with Fair Trial."),
        (
            ["prepare", "image_folder", "--from", "."],
            "There is nothing to prepare: image_folder is read where it lies;",
        ),
        (
            ["prepare", "cub200", "--from", "/no where"],
            "There is no /no where; --from takes CUB_200_2011.tgz",
        ),
        (["prepare", "cub200", "--from", __file__], "is not an archive that can be read"),
        (["check", "cub200"], "cub200 is not here yet"),
        (["check", "cbu200"], "Did you mean 'cub200'?"),
        (["check", "image_folder"], "image_folder needs --set data_root=PATH"),
        (["check", "csv", "--root", "none.csv"], "There is no file"),
        (["show", "image_folder", "--root", "none"], "There is no folder"),
        (["check", "features", "--root", "none.npz"], "There is no file or folder"),
        (
            ["prepare", "features"],
            "There is nothing to prepare: features is read where it lies;",
        ),
        (["show", "sketches", "--out", "x.txt"], "--out takes a .jpg or .png file"),
        (["show", "sketches", "--root", "x"], "root is for image_folder, csv and features"),
    ],
)
def test_bad_input_ends_with_exit_2_and_one_sentence(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run(*words)
    assert result.exit_code == 2
    assert result.stderr.startswith("fairtrial: ")
    assert len(result.stderr.strip().splitlines()) == 1
    assert sentence in said(result)
    assert list(tmp_path.iterdir()) == []


def test_a_refused_archive_leaves_nothing_behind(tmp_path, own_home):
    archive = shutil.make_archive(str(tmp_path / "x"), "zip", trees.cub(tmp_path / "in").parent)
    result = run("prepare", "cub200", "--from", archive)
    assert result.exit_code == 2
    assert "cub200 has 200 classes and 11,788 images" in said(result)
    assert not [
        path for path in (own_home / "datasets" / "cub200").iterdir() if path.name != "lock"
    ]


def test_an_evil_archive_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr("../evil.txt", "x")
    result = run("prepare", "sop", "--from", tmp_path / "x.zip")
    assert result.exit_code == 2
    assert "is not safe to extract: '../evil.txt' leads out of its folder" in said(result)


def test_a_place_that_is_not_writable_ends_with_exit_4(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRTRIAL_DATA", str(tmp_path / "file" / "data"))
    result = run("prepare", "cub200", "--from", trees.cub(tmp_path))
    assert result.exit_code == 4
    assert "is not writable" in said(result)


def test_an_interrupted_prepare_says_how_to_go_on(tmp_path, monkeypatch):
    def stop(*words):
        raise KeyboardInterrupt

    monkeypatch.setattr("trainables.datasets.official.preparing.extract", stop)
    trees.jpeg(tmp_path / "x.zip")
    result = run("prepare", "cub200", "--from", tmp_path / "x.zip")
    assert result.exit_code == 130
    assert "the same command resumes" in said(result)


def spoiled(root: Path) -> list[str]:
    """Images of two classes are broken; their names are hard to quote."""
    broken = ["a, b/half's.jpg", 'a, b/say "x".jpg', "ä/text.jpg"]
    trees.folders(root, ["a, b", "c", "d", "ä"], images=3)
    for file in broken:
        trees.jpeg(root / file, 5)
    half = root / broken[0]
    half.write_bytes(half.read_bytes()[:-50])
    (root / broken[1]).write_bytes(b"")
    (root / broken[2]).write_text("404 Not Found")
    return broken


def test_check_lists_every_broken_image_and_the_option_that_leaves_it_out(tmp_path):
    broken = spoiled(tmp_path / "Größe und Maß")
    result = run("check", "image_folder", "--root", tmp_path / "Größe und Maß")
    assert result.exit_code == 3
    assert "3 images are broken:" in result.stdout
    assert all(file in result.stdout for file in broken)
    assert "it is not an image of a known kind" in result.stdout
    option = next(line for line in result.stdout.splitlines() if "--set" in line)
    _, value = shlex.split(option)
    key, files = _parse(value)
    assert key == ["exclude"]
    assert sorted(files) == sorted(broken)
    without = DatasetRef("image_folder", str(tmp_path / "Größe und Maß"), exclude=tuple(files))
    assert not checking.check_dataset(without, 24, lambda done, total: None).broken


def test_check_tells_twins_lone_classes_and_what_is_not_read(tmp_path):
    trees.folders(tmp_path, list("abcd"))
    shutil.copy(tmp_path / "a" / "0.jpg", tmp_path / "d" / "copy.jpg")
    shutil.copy(tmp_path / "a" / "0.jpg", tmp_path / "b" / "same half.jpg")
    (tmp_path / "c" / "1.jpg").unlink()
    (tmp_path / "notes [1].txt").write_text("")
    result = run("check", "image_folder", "--root", tmp_path)
    assert result.exit_code == 0
    assert "1 image to test is the same as one to train on" in result.stdout
    assert "d/copy.jpg  =  a/0.jpg" in result.stdout
    assert "1 class has a single image, which has no match:\n  c\n" in result.stdout
    assert (
        "1 file is not read: no image by its name, or in no class:\n  notes [1].txt"
        in result.stdout
    )
    assert "Every image is good." in result.stdout


def test_check_says_where_the_pixels_are_so_that_a_study_starts_at_once(tmp_path, own_home):
    root = trees.folders(tmp_path / "photos", list("abcd"))
    result = run("check", "image_folder", "--root", root)
    assert f"The cache has them at 256 pixels in {own_home / 'pixels'} (" in result.stdout
    assert is_decoded(DatasetRef("image_folder", str(root)), 256)
    assert run("check", "image_folder", "--root", root).stdout == result.stdout
    assert "kept" not in run("check", "sketches").stdout


def test_check_says_that_pixels_could_not_be_kept(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRTRIAL_DATA", str(tmp_path / "file" / "data"))
    result = run("check", "image_folder", "--root", trees.folders(tmp_path / "p", list("abcd")))
    assert result.exit_code == 0
    assert "Every image is good.\nBut their pixels could not be cached in " in result.stdout
    assert "(Not a directory)." in result.stdout


def test_check_notices_that_a_prepared_image_was_changed(tmp_path, monkeypatch):
    trees.small_cub(monkeypatch)
    run("prepare", "cub200", "--from", trees.cub(tmp_path))
    found = index(DatasetRef("cub200"))
    trees.jpeg(found.root / found.files[4], 77)
    (found.root / found.files[5]).unlink()
    result = run("check", "cub200")
    assert result.exit_code == 3
    assert f"{found.files[4]}  (it was changed since it was prepared)" in result.stdout
    assert f"{found.files[5]}  (No such file or directory)" in result.stdout


def bird_vectors(folder: Path, **columns) -> Path:
    rows, labels = vectors.sample()
    rows[1] = rows[0]
    labels[:2] = "gull", "dove"
    return vectors.write("parquet", folder, rows * 0.5, label=labels, **columns)


def test_check_measures_vectors(tmp_path):
    ids = [f"bird {row}" for row in range(20)]
    trees.jpeg(tmp_path / "here.jpg")
    path = bird_vectors(tmp_path, id=ids, image=["here.jpg"] * 19 + ["gone.jpg"])
    result = run("check", "features", "--root", path)
    assert result.exit_code == 0, result.stderr
    found = pq.read_table(path)
    lengths = [sum(x * x for x in row) ** 0.5 for row in found["features"].to_pylist()]
    assert "features: 5 classes, 20 vectors; 2 classes with " in result.stdout
    assert (
        f"Each has 6 numbers; lengths {min(lengths):.4g} to {max(lengths):.4g}, "
        f"median {median(lengths):.4g}."
    ) in result.stdout
    assert "1 of them repeat an earlier one exactly." in result.stdout
    assert "1 vector to test is the same as one to train on" in result.stdout
    assert "  bird 0  =  bird 1\n" in result.stdout
    assert "1 picture is not there; no vector needs it" in result.stdout
    assert "  gone.jpg\n" in result.stdout
    assert result.stdout.endswith("Every vector is good.\n")


def test_check_refuses_bad_vectors_before_anything_is_printed(tmp_path):
    rows, labels = vectors.sample()
    rows[3] = 0
    result = run("check", "features", "--root", vectors.write("npz", tmp_path, rows, label=labels))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "1 of 20 in" in said(result)
    assert "are zero (the first is row 3, counted from 0)" in said(result)


def test_show_draws_the_pictures_of_vectors_and_says_that_there_are_none(tmp_path):
    out = tmp_path / "sheet.png"
    result = run("show", "features", "--root", bird_vectors(tmp_path / "bare"), "--out", out)
    assert result.exit_code == 2
    assert "A contact sheet needs pictures, but features has vectors only" in said(result)
    assert not out.exists()
    files = [trees.jpeg(tmp_path / f"{row}.jpg", row).name for row in range(20)]
    index.cache_clear()  # as another process would
    result = run("show", "features", "--root", bird_vectors(tmp_path, image=files), "--out", out)
    assert result.exit_code == 0, result.stderr
    with Image.open(out) as sheet:
        assert len(sheet.convert("RGB").getcolors(2**24)) > 100


def test_check_finds_the_sketches_good():
    result = run("check", "sketches")
    assert result.exit_code == 0
    assert "200 classes, 12,000 images" in result.stdout


@pytest.mark.parametrize("suffix", [".jpg", ".png", ".JPEG"])
def test_show_draws_both_halves(suffix, tmp_path):
    names = [
        "Äpfel",
        "日本語のとても長いクラスの名前です",
        "an_extremely long name " * 8,
        "Жаворонок",
        "x" * 90,
        "b",
    ]
    trees.folders(tmp_path / "in", names, images=9)
    out = tmp_path / "new folder" / f"sheet{suffix}"
    result = run("show", "image_folder", "--root", tmp_path / "in", "--out", out)
    assert result.exit_code == 0, result.stderr
    assert str(out) in result.stdout
    with Image.open(out) as sheet:
        assert sheet.width > 1000
        assert len(sheet.convert("RGB").getcolors(2**24)) > 100


def test_show_draws_the_sketches_where_one_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run("show", "sketches").exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["sketches.jpg"]


def test_show_refuses_a_broken_image_by_name(tmp_path):
    spoiled(tmp_path)
    result = run("show", "image_folder", "--root", tmp_path)
    assert result.exit_code == 2
    assert "cannot be decoded" in said(result)
    assert "--set 'exclude=" in said(result)


def test_the_list_of_datasets_says_what_is_here(tmp_path, monkeypatch):
    def listed():
        return json.loads(CliRunner().invoke(app, ["list", "datasets", "--json"]).stdout)

    assert {name: entry["here"] for name, entry in listed().items()} == {
        "sketches": True, "cub200": False, "cars196": False, "sop": False,
        "image_folder": None, "csv": None, "features": None,
    }  # fmt: skip
    assert (listed()["sop"]["train"], listed()["sop"]["test"], listed()["csv"]["images"]) == (
        11_318,
        11_316,
        None,
    )
    shown = " ".join(CliRunner().invoke(app, ["list", "datasets"]).stdout.split())
    assert "not here yet: fairtrial data prepare cub200" in re.sub("uv run ", "", shown)
    trees.small_cub(monkeypatch)
    run("prepare", "cub200", "--from", trees.cub(tmp_path))
    assert listed()["cub200"]["here"] is True


def test_bad_input_ends_before_anything_heavy_is_imported(tmp_path):
    program = (
        "import sys\nfrom study.__main__ import main\n"
        "try:\n    main()\n"
        "finally:\n    print([name for name in ('torch', 'ray', 'mlflow', 'matplotlib', 'scipy') "
        "if name in sys.modules])\n"
    )
    for words in (
        ["data", "prepare", "cub20"],
        ["data", "check", "image_folder", "--root", "none"],
        ["data", "show", "cub200"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
        )
        assert done.returncode == 2
        assert done.stdout.strip() == "[]"
