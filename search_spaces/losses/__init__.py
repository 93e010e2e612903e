"""Collect the cards of all losses by name."""

from search_spaces.losses import classification, nca, pair, proxy, structured, triplet
from search_spaces.space import LossSpace

LOSSES: dict[str, LossSpace] = {
    **pair.CARDS,
    **structured.CARDS,
    **triplet.CARDS,
    **nca.CARDS,
    **proxy.CARDS,
    **classification.CARDS,
}
