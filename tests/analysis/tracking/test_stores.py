"""The stores that people use: SQLite with many writers, and a real MLflow server on PostgreSQL that
dies and comes back.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from analysis import read_study
from analysis.record.events import StudyFinished, encode
from analysis.record.trial_id import TrialId
from analysis.tracking.write import STARTED
from benchmarks.outage import Server, free_port
from study.driver.preflight import ask_server
from tests.conftest import MakeConfig
from tests.support.events import CELL, trial_started
from tests.support.record import WrittenStudy
from tests.support.waiting import await_that

PROCESSES, THREADS, ROWS = 6, 2, 60
WRITER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from analysis.tracking import Tracker
import mlflow.store.tracking.sqlalchemy_store

def write(name):
    tracker = Tracker(sys.argv[1], name, artifacts=Path(sys.argv[2]))
    tracker.start_cell("c", params={{}}, tags={{"cell": "c"}}, files={{}})
    spec = '{{"splits": [], "training": {{}}}}'
    files = {{"spec.json": spec}}
    tracker.start_trial("t", cell="c", name="t", params={{}}, tags=TAGS, files=files)
    for step in range({rows}):
        tracker.log_points("t", [("select/recall_at_1", step / 100, step, 1000 + step)])
    tracker.end("t", "FAILED")

TAGS = {tags!r}
print("ready", flush=True)
sys.stdin.readline()
with ThreadPoolExecutor() as pool:
    list(pool.map(write, sys.argv[3:]))
"""


def write_at_once(uri: str, folder: Path) -> None:
    """Twelve writers in several processes, each with a study of its own; all begin when the last
    process is ready.
    """
    trial = TrialId(CELL, "search", 0)
    started = encode(trial_started(trial)).decode()
    tags = {"cell": "c", "trial": trial.name, "dataset": CELL.dataset, "data": "f"}
    code = WRITER.format(tags=tags | {STARTED: started}, rows=ROWS)
    names = [[f"study-{i}-{j}" for j in range(THREADS)] for i in range(PROCESSES)]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    writers = [
        subprocess.Popen([sys.executable, "-c", code, uri, str(folder), *own], text=True, **pipes)
        for own in names
    ]
    assert [writer.stdout.readline() for writer in writers] == ["ready\n"] * PROCESSES
    for writer in writers:
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        _, error = writer.communicate(timeout=280)
        assert writer.returncode == 0, error
    for name in (name for own in names for name in own):
        curves = read_study(uri, name).curves
        assert curves[curves["metric"] == "select/recall_at_1"]["epoch"].tolist() == list(
            range(ROWS)
        ), name


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_twelve_writers_in_several_processes_make_one_sqlite_store_together_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    """Left to itself, MLflow tells most of those that find no store of a table that exists
    already.
    """
    write_at_once(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path)


def program(name: str) -> str | None:
    """The distribution puts PostgreSQL's programs beside the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else shutil.which(name)


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """A PostgreSQL of our own, on a socket in a folder of its own; it refuses to run as root."""
    if not program("initdb"):
        pytest.skip("PostgreSQL is not installed: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    if user:
        shutil.chown(folder, "postgres")
    port = free_port()
    subprocess.run(
        [*user, str(program("initdb")), "-D", f"{folder}/data", "-U", "fair", "-A", "trust"],
        check=True,
        capture_output=True,
    )
    options = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
    start = [*user, str(program("pg_ctl")), "-D", f"{folder}/data", "-l", f"{folder}/log", "-w"]
    subprocess.run([*start, "-o", options, "start"], check=True, capture_output=True)
    yield f"postgresql+psycopg2://fair@127.0.0.1:{port}/postgres"
    subprocess.run([*start, "-m", "immediate", "stop"], check=True, capture_output=True)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def server(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(postgres, tmp_path_factory.mktemp("artifacts"))
    yield server
    server.kill()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_server_on_postgresql_that_is_killed_in_mid_study_and_comes_back_has_everything_once(
    server: Server, config: MakeConfig
) -> None:
    written = WrittenStudy(
        config(losses=["triplet"], name="on-postgres", reproductions=2, tracking_uri=server.uri)
    )
    written.begin()
    mirror = written.mirror()
    written.trial(0)
    server.kill()
    written.trial(1)  # returns: it only goes to the disk
    written.trial(2)
    written.record.note(StudyFinished())
    await_that(lambda: mirror.failure)  # the server was away when something was to be written
    server.start()
    mirror.close()
    written.check(finished=True)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_studies_write_to_the_server_at_once(
    server: Server, config: MakeConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    ask_server(server.uri)
    both = [
        WrittenStudy(
            config(losses=["triplet"], name=f"pg-{i}", reproductions=2, tracking_uri=server.uri)
        )
        for i in range(2)
    ]
    for each in both:
        each.begin()
    mirrors = [each.mirror() for each in both]
    with ThreadPoolExecutor() as pool:
        list(pool.map(WrittenStudy.finish, both))
    for mirror in mirrors:
        mirror.close()
    for each in both:
        each.check(finished=True)
    assert not capsys.readouterr().out, "MLflow has a word for every run that ends"
