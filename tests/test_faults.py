"""The fault matrix: whatever is killed, full, broken or away, a study ends as if nothing had happened.

One slot and one seed, so that the undisturbed study's own ledger is what every other one must come to.
"""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray
from driver import planned_slot
from invariants import check, check_ledger, story
from ray import cloudpickle
from rich.console import Console

import study.run
from analysis.exports import ranking_frame
from study import run_study
from study.config import StudyConfig, make
from study.ledger import LEDGER, events
from study.live import View
from study.presets import SMOKE, quickstart
from study.run import Finished
from study.storage import checkpoints, config_yaml
from trainables.artifacts import STATE

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]
faults = pytest.mark.faults
HERE = Path(__file__).parent
ROWS = 4 + 2 + 2  # about half of what the study does


def small(folder: Path, name: str, **changes: Any) -> StudyConfig:
    usual = {"losses": ["contrastive"], "search_trials": 3, "reproductions": 1, "epochs": 4, "grace": 1, "slots": 1, "baselines": False}
    return make(quickstart() | SMOKE | {"studies": str(folder), "name": name} | usual | changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One store for all studies here: a fresh one takes seconds."""
    return tmp_path_factory.mktemp("faults")


@pytest.fixture(scope="module", autouse=True)
def one_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Drivers in processes of their own find the same data as slots that this process brought up."""
    return str(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def same_home(one_home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRTRIAL_DATA", one_home)


def here(config: StudyConfig, plan: list[dict[str, Any]] | None = None, *, resume: bool = False) -> Finished:
    """Run it in this process, with the faults of the plan."""
    marks = Path(config.studies) / f"marks-{config.name}"
    marks.mkdir(exist_ok=True)
    cloudpickle.register_pickle_by_value(sys.modules["driver"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study.run, "Slot", planned_slot(plan or [], str(marks)))
        return run_study(config, resume=resume, view=View(config, Console(file=io.StringIO())))


class Driver:
    """A driver in a process of its own, on the shared Ray."""

    def __init__(self, config: StudyConfig, plan: list[dict[str, Any]] | None = None, *, resume: bool = False) -> None:
        self.folder = Path(config.studies) / config.name
        files = Path(config.studies) / f"files-{config.name}"
        (files / "marks").mkdir(parents=True, exist_ok=True)
        (files / "config.yaml").write_text(config_yaml(config))
        (files / "plan.json").write_text(json.dumps(plan or []))
        words = [str(files / "config.yaml"), str(files / "plan.json"), str(files / "marks"), *(["--resume"] if resume else [])]
        environment = {**os.environ, "RAY_ADDRESS": ray.get_runtime_context().gcs_address, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.log = (files / "log.txt").open("a")
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "driver.py"), *words], env=environment, stdout=self.log, stderr=self.log
        )

    def until(self, what: Callable[[list[dict[str, Any]]], bool]) -> Driver:
        """Wait until its ledger says so."""
        deadline = time.monotonic() + 240
        while not what(events(self.folder)):
            assert self.process.poll() is None, Path(self.log.name).read_text()
            assert time.monotonic() < deadline, Path(self.log.name).read_text()
            time.sleep(0.05)
        return self

    def end(self, number: int = 0) -> int:
        """Its exit code, after this signal."""
        if number:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout=240)
        finally:
            self.log.close()


def rows(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda told: sum(event["event"] == "row" for event in told) >= count


@pytest.fixture(scope="module")
def undisturbed(local_ray: Any, folder: Path, one_home: str) -> tuple[list[Any], str]:
    """What every study here must come to: its story and its table."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAIRTRIAL_DATA", one_home)
        done = run_study(config := small(folder, "undisturbed"), view=View(config, Console(file=io.StringIO())))
    check(done.folder)
    return story(done.folder), ranking_frame(done.rankings).to_csv()


def same(folder: Path, undisturbed: tuple[list[Any], str]) -> bool:
    return story(folder) == undisturbed[0] and (folder / "ranking.csv").read_text() == undisturbed_csv(folder)


def undisturbed_csv(folder: Path) -> str:
    return (folder.parent / "undisturbed" / "ranking.csv").read_text()


def spoil(folder: Path) -> None:
    """Everything that Ray and MLflow's mirror noted, cut in half."""
    for path in [*(folder / "ray").glob("*/*.json"), *(folder / "ray").glob("*/*.pkl"), folder / "mlflow.json"]:
        if path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def test_a_driver_is_killed_interrupted_and_terminated_and_its_files_cut_in_half(undisturbed: tuple[list[Any], str], folder: Path) -> None:
    config = small(folder, "killed")
    assert Driver(config).until(rows(2)).end(signal.SIGKILL) == -signal.SIGKILL
    spoil(folder / "killed")
    assert Driver(config, resume=True).until(rows(5)).end(signal.SIGINT) == 130
    check(folder / "killed", finished=False)
    assert Driver(config, resume=True).until(rows(ROWS)).end(signal.SIGTERM) == 143
    check(folder / "killed", finished=False)
    spoil(folder / "killed")
    assert Driver(config, resume=True).end() == 0
    check(folder / "killed")
    assert same(folder / "killed", undisturbed)
    assert sum(event["event"] == "resumed" for event in events(folder / "killed")) == 3


def test_a_trial_goes_on_after_its_process_died_at_a_step_and_at_a_save_and_storage_failed(
    undisturbed: tuple[list[Any], str], folder: Path
) -> None:
    plan = [
        {"trial": "search", "epoch": 2, "do": "sigkill"},
        {"trial": "final-1", "epoch": 3, "do": "sigkill", "at": "save"},
        {"trial": "final", "epoch": 1, "do": "oserror"},
    ]
    done = here(small(folder, "slots"), plan)
    assert len(list((folder / "marks-slots").iterdir())) == 3
    assert (done.failed, done.interrupted) == (0, False)
    check(done.folder)
    assert same(done.folder, undisturbed)


def test_a_full_disk_ends_a_study_that_goes_on_when_there_is_room(undisturbed: tuple[list[Any], str], folder: Path) -> None:
    config = small(folder, "full")
    done = here(config, [{"trial": "search", "epoch": 2, "do": "enospc", "at": "save"}])
    assert done.interrupted
    assert "No space left" in done.no_room
    check(done.folder, finished=False)
    assert here(config, resume=True).failed == 0
    check(done.folder)
    assert same(done.folder, undisturbed)


def test_a_trial_whose_checkpoint_is_broken_starts_over(undisturbed: tuple[list[Any], str], folder: Path) -> None:
    config = small(folder, "broken")
    plan = [{"trial": "search", "epoch": 3, "do": "enospc", "at": "save"}]
    done = here(config, plan)
    left = [
        path
        for key in {event["key"] for event in events(done.folder) if event["event"] == "trial"}
        for path in checkpoints(done.folder, key)
    ]
    assert left
    for path in left:
        (path / STATE).write_bytes(b"\0" * 100)
    assert not here(config, resume=True).interrupted
    check(done.folder)
    assert same(done.folder, undisturbed)


def test_a_trial_that_diverges_ends_with_the_worst_score_and_the_study_goes_on(local_ray: Any, folder: Path) -> None:
    done = here(small(folder, "diverges"), [{"trial": "search", "epoch": 2, "do": "nan"}])
    check_ledger(done.folder)
    ends = [event for event in events(done.folder) if event["event"] == "end"]
    assert next((event["outcome"], event["score"], event["epoch"]) for event in ends) == ("diverged", 0.0, 3)
    assert not done.interrupted


def test_a_second_driver_is_refused(local_ray: Any, folder: Path) -> None:
    config = small(folder, "two")
    first = Driver(config).until(rows(1))
    with pytest.raises(ValueError, match=f"is being run by process {first.process.pid}"):
        here(config, resume=True)
    assert first.end(signal.SIGKILL) == -signal.SIGKILL


def test_a_finished_study_is_shown_again_and_can_grow(local_ray: Any, folder: Path) -> None:
    config = small(folder, "grows", losses=["margin"], protocols=["fixed_validation"])
    first = here(config)
    again = here(config, resume=True)
    assert ranking_frame(again.rankings).to_csv() == ranking_frame(first.rankings).to_csv()
    assert events(first.folder)[-1]["event"] == "finished"
    more = small(folder, "grows", losses=["margin"], protocols=["fixed_validation"], reproductions=2, search_trials=4)
    grown = here(more, resume=True)
    check(grown.folder)
    assert grown.trials > first.trials
    assert any("were added after the test classes had been read" in note for ranking in grown.rankings for note in ranking.notes)


@faults
@pytest.mark.parametrize("moment", range(1, 17, 2))
def test_a_driver_killed_after_any_row(undisturbed: tuple[list[Any], str], folder: Path, moment: int) -> None:
    config = small(folder, f"after-{moment}")
    Driver(config).until(rows(moment)).end(signal.SIGKILL)
    assert Driver(config, resume=True).end() == 0
    check(folder / config.name)
    assert same(folder / config.name, undisturbed)


@faults
@pytest.mark.parametrize("seed", range(4))
def test_a_driver_killed_at_random_moments(undisturbed: tuple[list[Any], str], folder: Path, seed: int) -> None:
    """By the clock, so that a kill falls between a row and its checkpoint, into a start, into an end."""
    rng, config = random.Random(seed), small(folder, f"random-{seed}")
    driver = Driver(config).until(lambda told: bool(told))
    for _ in range(3):
        time.sleep(rng.uniform(0, 12))
        driver.end(signal.SIGKILL)
        driver = Driver(config, resume=True)
    assert driver.end() == 0
    check(folder / config.name)
    assert same(folder / config.name, undisturbed)


@faults
@pytest.mark.parametrize("rank", [0, 1])
def test_a_worker_of_a_group_is_killed(local_ray: Any, folder: Path, rank: int) -> None:
    plan = [{"trial": "search", "epoch": 2, "do": "sigkill", "rank": rank}, {"trial": "final-1", "epoch": 1, "do": "sigkill", "rank": rank}]
    done = here(small(folder, f"group-{rank}", workers=2), plan)
    assert (done.failed, done.interrupted) == (0, False)
    check(done.folder)


@faults
def test_a_node_is_lost(more_nodes: Callable[..., Any], local_ray: Any, folder: Path) -> None:
    node = more_nodes(num_cpus=2)
    config = small(folder, "node", slots=None, losses=["contrastive", "margin"])

    def lose() -> None:
        Driver.until(SimpleDriver(folder / "node"), rows(6))  # type: ignore[arg-type]
        local_ray.remove_node(node)

    thief = threading.Thread(target=lose)
    thief.start()
    done = here(config)
    thief.join()
    assert (done.failed, done.interrupted) == (0, False)
    check(done.folder)


class SimpleDriver:
    """Enough of a driver to wait for its ledger."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(["sleep", "600"])
        self.log = open(os.devnull)  # noqa: SIM115

    def __del__(self) -> None:
        self.process.kill()


@faults
def test_a_study_moved_elsewhere_goes_on(undisturbed: tuple[list[Any], str], folder: Path, tmp_path: Path) -> None:
    """As after the loss of a machine whose storage survived: the studies folder with its store, copied to another place."""
    config = small(tmp_path / "there", "moved")
    Driver(config).until(rows(5)).end(signal.SIGKILL)
    shutil.copytree(tmp_path / "there", tmp_path / "elsewhere")
    shutil.rmtree(tmp_path / "there")
    assert Driver(small(tmp_path / "elsewhere", "moved"), resume=True).end() == 0
    check_ledger(tmp_path / "elsewhere" / "moved")
    assert story(tmp_path / "elsewhere" / "moved") == undisturbed[0]
    assert LEDGER in {path.name for path in (tmp_path / "elsewhere" / "moved").iterdir()}
