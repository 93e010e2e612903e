"""A place that cannot run a study is found before anything starts."""

from __future__ import annotations

import http.server
import os
import stat
import threading
from pathlib import Path

import pytest

from study.ledger import LEDGER, Ledger
from study.preflight import PreflightError, check_place, close_folder, study_folder, tracking_uri
from tests.conftest import MakeConfig


def test_a_finished_study_is_never_overwritten(config: MakeConfig) -> None:
    study = config(name="mine")
    folder = study_folder(study)
    folder.mkdir(parents=True)
    ledger = Ledger(folder / LEDGER)
    ledger.note("study")
    with pytest.raises(ValueError, match=r"'mine' was started before and did not finish.*--name mine-2"):
        study_folder(study)
    ledger.note("finished")
    with pytest.raises(ValueError, match=r"'mine' is finished.*fairtrial report mine"):
        study_folder(study)
    (folder.parent / "mine-2").mkdir()
    with pytest.raises(ValueError, match="--name mine-3"):
        study_folder(study)


@pytest.mark.parametrize("torn", [None, b"", b'{"event": "stu'])
def test_a_study_whose_driver_was_killed_before_its_first_line_is_begun_anew(config: MakeConfig, torn: bytes | None) -> None:
    study = config(name="mine")
    folder = study_folder(study)
    folder.mkdir(parents=True)
    for name in ("config.yaml", "config.yaml.new", "driver.json", "driver.json.123"):
        (folder / name).write_text("")
    (folder / "splits").mkdir()
    if torn is not None:
        (folder / LEDGER).write_bytes(torn)
    assert study_folder(study) == folder
    with pytest.raises(ValueError, match="leave out --resume to begin it"):
        study_folder(study, resume=True)


def test_a_folder_of_something_else_is_left_alone(config: MakeConfig) -> None:
    study = config(name="mine")
    study_folder(study).mkdir(parents=True)
    (study_folder(study) / "holiday.jpg").touch()
    with pytest.raises(ValueError, match=r"is no study.s folder, since it holds holiday\.jpg"):
        study_folder(study)


def test_a_studys_folder_is_closed_to_others_however_it_was_made(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    close_folder(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.stat

    def theirs(path: Path, **how: bool) -> os.stat_result:
        found = real(path, **how)
        return os.stat_result([*found[:4], 12345, *found[5:]]) if path == tmp_path else found

    monkeypatch.setattr(Path, "stat", theirs)
    with pytest.raises(PreflightError, match=f"belongs to user 12345, not {os.getuid()}; chown it"):
        close_folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(config: MakeConfig, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(PreflightError, match=r"must be writable, but .*file is not"):
        check_place(config(studies=str(tmp_path / "file" / "studies")))


def test_a_good_place_is_left_untouched(config: MakeConfig, tmp_path: Path) -> None:
    check_place(config())
    assert list(tmp_path.iterdir()) == []


def test_a_silent_tracking_server_is_refused(config: MakeConfig) -> None:
    with pytest.raises(PreflightError, match=r"MLflow server http://127.0.0.1:9 did not answer"):
        check_place(config(tracking_uri="http://127.0.0.1:9"))


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


def test_the_embedded_store_lies_in_the_studies_folder(config: MakeConfig, tmp_path: Path) -> None:
    assert tracking_uri(config()) == f"sqlite:///{tmp_path / 'studies' / 'mlflow.db'}"
    assert tracking_uri(config(tracking_uri="http://there")) == "http://there"
