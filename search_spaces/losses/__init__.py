"""The cards of all losses, by name."""

from search_spaces.losses import classification, pair, proxy, triplet
from search_spaces.space import LossSpace

LOSSES: dict[str, LossSpace] = {**pair.CARDS, **triplet.CARDS, **proxy.CARDS, **classification.CARDS}
