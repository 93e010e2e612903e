"""A bad place for a study is found, and what trials read is made ready, before anything starts."""

from __future__ import annotations

import http.server
import io
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from analysis.record.ledger import Ledger
from study.config.plan import StudyPlan, expand
from study.driver import preflight
from study.driver.preflight import check_place, prepare, stage
from study.errors import PreflightError
from tests.conftest import MakeConfig
from tests.support.events import study_started
from tests.support.trees import folders, jpeg
from trainables.datasets import pixels
from trainables.datasets.decode import BrokenImageError
from trainables.networks.backbones import BACKBONES

NAMES = [f"Käfer {letter}" for letter in "abcdefgh"]


def test_a_folder_that_cannot_be_made_is_refused(config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PreflightError, match=r"must be writable, but .*file is not"):
        check_place(config(studies=str(tmp_path / "file" / "studies")))


def test_a_good_place_is_left_untouched(config: MakeConfig, tmp_path: Path) -> None:
    check_place(config())
    assert list(tmp_path.iterdir()) == []


def test_a_compiled_study_needs_a_compiler(
    config: MakeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_place(config(compile=False))
    monkeypatch.setenv("CXX", "no-such-compiler")
    check_place(config(compile=False))
    with pytest.raises(PreflightError, match=r"compile=true needs a C\+\+ compiler, but there is"):
        check_place(config(compile=True))


def test_a_silent_tracking_server_is_refused_without_its_password(config: MakeConfig) -> None:
    with pytest.raises(PreflightError, match=r"MLflow server http://127.0.0.1:9 did not answer"):
        check_place(config(tracking_uri="http://me:secret@127.0.0.1:9"))


def test_a_tracking_server_that_answers_is_accepted(config: MakeConfig) -> None:
    class Health(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Health)
    threading.Thread(target=server.handle_request, daemon=True).start()
    check_place(config(tracking_uri=f"http://127.0.0.1:{server.server_port}"))
    server.server_close()


def test_a_prepared_study_has_its_plan_and_a_folder_of_its_own(config: MakeConfig) -> None:
    study = config(name="mine")
    prepared = prepare(study)
    assert prepared.plan.config == study
    assert prepared.folder == Path(study.studies) / "mine"
    assert stat.S_IMODE(prepared.folder.stat().st_mode) == 0o700


def test_a_study_that_has_begun_is_prepared_to_be_resumed_and_no_other_is(
    config: MakeConfig,
) -> None:
    study = config(name="mine")
    with pytest.raises(ValueError, match="There is no study 'mine'"):
        prepare(study, resume=True)
    folder = prepare(study).folder
    Ledger(folder).append(study_started())
    assert prepare(study, resume=True).folder == folder
    with pytest.raises(ValueError, match="'mine' was started before"):
        prepare(study)


def test_a_study_that_cannot_start_leaves_nothing_behind(
    config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name and the place are asked for before anything is decoded, the folder is made last."""

    def away(plan: StudyPlan, console: Console | None) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(preflight, "stage", away)
    with pytest.raises(PreflightError, match="did not answer"):
        prepare(config(tracking_uri="http://127.0.0.1:9"))
    with pytest.raises(ConnectionError, match="no network"):
        prepare(config())
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    return folders(tmp_path / "meine Fotos", NAMES, images=3)


def plan_of(config: MakeConfig, photos: Path) -> StudyPlan:
    return expand(config(dataset="image_folder", data_root=str(photos)))


def test_images_are_decoded_once_and_the_second_time_is_quick(
    config: MakeConfig, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(config, photos)
    stage(plan)
    assert pixels.cache_folder(plan.dataset_ref("image_folder"), 256).is_dir()
    monkeypatch.setattr(pixels, "_build", lambda *_: pytest.fail("decoded again"))
    stage(plan)


def test_a_bar_says_what_takes_time(config: MakeConfig, photos: Path) -> None:
    screen = io.StringIO()
    stage(plan_of(config, photos), Console(file=screen, force_terminal=True, width=100))
    assert "Decoding image_folder, once for this machine" in screen.getvalue()


def test_a_broken_image_ends_it_with_its_name(config: MakeConfig, photos: Path) -> None:
    (photos / NAMES[3] / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(BrokenImageError, match=r"broken\.jpg"):
        stage(plan_of(config, photos))


def test_data_that_are_not_here_are_a_sentence_with_the_command(config: MakeConfig) -> None:
    with pytest.raises(
        ValueError, match=r"cub200 is not here yet: `fairtrial data prepare cub200`"
    ):
        prepare(config(dataset="cub200"))


def test_a_disk_that_is_full_is_a_place_that_cannot_run_a_study(
    config: MakeConfig, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pixels, "_write", full)
    with pytest.raises(
        PreflightError,
        match=r"Images cannot be decoded into .* No space left on device\); set FAIRTRIAL_DATA",
    ):
        stage(plan_of(config, photos))


def test_one_more_picture_is_decoded_anew(config: MakeConfig, photos: Path) -> None:
    plan = plan_of(config, photos)
    stage(plan)
    first = pixels.cache_folder(plan.dataset_ref("image_folder"), 256)
    jpeg(photos / NAMES[0] / "another.jpg", 9)
    pixels.index.cache_clear()
    stage(plan)
    assert pixels.cache_folder(plan.dataset_ref("image_folder"), 256) != first


def test_a_weight_file_is_held_against_the_trunk_for_the_datasets_channels(
    config: MakeConfig, tmp_path: Path
) -> None:
    for channels in (1, 3):
        trunk, _ = BACKBONES["tiny"].build(channels)
        torch.save(trunk.state_dict(), tmp_path / f"{channels}.pth")
    stage(expand(config(weights=str(tmp_path / "1.pth"))))
    with pytest.raises(ValueError, match=r"3\.pth must hold .* has another shape for 1\.weight"):
        stage(expand(config(weights=str(tmp_path / "3.pth"))))
