"""What a cluster holds of ours."""

from __future__ import annotations

from ray.util.state import list_actors

RAYS_OWN = "_AutoscalingCoordinatorActor"  # one per cluster, made by the first Ray Train run, and there for good


def our_actors() -> list[str]:
    """The kinds of actors that are alive, sorted."""
    found = list_actors(filters=[("state", "=", "ALIVE")], limit=10_000)
    return sorted(actor.class_name for actor in found if actor.class_name != RAYS_OWN)
