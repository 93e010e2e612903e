"""What may vary, and who said so. Standard library only."""

from search_spaces.losses import LOSSES
from search_spaces.own import OwnLoss, find_card, find_own, untagged
from search_spaces.space import Choice, Grid, LossSpace, Param, Range, Value, pick, text

__all__ = [
    "LOSSES",
    "Choice",
    "Grid",
    "LossSpace",
    "OwnLoss",
    "Param",
    "Range",
    "Value",
    "find_card",
    "find_own",
    "pick",
    "text",
    "untagged",
]
