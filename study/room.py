"""Room: the Ray cluster that a study runs on, what one slot takes of it, and how many slots there are now."""

from __future__ import annotations

import getpass
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil
import ray
from ray.autoscaler.v2.sdk import get_cluster_status
from ray.experimental.internal_kv import _internal_kv_get
from ray.util.placement_group import PlacementGroup, placement_group, placement_group_table, remove_placement_group

from study.config import StudyConfig
from study.preflight import PreflightError
from trainables.contract import Crew

PATIENCE = 45.0  # seconds for a cluster of fixed size to make room
NEWS = 30.0  # seconds between two lines of a study that waits for nodes
FRESH = 2.0  # seconds for which a look at the cluster holds
AHEAD = 64  # places that are asked for beyond those that are there, at most
FIXED_NODES = ("node_", "local.cluster.node")  # so Ray's autoscaler names nodes that it only watches, and machines of one's own
STARTS = 4  # attempts to start a local Ray: on a busy machine its agents miss Ray's limit of 30 s
Resources = Mapping[str, float]
Started = TypeVar("Started")


class Room:
    """slots() counts what the cluster holds at this moment: nodes come and go while a study runs.

    load: trials that run, and more that could. A cluster that grows is asked for their places, so that nodes come together.
    """

    def __init__(self, crew: Crew, *, limit: int | None, grows: bool, say: Callable[[str], None] = lambda line: None) -> None:
        self.crew, self.limit, self.grows, self.say = crew, limit, grows, say
        self.load: Callable[[], tuple[int, int]] = lambda: (0, 0)
        self._seen = (-FRESH, 0)
        self._homeless = True  # no place was there at the last look, and that is known
        self._asked: list[PlacementGroup] = []

    def __getstate__(self) -> dict[str, Any]:
        """Tune pickles what its searcher knows, though nobody reads that."""
        return {}

    def slots(self) -> int:
        now = time.monotonic()
        if now - self._seen[0] > FRESH:
            self._seen = now, self._count()
        return self._seen[1]

    def _count(self) -> int:
        fit = places((node["Resources"] for node in ray.nodes() if node["Alive"]), self.crew)
        if not fit and not self._homeless:
            self.say(f"Waiting for a node: {_asked(self.crew)}, but {_there()}; the study goes on when there is room, or with --resume.")
        self._homeless = not fit
        if self.grows:
            self._ask(self._missing(fit, *self.load()))
            fit += 1  # one more than there is room for: Tune asks for its place
        return min(self.limit or fit, fit)

    def _missing(self, fit: int, running: int, ready: int) -> int:
        """Places beyond the one that Tune asks for; none while one is free: what is asked for keeps an idle node from going."""
        useful = min(self.limit or running + ready, running + ready)
        return min(AHEAD, max(0, useful - fit - 1)) if running >= fit else 0

    def _ask(self, count: int) -> None:
        """Ray's autoscaler counts what waits for a place. What has got one gives it to the trials; all of it ends with this driver."""
        if not self._asked and not count:
            return
        known = placement_group_table()
        waits = [group for group in self._asked if known.get(group.id.hex(), {}).get("state") == "PENDING"]
        for group in self._asked:
            if group not in waits[:count]:
                remove_placement_group(group)
        new = [placement_group([self.crew.worker] * self.crew.workers) for _ in range(count - len(waits))]
        self._asked = waits[:count] + new

    def close(self) -> None:
        self._ask(0)

    def slot_resources(self) -> dict[str, float]:
        """Of the slot's own process; a group's workers have theirs beside it. Tune wants something asked for: a byte."""
        return self.crew.worker if self.crew.workers == 1 else {"memory": 1}


def places(nodes: Iterable[Resources], crew: Crew) -> int:
    """How many slots fit on these nodes; a worker needs one node, a slot's workers may sit on several."""
    return sum(min(_fits(node.get(kind, 0), need) for kind, need in crew.worker.items()) for node in nodes) // crew.workers


def _fits(there: float, need: float) -> int:
    """A share of a GPU lies on one of them."""
    return int(there) * int(1 / need + 1e-9) if need < 1 else int(there / need + 1e-9)


def find_room(config: StudyConfig, say: Callable[[str], None]) -> Room:
    """Connects to Ray, and waits until one slot can be placed. Local unless RAY_ADDRESS is set: no cluster is joined by accident."""
    address = os.environ.get("RAY_ADDRESS", "local")
    here = not ray.is_initialized() and address == "local"
    if not ray.is_initialized():
        cpus = (config.slots * config.workers if config.slots else os.cpu_count()) if here else None
        # The state API of the dashboard is what frees a worker group whose slot was killed; it listens on localhost.
        options = {"num_cpus": cpus, "include_dashboard": here and config.workers > 1, "log_to_driver": False, "logging_level": "ERROR"}
        connect = partial(ray.init, address, **options)
        if here:
            start_ray(connect, say)
        else:
            connect()
        close_token()
    folder = Path(config.studies).absolute() / config.name / "train"
    gpus = config.gpus_per_worker
    if gpus is None:
        gpus = 1.0 if ray.cluster_resources().get("GPU") else 0.0
    crew = Crew(workers=config.workers, gpus=gpus, folder=str(folder))
    room = Room(crew, limit=config.slots, grows=not here and autoscales(), say=say)
    _await_place(room, patience=0.0 if here and not room.slots() else PATIENCE, say=say)
    return room


def start_ray(start: Callable[[], Started], say: Callable[[str], None]) -> Started:
    """Call `start` until it succeeds, at most STARTS times, and return what it returns. Kill what a failed attempt left running."""
    for attempt in range(1, STARTS):
        before = set(psutil.Process().children())
        try:
            return start()
        except (ValueError, PermissionError):  # no second start mends these
            raise
        except Exception as error:
            why = " ".join(str(error).split())
            say(f"Ray did not come up ({why}), perhaps because this machine is busy; starting it again ({attempt} of {STARTS - 1}).")
            left = [each for process in set(psutil.Process().children()) - before for each in _ray_family(process)]
            ray.shutdown()
            for process in left:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(left, timeout=10)
    return start()


def _ray_family(process: psutil.Process) -> list[psutil.Process]:
    """A process of Ray's with all that it started; none if it is another's, or gone."""
    with suppress(psutil.NoSuchProcess):
        if any("ray" in word for word in process.cmdline()):
            return [process, *process.children(recursive=True)]
    return []


def token_path() -> Path:
    """Where Ray keeps the word that lets one into a cluster of this user."""
    return Path(os.environ.get("RAY_AUTH_TOKEN_PATH", "~/.ray/auth_token")).expanduser()


def close_token() -> None:
    """Ray makes the file readable for everyone on the machine."""
    path = token_path()
    if path.exists() and path.owner() == getpass.getuser() and path.stat().st_mode & 0o077:
        path.chmod(0o600)


def _await_place(room: Room, *, patience: float, say: Callable[[str], None]) -> None:
    """Asks Ray for the place of one slot, which also tells an autoscaler what is missing."""
    probe = placement_group([room.crew.worker] * room.crew.workers)
    began = told = time.monotonic()
    try:
        while not probe.wait(1):
            now = time.monotonic()
            if room.grows and now - told > NEWS:
                say(f"Waiting for the cluster to grow: {_asked(room.crew)}; {_there()}.")
                told = now
            if not room.grows and now - began >= patience:
                raise PreflightError(f"{_asked(room.crew)}, but {_there()}; ask for less with --set workers=N, or add a node.")
    finally:
        remove_placement_group(probe)


def _asked(crew: Crew) -> str:
    each = _listed(crew.worker)
    return f"A trial needs {each}" if crew.workers == 1 else f"A trial needs {crew.workers} workers with {each} each"


def _there() -> str:
    nodes = sum(node["Alive"] for node in ray.nodes())
    return f"the Ray cluster has {_listed(ray.cluster_resources())} on {nodes} node{'s' * (nodes != 1)}, of which {_free()} free"


def _free() -> str:
    return f"{_listed(ray.available_resources())} {'is' if len(_counted(ray.available_resources())) == 1 else 'are'}"


def _counted(resources: Resources) -> dict[str, float]:
    return {kind: resources.get(kind, 0.0) for kind in ("CPU", "GPU") if kind == "CPU" or resources.get(kind)}


def _listed(resources: Resources) -> str:
    return " and ".join(f"{amount:g} {kind}" for kind, amount in _counted(resources).items())


def autoscales() -> bool:
    """Whether Ray adds nodes by itself. Its monitor writes what kinds of nodes there are; if it only watches, each is its own kind."""
    written = json.loads(_internal_kv_get("__autoscaling_status") or "{}")
    kinds = (written.get("autoscaler_report") or {}).get("node_type_mapping") or {}
    status = get_cluster_status(ray.get_runtime_context().gcs_address)  # by a newer autoscaler, and by KubeRay's
    names = [*kinds.values(), *(node.ray_node_type_name for node in status.active_nodes + status.idle_nodes)]
    return any(name and not name.startswith(FIXED_NODES) for name in names)
