"""Studies on a cluster of several nodes, on one machine: nodes come and go, workers die, and the
table is the right one.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import ray
from ray import cloudpickle
from ray.util.state import list_actors
from rich.console import Console

import study.driver.study_run
from analysis import read_study
from analysis.record.state import TrialState
from study import run_study
from study.config.plan import expand
from study.config.study_config import StudyConfig, make
from study.presets import SMOKE
from study.view.live_view import LiveView
from tests.support.actors import our_actors
from tests.support.studies import from_scratch
from tests.support.waiting import await_that
from trainables.workers.slot import Slot
from trainables.workers.worker import Worker

pytestmark = [
    pytest.mark.ray,
    pytest.mark.slow,
    pytest.mark.usefixtures("local_ray"),
    pytest.mark.timeout(600),
]
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # slots do not import tests
LOSSES = ["contrastive", "proxy_anchor"]


class Telling(Worker):
    """Leaves a mark for every epoch: node, loss, seed, epoch. On the head it goes on after an epoch
    once another node has a trial.
    """

    marks: Path
    head: str
    stays: bool  # on another node: at its first epoch, until the node is lost

    def step(self) -> dict[str, Any]:
        here = ray.get_runtime_context().get_node_id()
        while (
            here == self.head
            and self.learner.rows
            and all(mark.name.startswith(here) for mark in self.marks.iterdir())
        ):
            time.sleep(0.1)
        row = super().step()
        (self.marks / f"{here} {self.spec.cell.loss} {self.spec.seed} {row['epoch']}").touch()
        while here != self.head and self.stays:
            time.sleep(0.1)
        return row


@pytest.fixture
def marks(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where slots leave their marks. An indirect parameter says whether trials on other nodes
    stay.
    """
    about = {
        "marks": tmp_path,
        "head": ray.get_runtime_context().get_node_id(),
        "stays": getattr(request, "param", False),
    }
    monkeypatch.setattr(
        study.driver.study_run,
        "Slot",
        type("WatchedSlot", (Slot,), {"kind": type("Watched", (Telling,), about)}),
    )
    return tmp_path


class Meddling(LiveView):
    """Calls a function at every epoch of the study, until it returns True."""

    def __init__(self, config: StudyConfig, meddle: Callable[[int, TrialState, int], bool]) -> None:
        super().__init__(expand(config), Console(file=io.StringIO()))
        self.meddle, self.done, self.calls = meddle, False, 0

    def epoch_done(self, trial: TrialState) -> None:
        super().epoch_done(trial)
        self.calls += 1
        self.done = self.done or self.meddle(self.calls, trial, trial.epoch)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


def small(folder: Path, **changes: Any) -> StudyConfig:
    """Final trials of the published settings: their scores depend on nothing but their seeds."""
    fixed = {
        "losses": LOSSES,
        "protocols": ["fixed_validation"],
        "strategy": "fixed",
        "baselines": False,
        "searches": 1,
        "reproductions": 4,
        "epochs": 4,
    }
    return make(from_scratch() | SMOKE | {"studies": str(folder)} | fixed | changes)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], float]:
    """Test Recall@1 by loss and seed, from one undisturbed process."""
    config, worker, found = small(tmp_path_factory.mktemp("none"), name="none"), Worker(), {}
    plan = expand(config)
    for cell in plan.cells:
        for seed in plan.final_seeds:
            worker.begin(plan.spec(cell, "final", seed, plan.published(cell.loss)))
            while not (row := worker.step())["done"]:
                pass
            found[cell.loss, seed] = row["metrics"]["test/recall_at_1"]
    return found


def finished(
    config: StudyConfig, view: LiveView, expected: dict[tuple[str, int], float], *, within: float
) -> pd.DataFrame:
    """Runs the study; its trials, after a look at its table and curves."""
    done = run_study(config, view=view)
    assert (done.failed, done.interrupted) == (0, False)
    rows = read_study(done.tracking_uri, config.name)
    assert len(rows.trials) == len(expected)
    for trial in rows.trials.itertuples():
        assert trial.status == "FINISHED"
        (score,) = rows.trials.loc[rows.trials["run_id"] == trial.run_id, "test/recall_at_1"]
        assert score == pytest.approx(expected[trial.loss, trial.seed], abs=within)
        curve = rows.curves[
            (rows.curves["run_id"] == trial.run_id)
            & (rows.curves["metric"] == "select/recall_at_1")
        ]
        assert curve["epoch"].tolist() == [1, 2, 3, 4]
    for row in done.rankings[0].rows:
        mean = (
            sum(value for (loss, _), value in expected.items() if loss == row.loss)
            / config.reproductions
        )
        assert row.validation["recall_at_1"].value == pytest.approx(mean, abs=within)
    return rows.trials


@pytest.mark.parametrize("marks", [True], indirect=True, ids=["stays"])
def test_a_new_node_becomes_slots_and_a_lost_one_gives_its_trials_back(
    local_ray: Any,
    more_nodes: Any,
    folder: Path,
    expected: dict[tuple[str, int], float],
    marks: Path,
) -> None:
    config = small(folder, name="coming-and-going")
    added: list[Any] = []
    cut_off: list[
        tuple[str, int]
    ] = []  # loss and seed of the trial that was under way on the new node

    def meddle(calls: int, trial: TrialState, epoch: int) -> bool:
        if not added:
            added.append(more_nodes(num_cpus=1))
        told = [mark.name.split() for mark in marks.iterdir()]
        begun = {(loss, int(seed)) for node, loss, seed, _ in told if node == added[0].node_id}
        if under_way := begun - {
            (loss, int(seed)) for _, loss, seed, epoch in told if int(epoch) >= 3
        }:
            cut_off.extend(under_way)
            local_ray.remove_node(added[0], allow_graceful=False)
            return True
        return False

    view = Meddling(config, meddle)
    trials = finished(config, view, expected, within=1e-9)
    assert view.done, "no trial was begun on the new node"
    head = ray.get_runtime_context().get_node_id()
    ended = {(trial.loss, trial.seed): trial.nodes for trial in trials.itertuples()}
    assert [ended[trial] for trial in cut_off] == [head] * len(cut_off)


def test_trials_spread_over_the_nodes(
    more_nodes: Any, folder: Path, expected: dict[tuple[str, int], float], marks: Path
) -> None:
    more_nodes(num_cpus=2)
    config = small(folder, name="spread")
    trials = finished(config, Meddling(config, lambda *_: True), expected, within=1e-9)
    assert len(set(trials["nodes"])) == 2


def test_ddp_across_nodes_survives_a_killed_worker(
    more_nodes: Any, folder: Path, expected: dict[tuple[str, int], float]
) -> None:
    more_nodes(num_cpus=1)
    config = small(folder, name="three-workers", workers=3)

    def kill_a_worker(calls: int, trial: TrialState, epoch: int) -> bool:
        if calls < 6:
            return False
        workers = list_actors(
            filters=[("state", "=", "ALIVE"), ("class_name", "=", "RayTrainWorker")], detail=True
        )
        os.kill(workers[0].pid, signal.SIGKILL)
        return True

    view = Meddling(config, kill_a_worker)
    trials = finished(config, view, expected, within=0.01)
    assert view.done
    assert all(len(nodes.split()) == 3 for nodes in trials["nodes"])
    assert any(len(set(nodes.split())) == 2 for nodes in trials["nodes"])


def test_a_group_that_loses_a_node_goes_on_on_another(
    local_ray: Any, more_nodes: Any, folder: Path, expected: dict[tuple[str, int], float]
) -> None:
    first = more_nodes(num_cpus=1)
    config = small(folder, name="lost-node", workers=3)

    def lose_the_node(calls: int, trial: TrialState, epoch: int) -> bool:
        if calls < 6:
            return False
        more_nodes(num_cpus=1)
        local_ray.remove_node(first, allow_graceful=False)
        return True

    view = Meddling(config, lose_the_node)
    trials = finished(config, view, expected, within=0.01)
    assert view.done
    assert first.node_id in trials["nodes"].iloc[0]
    assert first.node_id not in trials["nodes"].iloc[-1]


def test_nothing_is_left_of_all_these_studies() -> None:
    await_that(
        lambda: not our_actors()
    )  # Ray Train's own helpers go a little later than their group
    await_that(lambda: ray.available_resources().get("CPU") == ray.cluster_resources()["CPU"])
