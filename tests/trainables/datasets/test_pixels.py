"""Decoded images are made once, completely or not at all, and shared."""

from __future__ import annotations

import mmap
import multiprocessing
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torchvision
from PIL import Image

from trainables.caches import list_caches
from trainables.contract import DatasetRef
from trainables.datasets import pixels
from trainables.datasets.decode import BrokenImageError, decode, resize_shorter_side
from trainables.datasets.indexing import index
from trainables.datasets.pixels import cache_bytes, cache_folder, decode_once, is_decoded, load

SIDE = 24


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Four classes of three pictures in a path that shells and old encodings trip over."""
    monkeypatch.setenv("FAIRTRIAL_DATA", str(tmp_path / "data home"))
    root = tmp_path / "Vögel und Käfer"
    rng = np.random.default_rng(0)
    for name in ("Amsel", "Bläuling", "中文 class", "drossel"):
        (root / name).mkdir(parents=True)
        for i in range(3):
            height, width = rng.integers(30, 60, 2)
            Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8)).save(
                root / name / f"bild {i}.jpg"
            )
    load.cache_clear()
    index.cache_clear()
    return root


def test_the_cache_holds_what_decoding_and_shrinking_give(folder):
    data = load(DatasetRef("image_folder", str(folder)), SIDE)
    assert len(data.pixels) == len(data.index.files) == 12
    for i, file in enumerate(data.index.files):
        expected = np.asarray(resize_shorter_side(decode(folder, file), SIDE))
        assert min(expected.shape[:2]) == SIDE
        assert np.array_equal(data.pixels[i], expected)


def test_a_second_process_opens_what_the_first_has_made(folder, monkeypatch):
    dataset_ref = DatasetRef("image_folder", str(folder))
    first = load(dataset_ref, SIDE)
    load.cache_clear()
    monkeypatch.setattr(pixels, "_build", lambda *_: pytest.fail("decoded again"))
    again = load(dataset_ref, SIDE)
    assert again is not first
    assert np.array_equal(again.pixels[5], first.pixels[5])


def _race(root: str, answers: multiprocessing.Queue) -> None:
    built = []
    original = pixels._build
    pixels._build = lambda *given: (built.append(1), original(*given))  # type: ignore[assignment]
    answers.put((len(load(DatasetRef("image_folder", root), SIDE).pixels), len(built)))


def test_of_processes_that_start_together_one_decodes_and_all_see_it(folder):
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    racers = [context.Process(target=_race, args=(str(folder), answers)) for _ in range(3)]
    for racer in racers:
        racer.start()
    found = [answers.get(timeout=240) for _ in racers]
    for racer in racers:
        racer.join()
    assert [count for count, _ in found] == [12, 12, 12]
    assert sum(built for _, built in found) == 1


def test_a_broken_image_is_named_with_the_way_to_leave_it_out_and_nothing_stays(folder):
    broken = folder / "Amsel" / "bild 1.jpg"
    broken.write_bytes(broken.read_bytes()[:200])
    dataset_ref = DatasetRef("image_folder", str(folder))
    with pytest.raises(BrokenImageError, match=re.escape("Amsel/bild 1.jpg")) as error:
        load(dataset_ref, SIDE)
    assert "exclude" in str(error.value)
    assert [path.suffix for path in cache_folder(dataset_ref, SIDE).parent.iterdir()] in (
        [".lock"],
        [],
    )
    without = DatasetRef("image_folder", str(folder), exclude=("Amsel/bild 1.jpg",))
    assert len(load(without, SIDE).pixels) == 11


def test_what_a_killed_process_left_is_not_taken_for_a_cache(folder):
    dataset_ref = DatasetRef("image_folder", str(folder))
    unfinished = cache_folder(dataset_ref, SIDE).with_suffix(".unfinished")
    unfinished.mkdir(parents=True)
    (unfinished / "pixels.bin").write_bytes(b"half")
    assert len(load(dataset_ref, SIDE).pixels) == 12
    assert not unfinished.exists()


def test_changed_files_and_other_sizes_are_other_caches(folder):
    dataset_ref = DatasetRef("image_folder", str(folder))
    first = cache_folder(dataset_ref, SIDE)
    assert cache_folder(dataset_ref, SIDE + 1) != first
    Image.new("RGB", (40, 40), "red").save(folder / "Amsel" / "bild 0.jpg")
    index.cache_clear()
    assert cache_folder(dataset_ref, SIDE) != first


def test_the_disk_is_estimated_before_and_exact_after(folder):
    dataset_ref = DatasetRef("image_folder", str(folder))
    before = cache_bytes(dataset_ref, SIDE)
    decode_once(dataset_ref, SIDE)
    after = cache_bytes(dataset_ref, SIDE)
    assert after == load(dataset_ref, SIDE).pixels.shapes.prod(axis=1).sum()
    assert before == pytest.approx(after, rel=0.4)
    assert cache_bytes(DatasetRef("sketches"), 256) == 0


def whole_ref(folder):
    return DatasetRef("image_folder", str(folder))


def few(folder, most=1):
    return DatasetRef("image_folder", str(folder), max_classes=most)


def used(dataset_ref):
    found = index(dataset_ref)
    return [int(i) for i in found.ids(found.train + found.test)]


def test_a_study_of_few_classes_opens_only_their_images(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(
        pixels, "decode", lambda root, file: opened.append(file) or decode(root, file)
    )
    data = load(few(folder), SIDE)
    wanted = used(few(folder))
    assert len(wanted) == 6
    assert sorted(opened) == sorted(data.index.files[i] for i in wanted)
    assert len(data.pixels) == 12
    assert [i for i in range(12) if data.pixels[i].size] == wanted


def test_a_broken_image_of_an_unused_class_does_no_harm(folder):
    found = index(few(folder))
    unused = next(file for i, file in enumerate(found.files) if i not in used(few(folder)))
    (folder / unused).write_text("404")
    index.cache_clear()
    decode_once(few(folder), SIDE)
    with pytest.raises(BrokenImageError, match=re.escape(unused)):
        decode_once(whole_ref(folder), SIDE)


def test_the_images_of_few_classes_are_those_of_all(folder):
    part = load(few(folder), SIDE)
    assert cache_bytes(few(folder), SIDE) == part.pixels.shapes.prod(axis=1).sum()
    whole = load(whole_ref(folder), SIDE)
    for i in used(few(folder)):
        assert np.array_equal(part.pixels[i], whole.pixels[i])
    assert cache_bytes(few(folder), SIDE) == cache_bytes(whole_ref(folder), SIDE)


def test_a_cache_of_all_classes_serves_a_study_of_few(folder, monkeypatch):
    decode_once(whole_ref(folder), SIDE)
    monkeypatch.setattr(pixels, "_build", lambda *_: pytest.fail("decoded again"))
    assert is_decoded(few(folder), SIDE)
    assert cache_folder(few(folder), SIDE) == cache_folder(whole_ref(folder), SIDE)
    assert load(few(folder), SIDE).pixels[0].size


def test_other_numbers_of_classes_are_other_caches(folder):
    decode_once(few(folder), SIDE)
    assert not is_decoded(few(folder, 2), SIDE)
    assert not is_decoded(whole_ref(folder), SIDE)


def test_progress_counts_every_image(folder):
    seen = []
    decode_once(
        DatasetRef("image_folder", str(folder)),
        SIDE,
        lambda done, total: seen.append((done, total)),
    )
    assert seen == [(i, 12) for i in range(1, 13)]


def test_no_one_can_write_into_what_all_share(folder):
    image = load(DatasetRef("image_folder", str(folder)), SIDE).pixels[0]
    with pytest.raises(ValueError, match="read-only"):
        image[0, 0, 0] = 1


def test_the_rows_of_a_box_are_asked_for_with_whole_pages_and_little_more():
    asked: list[tuple[int, int]] = []

    class Mapped:
        def madvise(self, option: int, start: int, size: int) -> None:
            assert option == mmap.MADV_WILLNEED
            asked.append((start, start + size))

    shapes = np.array([(40, 90, 3), (200, 30, 3), (64, 64, 3), (300, 70, 3)])
    flat = np.zeros(shapes.prod(axis=1).sum(), dtype=np.uint8)
    images = pixels.Pixels(flat, shapes, mapped=Mapped())  # type: ignore[arg-type]
    chosen, top, bottom = np.array([3, 1, 1, 2]), np.array([0, 150, -9, 60]), [300, 170, 20, 99]
    images.expect(chosen, top, np.array(bottom))
    for image, first, last, (start, end) in zip(chosen, top, bottom, asked, strict=True):
        begin = images[image].ctypes.data - flat.ctypes.data
        row = int(shapes[image, 1] * shapes[image, 2])
        inside = max(first, 0), min(last, shapes[image, 0])  # beyond the border there is nothing
        assert start % mmap.PAGESIZE == 0
        assert 0 <= begin + inside[0] * row - start < mmap.PAGESIZE
        assert end == begin + inside[1] * row


def test_asking_for_pixels_changes_none(folder):
    images = load(DatasetRef("image_folder", str(folder)), SIDE).pixels
    before = [image.copy() for image in (images[i] for i in range(12))]
    every = np.arange(12)
    images.expect(every, np.zeros(12, dtype=np.int64), images.shapes[:, 0])
    assert all(np.array_equal(images[i], before[i]) for i in every)


def test_shipped_images_need_no_cache(folder):
    data = load(DatasetRef("sketches"), 256)
    assert data.pixels[11_999].shape == (28, 28, 1)
    assert not (folder.parent / "data home").exists()


MEMORY = """
import sys, numpy as np
from pathlib import Path
from trainables.datasets.pixels import Pixels, _open

def private():
    text = Path("/proc/self/smaps_rollup").read_text()
    lines = dict(line.split(":") for line in text.splitlines()[1:])
    return sum(int(lines[name].split()[0]) for name in ("Private_Clean", "Private_Dirty")) / 1024

images = _open(Path(sys.argv[1]))
before, total, most = private(), 0, 0
for i in range(len(images)):
    total += int(images[i].sum())
    if i % 50 == 0:
        most = max(most, private() - before)
print(most)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_reading_a_large_dataset_adds_less_than_300_mb_of_private_memory(tmp_path):
    count, side = 3200, 256  # 629 MB
    with (tmp_path / "pixels.bin").open("wb") as file:
        file.truncate(count * side * side * 3)
    np.save(tmp_path / "shapes.npy", np.array([(side, side, 3)] * count))
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert float(done.stdout) < 300


def test_squashed_images_are_those_of_torchvision_in_a_cache_of_their_own(folder):
    """To the last pixel: Resize((side, side)) of the decoded picture, whatever its shape."""
    dataset_ref = DatasetRef("image_folder", str(folder))
    data = load(dataset_ref, SIDE, "squash")
    shapes = [decode(folder, file).size for file in data.index.files]
    assert any(width != height for width, height in shapes)
    for i, file in enumerate(data.index.files):
        picture = decode(folder, file)
        expected = np.asarray(torchvision.transforms.Resize((SIDE, SIDE))(picture))
        assert np.array_equal(data.pixels[i], expected)
        pillow = picture.resize((SIDE, SIDE), Image.Resampling.BILINEAR)
        assert np.array_equal(expected, np.asarray(pillow))
    assert not is_decoded(dataset_ref, SIDE)
    assert is_decoded(dataset_ref, SIDE, "squash")
    assert cache_folder(dataset_ref, SIDE) != cache_folder(dataset_ref, SIDE, "squash")
    assert cache_bytes(dataset_ref, SIDE, "squash") == 12 * SIDE * SIDE * 3
    assert "24x24 pixels" in list_caches()[0].holds
