"""Place the workers of a slot: on one node where a node is large enough, else close together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import ray

Resources = Mapping[str, float]  # of a node
ACCELERATOR, ANY = "accelerator_type:", 0.001  # a node has one of it, which a thousand can share


@dataclass(frozen=True)
class WorkerResources:
    """Say what each slot of a study needs from its cluster."""

    workers: int = 1
    gpus: float = 0.0  # of one worker
    cpus: int = 1  # of one worker
    folder: str = ""  # where Ray Train writes its files; all nodes can read it
    gpu_type: str | None = None  # accelerator type of the GPUs, in Ray's words

    @property
    def worker(self) -> dict[str, float]:
        """Return the resources of one worker, in Ray's words."""
        kind = {accelerator(self.gpu_type): ANY} if self.gpu_type else {}
        return {"CPU": float(self.cpus)} | ({"GPU": self.gpus} if self.gpus else {}) | kind


def accelerator(gpu_type: str) -> str:
    """Return the resource that Ray gives nodes with this type of accelerator."""
    return f"{ACCELERATOR}{gpu_type}"


def gpu_types(nodes: Iterable[Resources]) -> list[str]:
    """Return the accelerator types of these nodes."""
    kinds = {kind for node in nodes for kind in node if kind.startswith(ACCELERATOR)}
    return sorted(kind.removeprefix(ACCELERATOR) for kind in kinds)


def alive_nodes() -> list[Resources]:
    """Return the resources of every node that is alive now."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def fit_on(node: Resources, resources: WorkerResources) -> int:
    """Return how many workers fit on a node."""
    return min(_fits(node.get(kind, 0), need) for kind, need in resources.worker.items())


def _fits(available: float, need: float) -> int:
    """Return how often `need` fits; a share of a GPU must be on one GPU."""
    return int(available) * int(1 / need + 1e-9) if need < 1 else int(available / need + 1e-9)


def placement(nodes: Iterable[Resources], resources: WorkerResources) -> str:
    """Return how the workers of a slot are placed on these nodes, in Ray's words."""
    is_one_enough = any(fit_on(node, resources) >= resources.workers for node in nodes)
    return "STRICT_PACK" if is_one_enough else "PACK"
