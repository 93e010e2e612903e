"""Collect the cards of all losses by name."""

from search_spaces.losses import classification, nca, pair, proxy, triplet
from search_spaces.space import LossSpace

LOSSES: dict[str, LossSpace] = {
    **pair.CARDS,
    **triplet.CARDS,
    **nca.CARDS,
    **proxy.CARDS,
    **classification.CARDS,
}
