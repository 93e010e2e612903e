"""Compute the features of a frozen trunk by Ray tasks on all nodes, and keep them on each node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import ray
from filelock import Timeout
from ray.exceptions import RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from trainables.distributed.process import prepare_process, take_gpus
from trainables.fetch import ProgressCallback
from trainables.inputs.feature_cache import PART, FeaturePass, Floats, compute_part
from trainables.workers.placement import WorkerResources

AT_ONCE = 2  # parts that wait for each worker, so that none idles
SIGN_SECONDS = 0.5  # between two calls of progress, also while the first workers start


def extract_on_ray(
    wanted: FeaturePass,
    *,
    gpus: float,
    gpu_type: str | None = None,
    progress: ProgressCallback,
    say: Callable[[str], None],
) -> None:
    """Compute the features unless this machine has them, then give them to all other nodes.

    Every part is kept as soon as it is there, so a run that is killed continues after it.
    """
    if not wanted.is_cached:
        with _locked(wanted, progress, say):
            if not wanted.is_cached:  # while this one waited, another process did it
                _compute(wanted, WorkerResources(gpus=gpus, gpu_type=gpu_type), progress)
                wanted.finish()
    _share(wanted)


@contextmanager
def _locked(
    wanted: FeaturePass, progress: ProgressCallback, say: Callable[[str], None]
) -> Iterator[None]:
    """Lock the features; if another process has them, say so and show how far it is."""
    lock = wanted.lock()
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say("Another process computes the same features; waiting for it.")
        while not lock.is_locked:
            done = 0 if wanted.is_cached else len(wanted.parts) - len(wanted.missing())
            if done:
                progress(min(done * PART, len(wanted.ids)), len(wanted.ids))
            with suppress(Timeout):
                lock.acquire(timeout=SIGN_SECONDS)
    try:
        yield
    finally:
        lock.release()


def _compute(wanted: FeaturePass, each: WorkerResources, progress: ProgressCallback) -> None:
    missing, gpus = wanted.missing(), each.gpus
    done, total = len(wanted.parts) - len(missing), len(wanted.ids)
    options: dict[str, Any] = {"num_cpus": 1, "num_gpus": gpus, "scheduling_strategy": "SPREAD"}
    if each.gpu_type:
        options["accelerator_type"] = each.gpu_type
    task = ray.remote(**options)(_part)
    at_once = AT_ONCE * max(1, int(ray.cluster_resources().get("GPU" if gpus else "CPU", 1)))
    running: dict[Any, int] = {}
    try:
        while missing or running:
            while missing and len(running) < at_once:
                number = missing.pop(0)
                running[task.remote(wanted, number, gpus)] = number
            progress(min(done * PART, total), total)
            for ref in ray.wait(list(running), timeout=SIGN_SECONDS)[0]:
                wanted.keep(running.pop(ref), ray.get(ref))
                done += 1
        progress(total, total)
    except RayTaskError as error:
        raise error.cause from None
    finally:
        for ref in running:
            with suppress(Exception):  # it may be over by now
                ray.cancel(ref, force=True)


def _part(wanted: FeaturePass, number: int, gpus: float) -> Floats:
    take_gpus(gpus)
    prepare_process()
    return compute_part(wanted, number)


def _share(wanted: FeaturePass) -> None:
    """Write the features on every node that does not have them."""
    here = ray.get_runtime_context().get_node_id()
    others = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["NodeID"] != here]
    if not others:
        return
    features = ray.put(wanted.open()[0])
    store = ray.remote(num_cpus=0)(_store)
    places = [NodeAffinitySchedulingStrategy(node, soft=True) for node in others]
    ray.get([store.options(scheduling_strategy=place).remote(wanted, features) for place in places])


def _store(wanted: FeaturePass, features: Floats) -> None:
    with wanted.lock():
        if not wanted.is_cached:
            wanted.write(features)
