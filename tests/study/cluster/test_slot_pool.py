"""Where a study has room: slots counted by node, a clear word where there is none, and patience
where nodes will come.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ray.util.placement_group import placement_group, placement_group_table, remove_placement_group

from study.cluster import slot_pool as module
from study.cluster.slot_pool import (
    MAX_CPUS,
    MAX_REQUESTS,
    SlotPool,
    autoscales,
    count_slots,
    cpus_per_worker,
    open_slot_pool,
)
from study.errors import PreflightError
from tests.conftest import MakeConfig
from tests.support.waiting import await_that
from trainables.workers.placement import WorkerResources, placement


@pytest.mark.parametrize(
    ("nodes", "resources", "slots"),
    [
        ([{"CPU": 4.0}], WorkerResources(), 4),
        ([{"CPU": 4.0}, {"CPU": 3.0}], WorkerResources(workers=2), 3),
        ([{"CPU": 1.0}, {"CPU": 1.0}], WorkerResources(workers=2), 1),  # one slot on two nodes
        ([{"CPU": 3.0}, {"CPU": 3.0}], WorkerResources(workers=2), 2),  # each stays on its node
        ([{"CPU": 8.0}], WorkerResources(cpus=3), 2),
        ([{"CPU": 1.0}], WorkerResources(workers=2), 0),
        ([{"CPU": 8.0}], WorkerResources(gpus=1.0), 0),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 8.0}], WorkerResources(gpus=1.0), 2),
        ([{"CPU": 8.0, "GPU": 1.0}], WorkerResources(gpus=0.25), 4),
        ([{"CPU": 8.0, "GPU": 1.0}], WorkerResources(gpus=0.1), 8),  # the CPUs end first
        (
            [{"CPU": 64.0, "GPU": 2.0}],
            WorkerResources(gpus=0.4),
            4,
        ),  # what is left of two GPUs does not add up
        (
            [{"CPU": 8.0, "GPU": 1.5}, {"CPU": 8.0, "GPU": 1.5}],
            WorkerResources(workers=2, gpus=1.0),
            1,
        ),  # halves do not add up
        (
            [{"CPU": 8.0, "GPU": 4.0, "accelerator_type:T4": 1.0}, {"CPU": 8.0, "GPU": 4.0}],
            WorkerResources(gpus=1.0, gpu_type="T4"),
            4,
        ),  # on nodes of this type only
        ([], WorkerResources(), 0),
    ],
)
def test_slots_are_counted_node_by_node(
    nodes: list[dict[str, float]], resources: WorkerResources, slots: int
) -> None:
    assert count_slots(nodes, resources) == slots


@pytest.mark.parametrize(
    ("nodes", "gpus", "cpus"),
    [
        ([{"CPU": 8.0}], 0.0, 1),
        ([{"CPU": 8.0, "GPU": 1.0}], 0.0, 1),
        ([{"CPU": 8.0, "GPU": 2.0}], 1.0, 4),
        ([{"CPU": 8.0, "GPU": 2.0}], 0.5, 2),
        ([{"CPU": 8.0, "GPU": 2.0}, {"CPU": 96.0, "GPU": 8.0}, {"CPU": 2.0}], 1.0, 4),
        ([{"CPU": 1.0, "GPU": 4.0}], 1.0, 1),
        ([{"CPU": 255.0, "GPU": 1.0}], 1.0, MAX_CPUS),
        ([], 1.0, 1),  # before the first GPU node is up
    ],
)
def test_a_worker_gets_the_cpus_that_belong_to_its_gpus(
    nodes: list[dict[str, float]], gpus: float, cpus: int
) -> None:
    assert cpus_per_worker(nodes, gpus) == cpus


def test_workers_stay_on_one_node_where_one_is_large_enough() -> None:
    two = WorkerResources(workers=2, gpus=1.0)
    assert placement([{"CPU": 8.0}, {"CPU": 8.0, "GPU": 2.0}], two) == "STRICT_PACK"
    assert placement([{"CPU": 8.0, "GPU": 1.0}] * 2, two) == placement([], two) == "PACK"


def test_a_slot_asks_for_its_worker_and_a_group_beside_it() -> None:
    assert SlotPool(WorkerResources(gpus=0.5), limit=None, grows=False).slot_resources() == {
        "CPU": 1.0,
        "GPU": 0.5,
    }
    assert (
        "CPU" not in SlotPool(WorkerResources(workers=2), limit=None, grows=False).slot_resources()
    )


@pytest.mark.parametrize(
    ("fit", "load", "limit", "asked"),
    [
        (1, (2, 30), None, 30),  # one waits in Tune already
        (1, (2, 30), 8, 6),
        (8, (8, 30), 8, 0),
        (1, (2, 5000), None, MAX_REQUESTS),
        (0, (1, 3), None, 3),  # all nodes were lost
        (4, (3, 30), None, 0),  # there is room
        (4, (4, 0), None, 0),  # nothing more could run
    ],
)
def test_a_cluster_that_grows_is_asked_for_all_that_could_run(
    fit: int, load: tuple[int, int], limit: int | None, asked: int
) -> None:
    assert SlotPool(WorkerResources(), limit=limit, grows=True)._missing(fit, *load) == asked


@pytest.mark.parametrize(
    ("kind", "grows"),
    [("gpu", True), ("node_0f3a", False), ("local.cluster.node", False), ("", False)],
)
def test_machines_of_ones_own_and_nodes_that_are_only_watched_do_not_grow(
    kind: str, grows: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = SimpleNamespace(active_nodes=[SimpleNamespace(ray_node_type_name=kind)], idle_nodes=[])
    written = json.dumps({"autoscaler_report": {"node_type_mapping": {"10.0.0.1": kind}}})
    monkeypatch.setattr(module.ray, "get_runtime_context", lambda: SimpleNamespace(gcs_address=""))
    nothing = SimpleNamespace(active_nodes=[], idle_nodes=[])
    for report, nodes in (
        (written, nothing),
        ("{}", status),
    ):  # the older autoscaler, the newer one
        monkeypatch.setattr(module, "_internal_kv_get", lambda key, report=report: report)
        monkeypatch.setattr(module, "get_cluster_status", lambda address, nodes=nodes: nodes)
        assert autoscales() == grows


def quiet(line: str) -> None:
    raise AssertionError(line)


def waiting() -> int:
    return [group["state"] for group in placement_group_table().values()].count("PENDING")


@pytest.mark.ray
@pytest.mark.usefixtures("local_ray")
class TestOnACluster:
    def test_the_limit_of_the_study_and_the_cluster_both_hold(
        self, config: MakeConfig, more_nodes: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(module, "COUNT_SECONDS", 0.0)
        assert open_slot_pool(config(), quiet).slots() == 2
        assert open_slot_pool(config(slots=1), quiet).slots() == 1
        pool = open_slot_pool(config(workers=2), quiet)
        assert pool.slots() == 1
        more_nodes(num_cpus=3)
        assert pool.slots() == 2
        assert open_slot_pool(config(slots=9), quiet).slots() == 5

    def test_what_is_asked_for_waits_and_what_is_placed_or_not_needed_any_more_is_given_back(
        self, more_nodes: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(module, "COUNT_SECONDS", 0.0)
        pool = SlotPool(WorkerResources(), limit=None, grows=True)
        pool.load = lambda: (3, 2)  # two run, one waits for a place in Tune, two more could run
        held = placement_group([{"CPU": 2}])  # by those that run
        assert held.wait(30)
        assert pool.slots() == 3
        assert waiting() == 2
        more_nodes(num_cpus=1)

        def one_waits() -> bool:
            assert pool.slots() <= 4
            return waiting() == 1

        await_that(one_waits)
        pool.load = lambda: (3, 0)
        pool.slots()
        assert waiting() == 0
        remove_placement_group(held)

    def test_what_has_no_place_on_a_fixed_cluster_says_what_is_asked_and_what_there_is(
        self, config: MakeConfig, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(module, "PLACEMENT_SECONDS", 1.0)
        assert not autoscales()
        with pytest.raises(PreflightError) as error:
            open_slot_pool(config(workers=3), quiet)
        assert str(error.value) == (
            "A trial needs 3 workers with 1 CPU each, but the Ray cluster has 2 CPU on 1 node, of "
            "which 2 CPU is free; "
            "ask for less with --set workers=N, or add a node."
        )
        with pytest.raises(
            PreflightError,
            match=r"A trial needs 1 CPU and 0\.5 GPU, but the Ray cluster has 2 CPU on 1 node",
        ):
            open_slot_pool(config(gpus_per_worker=0.5), quiet)

    def test_an_accelerator_type_that_the_cluster_lacks_is_refused_with_those_that_it_has(
        self, config: MakeConfig, monkeypatch: Any
    ) -> None:
        with pytest.raises(PreflightError) as error:
            open_slot_pool(config(gpu_type="A100"), quiet)
        assert str(error.value) == (
            "gpu_type must be an accelerator type of the cluster, but it has no A100 (and no "
            "other); leave gpu_type out."
        )
        nodes = [{"CPU": 8.0, "GPU": 1.0, "accelerator_type:T4": 1.0}]
        monkeypatch.setattr(module, "alive_nodes", lambda: nodes)
        with pytest.raises(PreflightError, match=r"it has no A100 \(T4\); choose one of T4\."):
            open_slot_pool(config(gpu_type="A100"), quiet)

    @pytest.mark.parametrize("grows", [False, True])
    def test_a_study_whose_nodes_are_lost_says_once_what_it_waits_for(
        self, monkeypatch: Any, grows: bool
    ) -> None:
        monkeypatch.setattr(module, "COUNT_SECONDS", 0.0)
        told: list[str] = []
        pool = SlotPool(WorkerResources(), limit=None, grows=grows, say=told.append)
        nodes = module.ray.nodes()
        for there, slots in ((nodes, 2), ([], 0), ([], 0), (nodes, 2)):
            monkeypatch.setattr(module.ray, "nodes", lambda there=there: there)
            assert pool.slots() == slots + grows
        assert len(told) == 1
        assert told[0].startswith(
            "Waiting for a node: A trial needs 1 CPU, but the Ray cluster has"
        )

    def test_a_cluster_that_grows_is_waited_for_and_the_wait_is_told(
        self, config: MakeConfig, more_nodes: Any, monkeypatch: Any
    ) -> None:
        monkeypatch.setattr(module, "NOTICE_SECONDS", 0.0)
        monkeypatch.setattr(module, "autoscales", lambda: True)
        told: list[str] = []

        def grow(line: str) -> None:
            told.append(line)
            if len(told) == 1:
                more_nodes(num_cpus=1)

        pool = open_slot_pool(config(workers=3), grow)
        assert told[0].startswith(
            "Waiting for the cluster to grow: A trial needs 3 workers with 1 CPU each; the Ray "
            "cluster has 2 CPU"
        )
        assert (
            pool.slots() == 2
        )  # one more than there is room for, so that the cluster goes on growing
