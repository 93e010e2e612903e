"""Collect the loss builders by name; each takes exactly the parameters of its card."""

from search_spaces import find_own, pick, untagged
from trainables.losses import classification, nca, pair, proxy, triplet
from trainables.losses.objective import Builder, Objective

BUILDERS: dict[str, Builder] = {
    **pair.BUILDERS,
    **triplet.BUILDERS,
    **nca.BUILDERS,
    **proxy.BUILDERS,
    **classification.BUILDERS,
}


def find_builder(name: str) -> Builder:
    """Return the builder of one of our losses, or of your own: package.module:NAME."""
    return find_own(name).build if ":" in name else pick(BUILDERS, untagged(name), "loss")


__all__ = ["BUILDERS", "Objective", "find_builder"]
