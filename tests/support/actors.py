"""List the actors of ours that live in a cluster."""

from __future__ import annotations

from ray.util.state import list_actors

# Ray's first Train run in a cluster starts one, which never ends.
RAYS_OWN = "_AutoscalingCoordinatorActor"


def our_actors() -> list[str]:
    """Return the class names of the actors that are alive, sorted."""
    found = list_actors(filters=[("state", "=", "ALIVE")], limit=10_000)
    return sorted(actor.class_name for actor in found if actor.class_name != RAYS_OWN)
