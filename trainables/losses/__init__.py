"""Loss builders by name: each takes exactly what its card lists."""

from trainables.losses import classification, pair, proxy, triplet
from trainables.losses.objective import Builder, Objective

BUILDERS: dict[str, Builder] = {**pair.BUILDERS, **triplet.BUILDERS, **proxy.BUILDERS, **classification.BUILDERS}

__all__ = ["BUILDERS", "Objective"]
