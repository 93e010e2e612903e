"""Serve as a Ray Train worker of a group: take commands from the mailbox and answer them."""

from __future__ import annotations

import traceback
import uuid
from contextlib import suppress
from typing import Any

import ray

from trainables.distributed.gpu_memory import lacks_memory
from trainables.distributed.process import device_name, take_gpus
from trainables.workers.mailbox import GroupLost, OutOfMemory, Place
from trainables.workers.worker import Worker


def serve(config: dict[str, Any]) -> None:
    """Serve a mailbox until it says stop, or is gone."""
    with suppress(ray.exceptions.RayActorError):
        _serve(config)


def _serve(config: dict[str, Any]) -> None:
    from ray import train

    from trainables.distributed.team import Team

    take_gpus(config["gpus"])
    mailbox, context = config["mailbox"], train.get_context()
    team = Team(context.get_world_rank(), context.get_world_size())
    worker = config["worker"](team)
    token = team.gather_objects(uuid.uuid4().hex)[0]
    here = ray.get_runtime_context()
    place = Place(here.get_node_id(), device_name())
    joined = mailbox.join.remote(team.rank, place, token, here.current_actor)
    number = ray.get(joined)
    while True:
        number, name, payload = ray.get(mailbox.next.remote(number))
        if name == "stop":
            return
        if name == "abort":
            # Ray Train then restarts all workers.
            raise GroupLost("Another worker failed, and this one cannot continue without it.")
        try:
            succeeded, value = True, _run(worker, name, payload)
        except Exception as error:
            kind = OutOfMemory if lacks_memory(error) else str
            succeeded, value = False, kind(traceback.format_exc())
        ray.get(mailbox.answer.remote(number, team.rank, succeeded, value))


def _run(worker: Worker, name: str, payload: tuple[Any, ...]) -> Any:
    """Run one command. What a trial leaves travels through the object store, from node to node."""
    if name == "outputs":
        return [ray.put(worker.outputs())]
    return getattr(worker, name)(*payload)
