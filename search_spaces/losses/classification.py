"""Cards of the losses over a weight per class."""

from search_spaces.space import LossSpace

CARDS: dict[str, LossSpace] = {}
