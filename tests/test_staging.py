"""What a study reads is made ready before anything starts."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from study.preflight import PreflightError
from study.staging import stage
from tests.support.trees import folders, jpeg
from trainables.datasets import pixels
from trainables.datasets.decode import BrokenImageError

NAMES = [f"Käfer {letter}" for letter in "abcdefgh"]


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return folders(tmp_path / "meine Fotos", NAMES, images=3)


def test_images_are_decoded_once_and_the_second_time_is_quick(config, photos, monkeypatch):
    study = config(dataset="image_folder", data_root=str(photos))
    stage(study)
    assert pixels.cache_folder(study.origin("image_folder"), 256).is_dir()
    monkeypatch.setattr(pixels, "_build", lambda *_: pytest.fail("decoded again"))
    stage(study)


def test_a_bar_tells_what_takes_time(config, photos):
    screen = io.StringIO()
    stage(config(dataset="image_folder", data_root=str(photos)), Console(file=screen, force_terminal=True, width=100))
    assert "Decoding image_folder, once for this machine" in screen.getvalue()


def test_a_broken_image_ends_it_with_its_name(config, photos):
    (photos / NAMES[3] / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(BrokenImageError, match=r"broken\.jpg"):
        stage(config(dataset="image_folder", data_root=str(photos)))


def test_data_that_are_not_here_are_a_sentence_with_the_command(config):
    with pytest.raises(ValueError, match=r"cub200 is not here yet: `fairtrial data prepare cub200`"):
        stage(config(dataset="cub200"))


def test_a_disk_that_is_full_is_a_place_that_cannot_run_a_study(config, photos, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pixels, "_write", full)
    with pytest.raises(PreflightError, match=r"Images cannot be decoded into .* No space left on device\); set FAIRTRIAL_DATA"):
        stage(config(dataset="image_folder", data_root=str(photos)))


def test_one_more_picture_is_decoded_anew(config, photos):
    study = config(dataset="image_folder", data_root=str(photos))
    stage(study)
    first = pixels.cache_folder(study.origin("image_folder"), 256)
    jpeg(photos / NAMES[0] / "another.jpg", 9)
    pixels.index.cache_clear()
    stage(study)
    assert pixels.cache_folder(study.origin("image_folder"), 256) != first
