"""Loss builders by name: each takes exactly what its card lists."""

from collections.abc import Callable

from trainables.losses import pair, proxy, triplet
from trainables.losses.objective import Objective

BUILDERS: dict[str, Callable[..., Objective]] = {**pair.BUILDERS, **triplet.BUILDERS, **proxy.BUILDERS}

__all__ = ["BUILDERS", "Objective"]
