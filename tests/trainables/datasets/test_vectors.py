"""Vectors are mapped, checked and converted once per machine, and divided by class."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.support import vectors as files
from trainables.contract import DatasetRef
from trainables.datasets import vector_files, vectors
from trainables.datasets.indexing import halves, index
from trainables.datasets.pixels import cache_bytes, decode_once, load
from trainables.datasets.vectors import load_vectors, read_vectors

ROWS, LABELS = files.sample()
ROOT = Path(__file__).parents[3]


def ref(path: Path, **chosen) -> DatasetRef:
    return DatasetRef("features", str(path), **chosen)


def forget() -> None:
    """Become as a new process."""
    for cached in (vectors._read, load_vectors, index):
        cached.cache_clear()


def file_behind(array: np.ndarray) -> str:
    """Return the file that the memory of an array is a map of."""
    start = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, name = line.split(maxsplit=5)
        first, last = (int(each, 16) for each in span.split("-"))
        if first <= start < last:
            return name
    raise AssertionError("no map")


@pytest.mark.parametrize("kind", files.WRITERS)
def test_the_vectors_are_a_read_only_map_of_a_file(kind, tmp_path, own_home):
    path = files.write(kind, tmp_path, ROWS, label=LABELS)
    rows = load_vectors(ref(path))
    behind = Path(file_behind(rows))
    assert behind == path if kind == "npy" else behind.is_relative_to(own_home / "vectors")
    assert rows.flags.c_contiguous
    assert rows.flags.aligned
    assert not rows.flags.writeable
    assert load_vectors(ref(path)) is rows


def test_the_rows_belong_to_the_labels_of_the_index(tmp_path):
    path = files.write("parquet", tmp_path, ROWS, label=LABELS)
    found = index(ref(path))
    assert [found.names[label] for label in found.labels] == LABELS
    assert len(load_vectors(ref(path))) == len(found.labels)
    assert found.files == ()
    assert found.channels == 0


def test_the_order_of_the_classes_does_not_depend_on_the_order_of_the_rows(tmp_path):
    order = np.random.default_rng(1).permutation(len(ROWS))
    mixed = [LABELS[row] for row in order]
    one = index(ref(files.write("npz", tmp_path / "a", ROWS, label=LABELS)))
    other = index(ref(files.write("npz", tmp_path / "b", ROWS[order], label=mixed)))
    assert one.names == other.names == files.NAMES
    assert (one.train, one.test) == (other.train, other.test)
    assert other.labels.tolist() == one.labels[order].tolist()


def test_the_first_half_of_the_classes_is_for_training_unless_told_otherwise(tmp_path):
    plain = files.write("npz", tmp_path, ROWS, label=LABELS)
    assert halves(ref(plain)) == ((0, 1), (2, 3, 4))
    assert halves(ref(plain, max_classes=1)) == ((0,), (2,))
    split = ["test" if label in ("dove", "heron") else "train" for label in LABELS]
    told = files.write("parquet", tmp_path, ROWS, label=LABELS, split=split)
    assert halves(ref(told)) == ((1, 2, 3), (0, 4))
    assert halves(ref(told, train_classes=("dove", "gull"))) == ((0, 3), (1, 2, 4))
    assert halves(ref(plain, train_classes=("dove", "gull"), test_classes=("heron", "eagle"))) == (
        (0, 3),
        (1, 4),
    )
    with pytest.raises(ValueError, match=r"no class 'gul' .* Did you mean 'gull'\?"):
        halves(ref(plain, train_classes=("gul", "dove")))


def test_exclude_has_no_files_to_name(tmp_path):
    path = files.write("npz", tmp_path, ROWS, label=LABELS)
    with pytest.raises(
        ValueError, match=r"exclude names image files, .* remove the rows .*'x\.jpg'"
    ):
        index(ref(path, exclude=("x.jpg",)))


def test_there_is_nothing_to_decode(tmp_path):
    path = ref(files.write("npz", tmp_path, ROWS, label=LABELS))
    decode_once(path, 256)
    assert cache_bytes(path, 256) == 0
    with pytest.raises(ValueError, match="features has vectors, not images"):
        load(path, 256)


@pytest.mark.parametrize("kind", files.WRITERS)
def test_a_second_process_neither_checks_nor_converts_again(kind, tmp_path, monkeypatch):
    path = files.write(kind, tmp_path, ROWS, label=LABELS)
    first = load_vectors(ref(path))
    forget()
    monkeypatch.setattr(vectors, "_build", lambda *_, **__: pytest.fail("converted again"))
    again = load_vectors(ref(path))
    assert again is not first
    assert file_behind(again) == file_behind(first)
    assert np.array_equal(again, first)


@pytest.mark.parametrize("kind", files.WRITERS)
def test_another_content_is_another_fingerprint_and_the_same_content_is_not(kind, tmp_path):
    def mark(rows=ROWS, labels=LABELS, folder="a", **chosen):
        forget()
        return index(ref(files.write(kind, tmp_path / folder, rows, label=labels), **chosen))

    first = mark().fingerprint
    other = ROWS.copy()
    other[7, 2] += 1e-3
    swapped = [{"dove": "gull", "gull": "dove"}.get(label, label) for label in LABELS]
    changed = [
        mark(rows=other),
        mark(labels=swapped),
        mark(train_classes=("dove", "gull")),
        mark(labels=[label.upper() for label in LABELS]),
    ]
    marks = {first, *(found.fingerprint for found in changed)}
    assert len(marks) == 5
    again = files.write(kind, tmp_path / "elsewhere", ROWS, label=LABELS)
    os.utime(again, ns=(1, 1))
    assert index(ref(again)).fingerprint == first  # a copy on another node


def test_a_file_that_changed_is_read_again(tmp_path):
    path = files.write("parquet", tmp_path, ROWS, label=LABELS)
    read_vectors(ref(path))
    files.write("parquet", tmp_path, ROWS * 2, label=LABELS)
    os.utime(path, ns=(5, 5))
    assert np.array_equal(read_vectors(ref(path)).rows, ROWS * 2)


KILLED = """
import os, signal, sys
from trainables.contract import DatasetRef
from trainables.datasets import vector_files, vectors

vector_files.BLOCK = 4 * 6 * 4  # four rows
checked = vectors._checked

def dies(file):
    for number, block in enumerate(checked(file)):
        yield block
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)

vectors._checked = dies
vectors.read_vectors(DatasetRef("features", sys.argv[1]))
"""


@pytest.mark.parametrize("kind", ["parquet", "npy"])
def test_what_a_killed_conversion_left_is_not_taken_for_whole(kind, tmp_path, own_home):
    path = files.write(kind, tmp_path, ROWS, label=LABELS)
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], cwd=ROOT, check=False)
    assert done.returncode == -signal.SIGKILL
    left = [each.suffix for each in (own_home / "vectors").iterdir()]
    assert ".unfinished" in left
    assert "" not in left
    assert np.array_equal(load_vectors(ref(path)), ROWS)
    assert not list(own_home.glob("vectors/*.unfinished"))


RACE = """
import sys
from trainables.contract import DatasetRef
from trainables.datasets import vectors

build, built = vectors._build, []
vectors._build = lambda *given, **more: (built.append(1), build(*given, **more))
sys.stdin.read()
print(len(vectors.load_vectors(DatasetRef("features", sys.argv[1]))), len(built))
"""


def test_of_processes_that_start_together_one_converts_and_all_see_it(tmp_path):
    path = files.write("parquet", tmp_path, ROWS, label=LABELS)
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACE, str(path)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for racer in racers:
        assert racer.stdin
        racer.stdin.close()
        racer.stdin = None
    answers = [racer.communicate(timeout=240)[0].split() for racer in racers]
    assert [count for count, _ in answers] == ["20"] * 3
    assert sum(int(built) for _, built in answers) == 1


def test_vectors_that_need_several_blocks_are_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(vector_files, "BLOCK", 3 * 6 * 4)  # three rows
    for kind in files.WRITERS:
        path = files.write(kind, tmp_path / kind, ROWS, label=LABELS)
        assert np.array_equal(load_vectors(ref(path)), ROWS)
        spoiled = ROWS.copy()
        spoiled[[8, 13]] = 0
        bad = files.write(kind, tmp_path / kind / "bad", spoiled, label=LABELS)
        with pytest.raises(ValueError, match=r"2 of 20 .* are zero .the first is row 8"):
            load_vectors(ref(bad))


def test_a_full_or_read_only_disk_is_one_sentence(tmp_path, monkeypatch):
    path = files.write("npz", tmp_path, ROWS, label=LABELS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FAIRTRIAL_DATA", str(tmp_path / "file"))
    with pytest.raises(OSError, match=r"is not writable .* FAIRTRIAL_DATA=FOLDER"):
        load_vectors(ref(path))
