"""Count the slots of the Ray cluster that a study runs on: what one takes, and how many fit now."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import ray
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.experimental.internal_kv import _internal_kv_get
from ray.util.placement_group import (
    PlacementGroup,
    placement_group,
    placement_group_table,
    remove_placement_group,
)

from study.cluster.local_ray import agents, prepare_environment, start_ray
from study.cluster.ray_token import check_cluster, close_token
from study.config.study_config import StudyConfig
from study.errors import PreflightError
from trainables.workers.placement import (
    Resources,
    WorkerResources,
    accelerator,
    alive_nodes,
    fit_on,
    gpu_types,
    placement,
)

PLACEMENT_SECONDS = 45.0  # for a cluster of fixed size to free one slot
NOTICE_SECONDS = 30.0  # between two lines of a study that waits for nodes
COUNT_SECONDS = 2.0  # for which a count of the cluster's slots holds
MAX_CPUS = 16  # of a worker, unless the study says more
MAX_REQUESTS = 64  # slots to request beyond those that are there
# How Ray's autoscaler names nodes that it only watches, and machines of the user's own.
FIXED_NODES = ("node_", "local.cluster.node")


class SlotPool:
    """Count the slots that the cluster holds at this moment: nodes come and go while a study runs.

    load: returns how many trials run, and how many more could. A cluster that grows is asked for
    all of their slots at once, so that its nodes start together.
    """

    def __init__(
        self,
        resources: WorkerResources,
        *,
        limit: int | None,
        grows: bool,
        load: Callable[[], tuple[int, int]] = lambda: (0, 0),
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.resources, self.limit, self.grows, self.say = resources, limit, grows, say
        self.load = load
        self._counted = (-COUNT_SECONDS, 0)  # when, and how many
        self._without_slots = True  # at the last count, and the user knows
        self._requests: list[PlacementGroup] = []

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune pickles what its searcher holds, but never reads it."""
        return {}

    def slots(self) -> int:
        """Return how many trials may run now."""
        now = time.monotonic()
        if now - self._counted[0] > COUNT_SECONDS:
            self._counted = now, self._count()
        return self._counted[1]

    def _count(self) -> int:
        fit = count_slots(alive_nodes(), self.resources)
        if not fit and not self._without_slots:
            self.say(
                f"Waiting for a node: {_required(self.resources)}, but {_available()}; the study "
                f"continues when a trial fits, or with --resume."
            )
        self._without_slots = not fit
        if self.grows:
            self._request(self._missing(fit, *self.load()))
            fit += 1  # one more than fits: Tune asks for its resources
        return min(self.limit or fit, fit)

    def _missing(self, fit: int, running: int, ready: int) -> int:
        """Return how many slots to request beyond the one that Tune asks for.

        Request none while one is free, since a request keeps an idle node alive.
        """
        useful = min(self.limit or running + ready, running + ready)
        return min(MAX_REQUESTS, max(0, useful - fit - 1)) if running >= fit else 0

    def _request(self, count: int) -> None:
        """Keep `count` placement groups pending, because Ray's autoscaler counts these.

        One that is placed makes way for the trials; all of them end with this driver.
        """
        if not self._requests and not count:
            return
        known = placement_group_table()
        pending = [
            group
            for group in self._requests
            if known.get(group.id.hex(), {}).get("state") == "PENDING"
        ]
        for group in self._requests:
            if group not in pending[:count]:
                remove_placement_group(group)
        new = [
            placement_group(
                [self.resources.worker] * self.resources.workers,
                placement(alive_nodes(), self.resources),
            )
            for _ in range(count - len(pending))
        ]
        self._requests = pending[:count] + new

    def close(self) -> None:
        """Withdraw all requests."""
        self._request(0)

    def slot_resources(self) -> dict[str, float]:
        """Return the resources of the slot's own process.

        The workers of a group have their own. Tune insists on a request, so ask for a byte.
        """
        return self.resources.worker if self.resources.workers == 1 else {"memory": 1}


def count_slots(nodes: Iterable[Resources], resources: WorkerResources) -> int:
    """Return how many slots fit on these nodes.

    The workers of a slot are on one node where a node is large enough for them, else on several.
    """
    fit = [fit_on(node, resources) for node in nodes]
    return sum(each // resources.workers for each in fit) or sum(fit) // resources.workers


def cpus_per_worker(nodes: Iterable[Resources], gpus: float) -> int:
    """Return the CPUs of a worker with so many GPUs: the node's CPUs divided among its GPUs.

    The node with the fewest for each GPU counts. Without a GPU a worker has one CPU.
    """
    shares = [node.get("CPU", 0) / node["GPU"] for node in nodes if node.get("GPU")]
    return max(1, min(MAX_CPUS, int(min(shares) * gpus))) if gpus and shares else 1


def open_slot_pool(
    config: StudyConfig,
    say: Callable[[str], None],
    *,
    load: Callable[[], tuple[int, int]] = lambda: (0, 0),
) -> SlotPool:
    """Connect to Ray and wait until one slot can be placed.

    Ray is local unless RAY_ADDRESS is set, so that a study never joins a cluster by accident.
    """
    here = not ray.is_initialized() and os.environ.get("RAY_ADDRESS", "local") == "local"
    if not ray.is_initialized():
        _connect(config, say)
    folder = Path(config.studies).absolute() / config.name / "train"
    gpus = config.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
    grows = not here and autoscales()
    nodes = alive_nodes()
    if config.gpu_type:
        nodes = _nodes_with(config.gpu_type, nodes, grows=grows)
        gpus = gpus or 1.0
    cpus = config.cpus_per_worker or cpus_per_worker(nodes, gpus)
    resources = WorkerResources(config.workers, gpus, cpus, str(folder), config.gpu_type)
    pool = SlotPool(resources, limit=config.slots, grows=grows, load=load, say=say)
    limit = 0.0 if here and not pool.slots() else PLACEMENT_SECONDS
    _await_slot(pool, seconds=limit, say=say)
    return pool


def _nodes_with(gpu_type: str, nodes: Sequence[Resources], *, grows: bool) -> list[Resources]:
    """Return the nodes with this accelerator. Raise PreflightError if there will be none."""
    found = [node for node in nodes if accelerator(gpu_type) in node]
    if not found and not grows:
        known = gpu_types(nodes)
        cure = f"choose one of {', '.join(known)}" if known else "leave gpu_type out"
        raise PreflightError(
            f"gpu_type must be an accelerator type of the cluster, but it has no {gpu_type} "
            f"({', '.join(known) or 'and no other'}); {cure}."
        )
    return found


def _connect(config: StudyConfig, say: Callable[[str], None]) -> None:
    """Start a Ray of our own, or join the cluster that RAY_ADDRESS names."""
    address = os.environ.get("RAY_ADDRESS", "local")
    here = address == "local"
    slots, each = config.slots, config.workers * (config.cpus_per_worker or 1)
    cpus = (slots * each if slots else os.cpu_count()) if here else None
    # The dashboard's state API frees a worker group whose slot was killed; it listens on localhost.
    options = {
        "num_cpus": cpus,
        "include_dashboard": here and config.workers > 1,
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    connect = partial(ray.init, address, **options)
    try:
        if here:
            prepare_environment()
            start_ray(connect, say)
            agents.watch()
        else:
            check_cluster(address)
            connect()
    except (PreflightError, ValueError):
        raise
    except Exception as error:
        why = " ".join(str(error).split())
        cure = "try again when this machine has less to do" if here else "see that it runs"
        what = "Ray did not start" if here else f"the cluster at {address} did not answer"
        raise PreflightError(f"A study needs Ray, but {what} ({why}); {cure}.") from error
    close_token()


def _await_slot(pool: SlotPool, *, seconds: float, say: Callable[[str], None]) -> None:
    """Request the resources of one slot, which also tells an autoscaler what is missing."""
    bundles = [pool.resources.worker] * pool.resources.workers
    probe = placement_group(bundles, placement(alive_nodes(), pool.resources))
    began = noticed = time.monotonic()
    try:
        while not probe.wait(1):
            now = time.monotonic()
            required = _required(pool.resources)
            if pool.grows and now - noticed > NOTICE_SECONDS:
                say(f"Waiting for the cluster to grow: {required}; {_available()}.")
                noticed = now
            if not pool.grows and now - began >= seconds:
                raise PreflightError(
                    f"{required}, but {_available()}; ask for less with --set workers=N, or add a "
                    f"node."
                )
    finally:
        remove_placement_group(probe)


def _required(resources: WorkerResources) -> str:
    each = _listed(resources.worker)
    each += f" of type {resources.gpu_type}" if resources.gpu_type else ""
    return (
        f"A trial needs {each}"
        if resources.workers == 1
        else f"A trial needs {resources.workers} workers with {each} each"
    )


def _available() -> str:
    count, free = sum(node["Alive"] for node in ray.nodes()), ray.available_resources()
    nodes = f"{count} node{'s' * (count != 1)}"
    verb = "is" if len(_counted(free)) == 1 else "are"
    return (
        f"the Ray cluster has {_listed(ray.cluster_resources())} on {nodes}, of which "
        f"{_listed(free)} {verb} free"
    )


def _counted(resources: Resources) -> dict[str, float]:
    return {
        kind: resources.get(kind, 0.0)
        for kind in ("CPU", "GPU")
        if kind == "CPU" or resources.get(kind)
    }


def _listed(resources: Resources) -> str:
    return " and ".join(f"{amount:g} {kind}" for kind, amount in _counted(resources).items())


def autoscales() -> bool:
    """Return whether Ray adds nodes by itself.

    Its monitor writes which types of nodes there are; if it only watches, each node is its own
    type.
    """
    written = json.loads(_internal_kv_get("__autoscaling_status") or "{}")
    types = (written.get("autoscaler_report") or {}).get("node_type_mapping") or {}
    # A newer autoscaler, and KubeRay's, report there.
    status = get_cluster_status(ray.get_runtime_context().gcs_address)
    names = [
        *types.values(),
        *(node.ray_node_type_name for node in status.active_nodes + status.idle_nodes),
    ]
    return any(name and not name.startswith(FIXED_NODES) for name in names)
