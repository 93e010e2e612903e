"""Loss builders by name: each takes exactly what its card lists."""

from trainables.losses import classification, nca, pair, proxy, triplet
from trainables.losses.objective import Builder, Objective

BUILDERS: dict[str, Builder] = {
    **pair.BUILDERS,
    **triplet.BUILDERS,
    **nca.BUILDERS,
    **proxy.BUILDERS,
    **classification.BUILDERS,
}

__all__ = ["BUILDERS", "Objective"]
