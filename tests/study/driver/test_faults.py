"""The fault matrix: whatever is killed, full, broken or away, a study ends as if nothing had
happened.

One slot and one seed, so that the undisturbed study's own ledger is what every other one must come
to.
"""

from __future__ import annotations

import io
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from ray import cloudpickle
from ray.job_submission import JobSubmissionClient
from rich.console import Console
from typer.testing import CliRunner

import study.driver.study_run
from analysis.record.ledger import LedgerReader
from analysis.tables.ranking import ranking_table
from benchmarks.outage import Server
from study import run_study
from study.__main__ import app
from study.cli.submit import ENVIRONMENT
from study.config.plan import expand
from study.config.study_config import StudyConfig
from study.driver.checkpoints import checkpoints
from study.driver.folder import config_yaml
from study.ends.study_end import StudyResult
from study.view.live_view import LiveView
from tests.support.faulty_driver import planned_slot
from tests.support.invariants import check
from tests.support.killable_driver import Driver, Plan, rows, small, spoil, state_of, wait_for
from tests.support.record import story
from tests.support.trees import folders, jpeg
from tests.support.waiting import await_that
from trainables.outputs.checkpoints import FOLD

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
slow, long = pytest.mark.slow, pytest.mark.long
ROWS = 4 + 2 + 2  # about half of what the study does
Undisturbed = tuple[list[Any], str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all studies here: a fresh one takes seconds."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module", autouse=True)
def one_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Drivers in processes of their own find the same data as slots that this process brought
    up.
    """
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def same_home(one_home: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("FAIRTRIAL_DATA", one_home)
    yield
    Driver.end_all()


def here(config: StudyConfig, plan: Plan | None = None, *, resume: bool = False) -> StudyResult:
    """Run it in this process, with the faults of the plan."""
    marks = Path(config.studies) / f"marks-{config.name}"
    marks.mkdir(exist_ok=True)
    cloudpickle.register_pickle_by_value(sys.modules["tests.support.faulty_driver"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.driver.study_run, "Slot", planned_slot(plan or [], str(marks)))
        return run_study(
            config, resume=resume, view=LiveView(expand(config), Console(file=io.StringIO()))
        )


def happened(config: StudyConfig) -> int:
    """How many faults of the plan."""
    return len(list((Path(config.studies) / f"marks-{config.name}").iterdir()))


@pytest.fixture(scope="module")
def undisturbed(local_ray: Any, folder: Path, one_home: str) -> Undisturbed:
    """What every study here must come to: its story and its table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRTRIAL_DATA", one_home)
        done = run_study(
            config := small(folder, "undisturbed"),
            view=LiveView(expand(config), Console(file=io.StringIO())),
        )
    check(done.folder)
    return story(done.folder), (done.folder / "ranking.csv").read_text()


def same(folder: Path, undisturbed: Undisturbed) -> bool:
    return (story(folder), (folder / "ranking.csv").read_text()) == undisturbed


@slow
def test_a_driver_killed_in_mid_study_resumes_to_the_same_ledger_and_table(
    undisturbed: Undisturbed, folder: Path
) -> None:
    config = small(folder, "killed")
    assert Driver(config).until(rows(5)).end(signal.SIGKILL) == -signal.SIGKILL
    spoil(folder / "killed", 0.5)
    assert not here(config, resume=True).interrupted
    check(folder / "killed")
    assert same(folder / "killed", undisturbed)


@slow
def test_a_driver_is_killed_interrupted_and_terminated_and_its_files_are_cut_short(
    undisturbed: Undisturbed, folder: Path
) -> None:
    config = small(folder, "ended")
    assert Driver(config).until(rows(2)).end(signal.SIGKILL) == -signal.SIGKILL
    spoil(folder / "ended", 0.5)
    assert Driver(config, None, "--resume").until(rows(5)).end(signal.SIGINT) == 130
    check(folder / "ended", finished=False)
    terminated = Driver(config, None, "--resume").until(rows(ROWS))
    assert terminated.end(signal.SIGTERM) == 143
    assert "Interrupted. Nothing is lost" in terminated.log
    check(folder / "ended", finished=False)
    spoil(folder / "ended", 0.0)
    assert Driver(config, None, "--resume").end() == 0
    check(folder / "ended")
    assert same(folder / "ended", undisturbed)
    assert state_of(folder / "ended").drivers == 1 + 3


@slow
def test_a_trial_goes_on_after_its_process_died_at_a_step_and_at_a_save_and_storage_failed(
    undisturbed: Undisturbed, folder: Path
) -> None:
    plan = [
        {"trial": "search", "epoch": 2, "do": "sigkill"},
        {"trial": "final-1", "epoch": 3, "do": "sigkill", "at": "save"},
        {"trial": "final", "epoch": 1, "do": "oserror"},
    ]
    done = here(small(folder, "slots"), plan)
    assert happened(small(folder, "slots")) == 3
    assert (done.failed, done.interrupted) == (0, False)
    check(done.folder)
    assert same(done.folder, undisturbed)


@slow
def test_trials_that_were_never_saved_start_over_and_come_to_the_same(
    undisturbed: Undisturbed, folder: Path
) -> None:
    """A slot dies, then the driver, then a slot that is about to read the test classes."""
    config = small(folder, "unsaved", checkpoint_seconds=3600)
    plan = [{"trial": "search", "epoch": 2, "do": "sigkill"}]
    assert Driver(config, plan).until(rows(5)).end(signal.SIGKILL) == -signal.SIGKILL
    assert not list((folder / "unsaved").glob("ray/*/*/saved_*"))
    last = [{"trial": "final", "epoch": 4, "do": "sigkill"}]
    assert not here(config, last, resume=True).interrupted
    assert happened(config) == 1
    check(folder / "unsaved")
    assert same(folder / "unsaved", undisturbed)


@slow
def test_a_full_disk_ends_a_study_that_goes_on_when_there_is_room(
    undisturbed: Undisturbed, folder: Path
) -> None:
    config = small(folder, "full")
    done = here(config, [{"trial": "search", "epoch": 2, "do": "enospc", "at": "save"}])
    assert done.interrupted
    assert done.end is not None
    assert done.end.kind == "disk_full"
    assert "No space left" in done.end.about
    check(done.folder, finished=False)
    assert here(config, resume=True).failed == 0
    check(done.folder)
    assert same(done.folder, undisturbed)


@slow
def test_a_trial_whose_checkpoint_is_broken_starts_over(
    undisturbed: Undisturbed, folder: Path
) -> None:
    config = small(folder, "broken")
    plan = [{"trial": "search", "epoch": 3, "do": "enospc", "at": "save"}]
    done = here(config, plan)
    left = [
        path
        for trial in state_of(done.folder).trials.values()
        for path in checkpoints(done.folder, trial.id)
    ]
    assert left
    for path in left:
        (path / FOLD.format(0)).write_bytes(b"\0" * 100)
    assert not here(config, resume=True).interrupted
    check(done.folder)
    assert same(done.folder, undisturbed)


@slow
def test_a_trial_that_diverges_ends_with_the_worst_score_and_the_study_goes_on(
    local_ray: Any, folder: Path
) -> None:
    done = here(small(folder, "diverges"), [{"trial": "search", "epoch": 2, "do": "nan"}])
    check(done.folder)
    first = next(iter(state_of(done.folder).trials.values())).ended
    assert first is not None
    assert (first.outcome, first.score, first.epoch) == ("diverged", 0.0, 3)
    assert not done.interrupted


@slow
def test_a_second_driver_is_refused(local_ray: Any, folder: Path) -> None:
    config = small(folder, "two")
    first = Driver(config).until(rows(1))
    with pytest.raises(ValueError, match=f"is being run by process {first.process.pid}"):
        here(config, resume=True)
    assert first.until(rows(3)).end(signal.SIGTERM) == 143
    check(folder / "two", finished=False)


@slow
def test_a_finished_study_is_shown_again_and_can_grow(local_ray: Any, folder: Path) -> None:
    config = small(folder, "grows", losses=["margin"], protocols=["fixed_validation"])
    first = here(config)
    again = here(config, resume=True)
    assert (
        ranking_table(again.rankings).frame().to_csv()
        == ranking_table(first.rankings).frame().to_csv()
    )
    assert state_of(first.folder).finished
    more = small(
        folder,
        "grows",
        losses=["margin"],
        protocols=["fixed_validation"],
        reproductions=2,
        search_trials=4,
    )
    grown = here(more, resume=True)
    check(grown.folder)
    assert grown.trials > first.trials
    assert any(
        "were added after the test classes had been read" in note
        for ranking in grown.rankings
        for note in ranking.notes
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "shown"),
    [("learning_rate=0.5", "0.002 -> 0.5"), ("losses=margin", "['contrastive'] -> ['margin']")],
)
def test_a_changed_config_is_shown_and_refused(
    undisturbed: Undisturbed, folder: Path, change: str, shown: str
) -> None:
    said = CliRunner().invoke(
        app, ["run", "undisturbed", "--resume", "--set", f"studies={folder}", "--set", change]
    )
    assert said.exit_code == 2
    assert f"config {change.split('=')[0]}: {shown}" in said.stderr
    check(folder / "undisturbed")
    assert same(folder / "undisturbed", undisturbed)


@pytest.mark.slow
def test_trials_that_fail_are_told_by_the_exit_code(local_ray: Any, folder: Path) -> None:
    config = small(folder, "fails", protocols=["default"], epochs=1)
    driver = Driver(config, [{"trial": "final", "epoch": 0, "do": "fail"}])
    assert driver.end() == 3, driver.log
    assert "1 of 1 trials failed" in driver.log
    assert state_of(folder / "fails").outcomes == {"failed": 1}


@long
def test_a_study_that_has_no_place_says_so(local_ray: Any, folder: Path) -> None:
    driver = Driver(small(folder, "placeless", workers=8))
    assert driver.end() == 4
    assert "A trial needs 8 workers" in driver.log
    assert "Traceback" not in driver.log
    assert not (folder / "placeless").exists()


@long
def test_images_that_changed_are_shown_and_refused(
    local_ray: Any, folder: Path, tmp_path: Path
) -> None:
    root = folders(tmp_path / "images", "abcdefghijkl", images=4)
    config = small(folder, "images", dataset="image_folder", data_root=str(root), max_classes=None)
    assert Driver(config).until(rows(1)).end(signal.SIGKILL) == -signal.SIGKILL
    jpeg(root / "a" / "0.jpg", 77)
    driver = Driver(config, None, "--resume")
    assert driver.end() == 2
    assert "data image_folder: " in driver.log


@long
def test_a_running_study_is_stopped_and_cancelled(undisturbed: Undisturbed, folder: Path) -> None:
    config = small(folder, "asked")
    driver = Driver(config).until(rows(1))
    assert CliRunner().invoke(app, ["stop", "asked", "--studies", str(folder)]).exit_code == 0
    assert driver.end() == 130
    assert not state_of(folder / "asked").open_trials(), "what ran has finished"
    check(folder / "asked", finished=False)
    driver = Driver(config, None, "--resume").until(rows(ROWS))
    assert CliRunner().invoke(app, ["cancel", "asked", "--studies", str(folder)]).exit_code == 0
    assert driver.end() == 143
    check(folder / "asked", finished=False)
    assert Driver(config, None, "--resume").end() == 0
    check(folder / "asked")
    assert same(folder / "asked", undisturbed)


@long
@pytest.mark.parametrize("moment", range(1, 17, 2))
def test_a_driver_killed_after_any_row(undisturbed: Undisturbed, folder: Path, moment: int) -> None:
    config = small(folder, f"after-{moment}")
    assert Driver(config).until(rows(moment)).end(signal.SIGKILL) == -signal.SIGKILL
    assert Driver(config, None, "--resume").end() == 0
    check(folder / config.name)
    assert same(folder / config.name, undisturbed)


@long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", range(4))
def test_a_driver_killed_at_random_moments(
    undisturbed: Undisturbed, folder: Path, seed: int
) -> None:
    """By the clock, so that a kill falls between a row and its checkpoint, into a start, into an
    end.
    """
    rng, config, codes = random.Random(seed), small(folder, f"random-{seed}"), []
    driver = Driver(config).until(lambda state: state.drivers > 0)
    for longest in (4, 12, 12):
        time.sleep(rng.uniform(0, longest))
        codes.append(driver.end(signal.SIGKILL))
        driver = Driver(config, None, "--resume")
    assert codes[0] == -signal.SIGKILL
    assert set(codes) <= {-signal.SIGKILL, 0}, "a quick machine may be done before the last kill"
    assert driver.end() == 0
    check(folder / config.name)
    assert same(folder / config.name, undisturbed)


@slow
def test_a_slot_that_hangs_is_ended_and_its_trial_goes_on_elsewhere(
    undisturbed: Undisturbed, folder: Path
) -> None:
    config = small(folder, "hangs", stall_minutes=0.5)
    done = here(config, [{"trial": "search", "epoch": 2, "do": "sigstop"}])
    assert happened(config) == 1
    assert (done.failed, done.interrupted) == (0, False)
    stalls = [e for e in LedgerReader(done.folder).read() if type(e).__name__ == "TrialStalled"]
    assert [stall.seconds > 30 for stall in stalls] == [True]
    check(done.folder)
    assert same(done.folder, undisturbed)


@long
def test_a_trial_that_hangs_three_times_ends_without_a_score_and_the_study_goes_on(
    local_ray: Any, folder: Path
) -> None:
    config = small(folder, "stalls", search_trials=1, stall_minutes=0.4)
    driver = Driver(config, [{"trial": "search", "epoch": 2, "do": "stall"}])
    assert driver.end() == 3, driver.log
    assert driver.log.count("has made no progress since") == 3
    assert "third time: it ends as stalled" in driver.log
    assert "Traceback" not in driver.log
    state = state_of(folder / "stalls")
    assert (state.outcomes["stalled"], state.failed, state.finished) == (1, 1, True)


@long
def test_max_hours_end_a_study_that_is_resumed(undisturbed: Undisturbed, folder: Path) -> None:
    config = small(folder, "hours", max_hours=20 / 3600)
    driver = Driver(config)
    assert driver.end() == 124, driver.log
    assert "max_hours=0.00555556 have passed. Nothing is lost: `" in driver.log
    assert Driver(config, None, "--resume", "--set", "max_hours=").end() == 0
    check(folder / "hours")
    assert same(folder / "hours", undisturbed)


@long
@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_ray_dies_and_the_study_ends_with_one_sentence_and_goes_on(
    undisturbed: Undisturbed, folder: Path, name: str
) -> None:
    config = small(folder, f"without-{name}")
    driver = Driver(config, own_ray=True).until(rows(2))
    family = psutil.Process(driver.process.pid).children(recursive=True)
    next(process for process in family if process.name() == name).kill()
    began = time.monotonic()
    assert driver.end() == 4, driver.log
    assert time.monotonic() - began < 45, "Ray itself waits for a minute"
    assert "Ray died (" in driver.log
    again = f"run {config.name} --resume --set studies={folder}` resumes it."
    assert again in driver.log
    _, left = psutil.wait_procs(family, timeout=20)
    assert not left
    assert Driver(config, None, "--resume").end() == 0
    check(folder / config.name)
    assert same(folder / config.name, undisturbed)


@long
def test_a_disk_that_is_full_is_named_and_nothing_else_is_said(
    undisturbed: Undisturbed, tmp_path: Path
) -> None:
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", str(tmp_path)], check=False
    ).returncode:
        pytest.skip("only root mounts a small disk")
    try:
        config = small(tmp_path, "disk", epochs=400)
        driver = Driver(config).until(rows(1))
        with suppress(OSError), (tmp_path / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(2**16))
        assert driver.end() == 4, driver.log
        assert f"No space left on device: {tmp_path}" in driver.log
        assert "Nothing is lost: fix that, then `" in driver.log
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@long
def test_a_machine_is_lost_with_all_of_its_ray(undisturbed: Undisturbed, folder: Path) -> None:
    """The head of a cluster, too: the study goes on with another Ray."""
    config = small(folder, "head")
    assert Driver(config, own_ray=True).until(rows(ROWS)).end_with_its_ray() == -signal.SIGKILL
    assert Driver(config, None, "--resume").end() == 0
    check(folder / "head")
    assert same(folder / "head", undisturbed)


@long
@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_of_a_group_is_killed(local_ray: Any, folder: Path, rank: int) -> None:
    plan = [
        {"trial": "search", "epoch": 2, "do": "sigkill", "rank": rank},
        {"trial": "final-1", "epoch": 1, "do": "sigkill", "rank": rank},
    ]
    done = here(config := small(folder, f"group-{rank}", workers=2), plan)
    assert happened(config) == 2
    assert (done.failed, done.interrupted) == (0, False)
    check(done.folder)


@long
def test_a_node_is_lost(more_nodes: Callable[..., Any], local_ray: Any, folder: Path) -> None:
    node = more_nodes(num_cpus=2)
    config = small(folder, "node", slots=None, losses=["contrastive", "margin"])

    def lose() -> int:
        wait_for(folder / "node", rows(6))
        local_ray.remove_node(node, allow_graceful=False)
        return state_of(folder / "node").epochs

    with ThreadPoolExecutor() as pool:
        lost = pool.submit(lose)
        done = here(config)
        assert lost.result() < state_of(folder / "node").epochs, "the study went on after that"
    assert (done.failed, done.interrupted) == (0, False)
    check(done.folder)


@long
def test_mlflow_dies_in_mid_study_and_comes_back(
    undisturbed: Undisturbed, folder: Path, tmp_path: Path
) -> None:
    """Training does not wait for it: the study's rows go on while it is away."""
    server = Server(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts")
    try:
        driver = Driver(small(folder, "server", tracking_uri=server.uri)).until(rows(3))
        server.kill()
        away = state_of(folder / "server").epochs
        driver.until(lambda state: state.epochs > away + 4)
        server.start()
        assert driver.end() == 0, driver.log
        check(folder / "server")
        assert same(folder / "server", undisturbed)
    finally:
        server.kill()


@long
def test_a_job_that_ray_stops_is_interrupted_in_good_order(
    undisturbed: Undisturbed, local_ray: Any, folder: Path, one_home: str
) -> None:
    """Ray sends SIGTERM, and SIGKILL as soon as it has waited for what `fairtrial submit` asks it
    to wait.
    """
    config = small(folder, "job")
    (folder / "job.yaml").write_text(config_yaml(config))
    client = JobSubmissionClient(f"http://{local_ray.head_node.webui_url}")
    here = {"PYTHONPATH": os.pathsep.join(sys.path), "FAIRTRIAL_DATA": one_home}
    command = f"{sys.executable} -m study run {folder / 'job.yaml'} --set studies={folder}"
    job = client.submit_job(entrypoint=command, runtime_env={"env_vars": ENVIRONMENT | here})
    wait_for(
        folder / "job",
        rows(ROWS),
        lambda: client.get_job_logs(job) if client.get_job_status(job).is_terminal() else "",
    )
    client.stop_job(job)
    await_that(lambda: client.get_job_status(job).is_terminal())
    assert "Interrupted. Nothing is lost" in client.get_job_logs(job)
    check(folder / "job", finished=False)
    assert Driver(config, None, "--resume").end() == 0
    check(folder / "job")
    assert same(folder / "job", undisturbed)


@long
def test_a_study_moved_elsewhere_goes_on(undisturbed: Undisturbed, tmp_path: Path) -> None:
    """As after the loss of a machine whose storage survived: the studies folder with its store,
    copied to another place.
    """
    config = small(tmp_path / "there", "moved")
    assert Driver(config).until(rows(5)).end(signal.SIGKILL) == -signal.SIGKILL
    shutil.copytree(tmp_path / "there", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "there")
    assert Driver(small(tmp_path / "elsewhere", "moved"), None, "--resume").end() == 0
    check(tmp_path / "elsewhere" / "moved")
    assert same(tmp_path / "elsewhere" / "moved", undisturbed)
